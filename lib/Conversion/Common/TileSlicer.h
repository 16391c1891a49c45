//===- TileSlicer.h - A piece of a tile, computed where it is used -*- C++ -*-//
//
// A back end never holds a whole tile in registers. It asks for the piece that
// it works on, and the slicer clones the arithmetic that makes that piece:
// the same elementwise ops on fewer lanes, reads at shifted indices, positions
// offset by the piece's origin. Any score or mask region works this way, at
// the cost of its arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_TILESLICER_H
#define ATTN_LIB_CONVERSION_COMMON_TILESLICER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <functional>

namespace attn {

/// Makes pieces of the vectors of one tiled form.
///
/// - of a tile `vector<R x C>`: `width` elements of one row;
/// - of a column vector `vector<R x 1>`: its element at that row, a scalar;
/// - of a flat vector along `axis`: `width` elements, or one scalar.
///
/// A piece of width 0 is a single element, as a scalar: a thread of a GPU works
/// on those.
class TileSlicer {
public:
  /// Where a piece lies. `row` and `column` are index values. A thread with
  /// many pieces of a row may say that the column is `origin`, the same for
  /// all of them, plus `shift`.
  struct Piece {
    mlir::Value row, column;
    int64_t width;
    mlir::Value origin = {};
    int64_t shift = 0;
  };

  /// Makes the piece of a value that is kept in scratch or in registers.
  using Source = std::function<mlir::Value(const Piece &)>;

  /// `scalars` maps the scalars of the tiled form to their clones.
  TileSlicer(mlir::OpBuilder &builder, mlir::Location loc,
             mlir::IRMapping &scalars)
      : b(builder), loc(loc), scalars(scalars) {}

  /// From here on pieces of `value` come from `source`.
  void bind(mlir::Value value, Source source) {
    sources[value] = std::move(source);
  }
  /// Rows past the end of a memref are read as their padding. Without, they
  /// repeat its last row: for results that nobody reads.
  void padRows() { padsRows = true; }
  /// From here on pieces of `value` are computed again.
  void unbind(mlir::Value value) { sources.erase(value); }

  /// `width` consecutive elements of row `piece.row` of a tile.
  mlir::FailureOr<mlir::Value> tile(mlir::Value value, const Piece &piece);
  /// The element of a row vector (`vector<R>` or `vector<R x 1>`) at the row.
  mlir::FailureOr<mlir::Value> rowElement(mlir::Value value,
                                          const Piece &piece);
  /// `width` consecutive elements of a flat vector, from `piece.column`.
  mlir::FailureOr<mlir::Value> lanes(mlir::Value value, const Piece &piece);

  /// A scalar of the tiled form: its clone, or itself when defined outside.
  mlir::Value scalar(mlir::Value value) {
    return scalars.lookupOrDefault(value);
  }

private:
  enum class Shape { Tile, Row, Lanes };
  mlir::FailureOr<mlir::Value> slice(mlir::Value value, const Piece &piece,
                                     Shape shape);
  mlir::FailureOr<mlir::Value> sliceOp(mlir::Operation *op, mlir::Value value,
                                       const Piece &piece, Shape shape);
  mlir::FailureOr<mlir::Value>
  sliceElementwise(mlir::Operation *op, const Piece &piece, Shape shape);
  /// A position as a float, where it is a step a column: that of the origin is
  /// converted, and the distance added.
  mlir::FailureOr<mlir::Value> slicePosition(mlir::arith::SIToFPOp op,
                                             int64_t step, const Piece &piece,
                                             Shape shape);
  /// A line is a float that grows by the same from column to column: a position
  /// times what is level in the row, plus such. It is computed at the origin,
  /// and so is its growth; an element is one multiply-add then.
  bool isLine(mlir::Value value, Shape shape);
  bool isLevel(mlir::Value value, Shape shape);
  mlir::FailureOr<mlir::Value> growth(mlir::Value line, const Piece &first,
                                      Shape shape);
  mlir::FailureOr<mlir::Value> sliceLine(mlir::Value line, const Piece &piece,
                                         Shape shape);
  /// How far the columns of a piece are from its origin, in `step`s.
  mlir::Value distances(const Piece &piece, int64_t step);
  mlir::FailureOr<mlir::Value> sliceComparison(mlir::arith::CmpIOp op,
                                               const Piece &piece, Shape shape);
  /// That of a float made of such an integer, where it is not 0.
  std::optional<int64_t> positionStep(mlir::Value value, Shape shape);
  /// How much an integer grows from column to column, where that is a constant
  /// known by its arithmetic.
  std::optional<int64_t> columnStep(mlir::Value value, Shape shape);
  mlir::FailureOr<mlir::Value> sliceRead(mlir::Operation *op,
                                         const Piece &piece, Shape shape);
  mlir::FailureOr<mlir::Value> sliceGather(mlir::Operation *op,
                                           const Piece &piece, Shape shape);
  mlir::FailureOr<mlir::Value> sliceBroadcast(mlir::Operation *op,
                                              const Piece &piece, Shape shape);
  mlir::Value loadPadded(mlir::Value base,
                         llvm::SmallVector<mlir::Value> indices,
                         unsigned dimension, mlir::Value padding);
  mlir::Value loadBooleans(mlir::Value base,
                           llvm::ArrayRef<mlir::Value> indices,
                           mlir::AffineMap lanesMap, int64_t width);
  mlir::Value gatherBooleans(mlir::Value base,
                             llvm::ArrayRef<mlir::Value> offsets,
                             mlir::Value positions, int64_t width);
  mlir::Type pieceType(mlir::Type type, const Piece &piece, Shape shape);

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::IRMapping &scalars;
  llvm::DenseMap<mlir::Value, Source> sources;
  bool padsRows = false;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_TILESLICER_H
