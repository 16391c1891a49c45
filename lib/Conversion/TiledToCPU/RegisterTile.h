//===- RegisterTile.h - A product that stays in registers -------*- C++ -*-===//
//
//   for step:  for r, v: sums[r][v] += left[r][step] * right[step][v]
//
// A loop around rows x vectors accumulators. It takes several steps at once:
// fewer instructions beside the multiply-adds, and with as many as a register
// has lanes constant distances to the operands of a turn. On a core whose other
// thread is busy that decides the speed (docs/Performance.md).
//
// LeftRows is how rows of a left operand lie for it: those of a register tile
// side by side, a register of each at a time.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_REGISTERTILE_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_REGISTERTILE_H

#include "CpuKernel.h"
#include <functional>

namespace attn::cpu {

/// A step of a reduction, which is `lane` of register `group`.
struct Step {
  mlir::Value index, group, lane;

  static Step of(Emitter &e, mlir::Value index, int64_t width);
};

struct RegisterTile {
  RegisterTile(int64_t rows, int64_t vectors) : rows(rows), vectors(vectors) {}

  int64_t rows, vectors;
  /// What every lane of a row is multiplied by.
  std::function<mlir::Value(int64_t row, const Step &step)> left;
  /// A register for each vector.
  std::function<llvm::SmallVector<mlir::Value>(const Step &step)> right;
  std::function<mlir::Value(mlir::Value left, mlir::Value right,
                            mlir::Value sum)>
      multiplyAdd;

  /// The sums [row][vector] with one step more.
  llvm::SmallVector<mlir::Value> add(const Step &step,
                                     mlir::ValueRange sums) const;
  /// The sums with the steps [begin, end) more, `atOnce` in a turn, which are
  /// those of a register to Step. `begin` is a multiple of it.
  llvm::SmallVector<mlir::Value> addAll(Emitter &e, int64_t atOnce,
                                        mlir::Value begin, mlir::Value end,
                                        mlir::ValueRange sums) const;
};

/// Scratch [row tile][column / width][row of the tile][lane].
struct LeftRows {
  mlir::Value memory;
  int64_t tileRows = 1, width = 1;

  static LeftRows allocate(Emitter &e, int64_t rows, int64_t tileRows,
                           int64_t columns, mlir::VectorType lanes);
  /// Any row; of a piece the first column.
  llvm::SmallVector<mlir::Value> at(Emitter &e, mlir::Value row,
                                    mlir::Value column) const;
  /// Row `r` behind `row`, the first of a tile.
  llvm::SmallVector<mlir::Value> at(Emitter &e, mlir::Value row, int64_t r,
                                    const Step &step) const;
};

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_REGISTERTILE_H
