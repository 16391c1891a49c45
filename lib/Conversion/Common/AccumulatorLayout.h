//===- AccumulatorLayout.h - Which thread holds which score -----*- C++ -*-===//
//
// mma.sync and wgmma leave their f32 result in one layout: a warp owns 16 rows,
// and of each group of 8 columns a thread holds two neighbours in two rows,
//
//     row    = lane / 4 + 8 * half         half 0, 1
//     column = 8 * group + 2 * (lane % 4)  and the one beside it
//
// (PTX ISA, "Matrix fragments for mma.m16n8k16", "wgmma.mma_async, D"). Four
// neighbouring lanes share a row. The tile arithmetic of the tiled form is cut
// to pieces of two columns by the slicer, so any score or mask region is
// distributed over the layout by index arithmetic alone.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_ACCUMULATORLAYOUT_H
#define ATTN_LIB_CONVERSION_COMMON_ACCUMULATORLAYOUT_H

#include "GpuEmitter.h"
#include "TileSlicer.h"

namespace attn {

/// The elements of a tile that one thread holds: [columns / 8][half][2].
struct Fragment {
  llvm::SmallVector<mlir::Value> elements;

  int64_t groups() const { return elements.size() / 4; }
  mlir::Value &at(int64_t group, int64_t half, int64_t element) {
    return elements[4 * group + 2 * half + element];
  }
};

/// The fragment of a left side of 16-bit elements: 4 registers for 16 of depth.
/// It holds the elements that the accumulator's layout gives a thread, so
/// probabilities become a left side without leaving their thread. Wider
/// elements stay as they are.
using Registers = llvm::SmallVector<mlir::Value>;
Registers packLeftSide(GpuEmitter &e, Fragment &fragment, mlir::FloatType type);
/// What a left side holds, as f32.
Fragment unpackLeftSide(GpuEmitter &e, const Registers &registers,
                        mlir::FloatType type);

/// A value for each of the two rows of a thread.
using RowPair = std::array<mlir::Value, 2>;

/// For each row a number (f32) that is below 2 where all elements of a left
/// side of bf16 are; these are not negative.
RowPair joinExponents(GpuEmitter &e, const Registers &registers);

/// Cuts tiles to the pieces of one thread.
class AccumulatorLayout {
public:
  /// `row` is the row of half 0 within the tile, `column` that of group 0;
  /// both index values.
  AccumulatorLayout(GpuEmitter &e, TileSlicer &slicer, mlir::Value row,
                    mlir::Value column)
      : e(e), slicer(slicer), row{row, e.add(row, 8)}, column(column) {}

  /// Calls `body` with positions of columns that are made there. LLVM would
  /// compute those of all pieces once, in front of the sweep, and keep them in
  /// registers that tiles need.
  void withOwnPositions(llvm::function_ref<void()> body);

  /// From here on `value` of the tiled form is what this thread holds of it.
  void bind(mlir::Value value, Fragment fragment);
  void bind(mlir::Value value, RowPair rows);
  void unbind(mlir::Value value) { slicer.unbind(value); }

  /// This thread's part of a tile of `columns` columns.
  mlir::FailureOr<Fragment> tile(mlir::Value value, int64_t columns);
  /// The same, as pairs of columns: `use` gets each vector<2>.
  mlir::LogicalResult forEachPair(
      mlir::Value value, int64_t columns,
      llvm::function_ref<void(int64_t group, int64_t half, mlir::Value pair)>
          use);
  mlir::FailureOr<RowPair> rows(mlir::Value value);

  /// The two rows of this thread within the tile.
  mlir::Value rowOf(int64_t half) const { return row[half]; }

  /// Reduces over the elements of a thread's rows, from `initial`.
  RowPair maximum(Fragment &fragment, RowPair initial);
  RowPair sum(Fragment &fragment, RowPair initial);
  /// Combines the four lanes that share a row.
  RowPair maximumOverLanes(RowPair rows);
  RowPair sumOverLanes(RowPair rows);

private:
  template <typename OpTy> RowPair reduce(Fragment &fragment, RowPair initial);
  template <typename OpTy> RowPair reduceOverLanes(RowPair rows);

  GpuEmitter &e;
  TileSlicer &slicer;
  RowPair row;
  mlir::Value column;
  /// The piece being made.
  int64_t half = 0, group = 0;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_ACCUMULATORLAYOUT_H
