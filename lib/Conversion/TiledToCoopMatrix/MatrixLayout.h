//===- MatrixLayout.h - Which element of a matrix is which ------*- C++ -*-===//
//
// A driver keeps the elements of a cooperative matrix where it likes. A matrix
// that holds at each place the number of that place tells each thread which
// elements it has: row * 16 + column. It is loaded once, and from then on the
// tile arithmetic of the tiled form is cut to single elements by the slicer,
// so any score or mask region works whatever the layout.
//
// Where the target says how elements lie, and the device agreed when it was
// asked (LayoutCheck.cpp), a thread needs no such matrix, and knows which of
// its elements share a row.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRIXLAYOUT_H
#define ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRIXLAYOUT_H

#include "../Common/TileSlicer.h"
#include "Matrices.h"
#include "attn/IR/TargetDescription.h"

namespace attn::coop {

/// How a target says that elements lie: the bits of an element's number within
/// its lane and those of the lane each add a power of two to the place.
struct KnownLayout {
  llvm::SmallVector<int64_t> elementBits, laneBits;

  /// Null where the target says nothing of it, or what is no such layout of
  /// 16 x 16 elements.
  static std::optional<KnownLayout> of(const TargetDescription &target);

  /// What the element's number adds to the place, and the lane.
  int64_t placeOf(int64_t element) const;
  mlir::Value placeOf(GpuEmitter &e, mlir::Value lane) const;
  /// Lanes that share a row differ by some of these powers of two.
  llvm::SmallVector<int64_t> lanesOfRow() const;
};

/// Which of a thread's elements share a row of a matrix.
struct RowSharing {
  /// The number of each element's row among the thread's, and an element of
  /// each row, its first.
  llvm::SmallVector<int64_t> rowOf, elementOf;

  /// Elements of one row when the layout is known, else each has its own.
  RowSharing(int64_t elements, const KnownLayout *layout);
};

/// What a thread holds of a tile, a list for each matrix of 16 columns.
using Fragments = llvm::SmallVector<Values>;

/// Cuts the tiles of 16 rows to the elements of one thread.
class MatrixLayout {
public:
  /// Rows within the tile of the task and columns within a matrix, of each
  /// element; index values.
  MatrixLayout(GpuEmitter &e, TileSlicer &slicer, const RowSharing &sharing,
               Values rows, Values columns)
      : e(e), slicer(slicer), sharing(sharing), rowNumbers(std::move(rows)),
        columnNumbers(std::move(columns)) {}

  int64_t count() const { return rowNumbers.size(); }
  mlir::Value rowOf(int64_t element) const { return rowNumbers[element]; }
  mlir::Value columnOf(int64_t element) const { return columnNumbers[element]; }

  /// From here on `value` of the tiled form is what this thread holds of it.
  void bind(mlir::Value value, const Fragments &tile);
  void bindRows(mlir::Value value, const Values &rows);

  /// This thread's part of a tile of `columns` columns.
  mlir::FailureOr<Fragments> tile(mlir::Value value, int64_t columns);
  /// One element of a tile, and the elements of a row vector for each of the
  /// thread's rows.
  mlir::FailureOr<mlir::Value> element(mlir::Value value, int64_t matrix,
                                       int64_t element);
  mlir::FailureOr<Values> rows(mlir::Value value);

private:
  GpuEmitter &e;
  TileSlicer &slicer;
  const RowSharing &sharing;
  Values rowNumbers, columnNumbers;
  /// The piece being made.
  int64_t currentMatrix = 0, currentElement = 0;
};

} // namespace attn::coop

#endif // ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRIXLAYOUT_H
