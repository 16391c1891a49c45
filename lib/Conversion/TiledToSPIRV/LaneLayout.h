//===- LaneLayout.h - Tiles cut to the elements of a thread -----*- C++ -*-===//
//
// A thread holds the same rows of every tile, and some columns of each: single
// numbers, in the order [row][column]. The tile arithmetic of the tiled form is
// cut to such elements by the slicer.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANELAYOUT_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANELAYOUT_H

#include "../Common/GpuEmitter.h"
#include "../Common/TileSlicer.h"

namespace attn::spv {

using Registers = llvm::SmallVector<mlir::Value>;

class LaneLayout {
public:
  /// `rows` are the thread's rows within the tile, `keys` its columns of the
  /// scores and `columns` those of the accumulator; index values.
  LaneLayout(GpuEmitter &e, mlir::IRMapping &scalars, Registers rows,
             Registers keys, Registers columns)
      : slicer(e.b, e.loc, scalars), rowsOf(std::move(rows)),
        keysOf(std::move(keys)), columnsOf(std::move(columns)) {}

  /// From here on `value` of the tiled form is what this thread holds of it.
  void bindTile(mlir::Value value, Registers elements);
  void bindRows(mlir::Value value, Registers rows);

  /// This thread's elements of a tile of scores, and of one like the
  /// accumulator.
  mlir::FailureOr<Registers> scores(mlir::Value value) {
    return tile(value, keysOf);
  }
  mlir::FailureOr<Registers> accumulator(mlir::Value value) {
    return tile(value, columnsOf);
  }
  /// The thread's elements of a value a row.
  mlir::FailureOr<Registers> rows(mlir::Value value);
  /// The thread's elements of a column of a tile.
  mlir::FailureOr<Registers> columnOf(mlir::Value value, mlir::Value at) {
    return tile(value, at);
  }
  /// An element of a tile of scores, and of a value a row, by its number among
  /// the thread's rows and keys.
  mlir::FailureOr<mlir::Value> pair(mlir::Value value, size_t row, size_t key);
  mlir::FailureOr<mlir::Value> rowOf(mlir::Value value, size_t row);
  /// See TileSlicer.
  void padRows() { slicer.padRows(); }
  /// An element of a flat vector.
  mlir::FailureOr<mlir::Value> element(mlir::Value vector, mlir::Value at) {
    return slicer.lanes(vector, {at, at, 0});
  }

  size_t numRows() const { return rowsOf.size(); }
  llvm::ArrayRef<mlir::Value> rowNumbers() const { return rowsOf; }
  llvm::ArrayRef<mlir::Value> keyNumbers() const { return keysOf; }
  llvm::ArrayRef<mlir::Value> columnNumbers() const { return columnsOf; }

private:
  mlir::FailureOr<Registers> tile(mlir::Value value,
                                  llvm::ArrayRef<mlir::Value> columns);

  TileSlicer slicer;
  Registers rowsOf, keysOf, columnsOf;
  /// The element being made.
  size_t row = 0, column = 0;
};

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANELAYOUT_H
