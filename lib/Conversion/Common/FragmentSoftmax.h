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
  /// `sumsInProduct`: row sums come with the values, as the last group of
  /// columns of `acc`; those of `SoftmaxRows` are not used.
  FragmentSoftmax(GpuEmitter &e, TiledForm &form, AccumulatorLayout &layout,
                  mlir::IRMapping &scalars, bool sumsInProduct = false)
      : e(e), form(form), layout(layout), scalars(scalars),
        sumsInProduct(sumsInProduct) {}

  /// m and l before the first block. The first of the lanes that share a row
  /// (`isFirst`, i1) holds what the row starts with.
  mlir::FailureOr<SoftmaxRows> initial(mlir::Value isFirst);

  /// The finished scores of a block, see TiledForm, from the raw product: score
  /// region and masks, the latter only in blocks on an edge. `whenTested` is
  /// called where the masks are tested.
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
  /// The sum of the probabilities is added to `sum`, unless a product makes it.
  Registers finishProbabilities(Fragment &tile, RowPair &sum);
  mlir::FailureOr<Fragment> exactProbabilities(Fragment &scores,
                                               SoftmaxRows &rows, Fragment &acc,
                                               bool isFirst);
  /// The greatest of the finished scores and what the row starts with, in the
  /// slicer and as the result.
  mlir::FailureOr<RowPair> newMaximum(Fragment finished);
  /// m', l and acc by the factor of the change of reference.
  mlir::LogicalResult correct(SoftmaxRows &rows, Fragment &acc, RowPair max,
                              bool isFirst);
  mlir::FailureOr<mlir::Value> vote();

  GpuEmitter &e;
  TiledForm &form;
  AccumulatorLayout &layout;
  mlir::IRMapping &scalars;
  bool sumsInProduct;
};

/// Clones the scalars of `block` whose operands are there.
void cloneScalars(GpuEmitter &e, mlir::Block &block, mlir::IRMapping &scalars);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_FRAGMENTSOFTMAX_H
