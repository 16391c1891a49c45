//===- FragmentSoftmax.h - The online softmax over fragments ----*- C++ -*-===//
//
// The softmax update of the tiled form on what one thread holds of a score
// tile. The arithmetic is the tiled form's, cloned by the slicer; what is made
// here is the order of things and the reductions.
//
// A row sum stays a partial sum of each thread until the sweep ends; only the
// maximum is combined over the four lanes of a row in every block.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_FRAGMENTSOFTMAX_H
#define ATTN_LIB_CONVERSION_COMMON_FRAGMENTSOFTMAX_H

#include "AccumulatorLayout.h"
#include "TiledForm.h"

namespace attn {

/// m and l of a thread's two rows.
struct SoftmaxRows {
  RowPair max, sum;
};

class FragmentSoftmax {
public:
  FragmentSoftmax(GpuEmitter &e, TiledForm &form, AccumulatorLayout &layout,
                  mlir::IRMapping &scalars)
      : e(e), form(form), layout(layout), scalars(scalars) {}

  /// m and l before the first block. The first of the lanes that share a row
  /// (`isFirst`, i1) holds what the row starts with.
  mlir::FailureOr<SoftmaxRows> initial(mlir::Value isFirst);

  /// The scores of a block from the raw product: score region and masks, the
  /// latter only in blocks on an edge. `whenTested` is called where the masks
  /// are tested.
  mlir::FailureOr<Fragment>
  finishScores(Fragment raw,
               llvm::function_ref<mlir::LogicalResult()> whenTested = {});

  /// The probabilities of a block, rounded and packed. Updates the rows and
  /// rescales `acc`, by the softmax reference that the tiling names; votes are
  /// a warp's.
  /// `waitForAccumulator` is called before anything of `acc` is touched or
  /// anything is packed. In the first block `acc` is zero and every vote would
  /// call for a new reference; it is taken without asking.
  mlir::FailureOr<Registers>
  update(Fragment scores, SoftmaxRows &rows, Fragment &acc, bool isFirst,
         llvm::function_ref<void()> waitForAccumulator);

  /// m, l and acc after the last block, for the ops behind the sweep.
  void finish(SoftmaxRows rows, Fragment acc);

private:
  mlir::FailureOr<Registers>
  followMaximum(Fragment &scores, SoftmaxRows &rows, Fragment &acc,
                bool isFirst, llvm::function_ref<void()> waitForAccumulator);
  mlir::FailureOr<Registers>
  keepReference(Fragment &scores, SoftmaxRows &rows, Fragment &acc,
                bool isFirst, llvm::function_ref<void()> waitForAccumulator);
  /// The sum of the probabilities is added to `sum`.
  Registers finishProbabilities(Fragment &tile, RowPair &sum);
  /// m' from the scores, in the slicer and as the result.
  RowPair newMaximum(Fragment &scores, const SoftmaxRows &rows);
  /// m', l and acc by the factor of the change of reference.
  mlir::LogicalResult correct(SoftmaxRows &rows, Fragment &acc, RowPair max,
                              bool isFirst);
  mlir::FailureOr<mlir::Value> vote();

  GpuEmitter &e;
  TiledForm &form;
  AccumulatorLayout &layout;
  mlir::IRMapping &scalars;
};

/// Clones the scalars of `block` whose operands are there.
void cloneScalars(GpuEmitter &e, mlir::Block &block, mlir::IRMapping &scalars);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_FRAGMENTSOFTMAX_H
