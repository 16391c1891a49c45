//===- LaneSoftmax.h - The online softmax on what a thread holds -*- C++ -*-==//
//
// The softmax update of the tiled form on a thread's elements of a score tile.
// The arithmetic is the tiled form's, cloned by the slicer; what is made here
// is the order of things and the reductions.
//
// A row sum stays a partial sum of each thread until the sweep ends; only the
// maximum is combined over the threads of a row in every block.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESOFTMAX_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESOFTMAX_H

#include "LaneKernel.h"

namespace attn::spv {

/// m, l and acc of a thread: [rows], [rows], [rows][quads][4].
struct SoftmaxState {
  Registers max, sum, acc;

  Registers values() const;
  SoftmaxState with(mlir::ValueRange values) const;
};

class LaneSoftmax {
public:
  LaneSoftmax(Thread &thread, LaneLayout &layout, mlir::IRMapping &scalars)
      : thread(thread), e(thread.e), kernel(thread.kernel),
        form(thread.kernel.form), layout(layout), scalars(scalars) {}

  mlir::FailureOr<SoftmaxState> initial();

  /// The scores of a block from the raw product: score region and masks, the
  /// latter only in blocks on an edge. `whenTested` is called where the masks
  /// are tested.
  mlir::FailureOr<Registers>
  finishScores(Registers raw,
               llvm::function_ref<mlir::LogicalResult()> whenTested);

  /// The greatest score of each row of the block and before; all threads
  /// together.
  Registers newMaximum(const Registers &scores, const SoftmaxState &state);

  /// The probabilities of a block. Updates the rows and rescales `acc` to
  /// `max`; with a conditional softmax, each thread of a row decides alike
  /// whether.
  mlir::FailureOr<Registers> update(const Registers &scores, Registers max,
                                    SoftmaxState &state);

  /// m, l and acc after the last block, for the ops behind the sweep.
  void finish(SoftmaxState state);

private:
  mlir::LogicalResult correct(SoftmaxState &state, const Registers &max);
  mlir::FailureOr<mlir::Value> vote();
  Registers hidePadding(Registers scores);

  Thread &thread;
  GpuEmitter &e;
  const LaneKernel &kernel;
  TiledForm &form;
  LaneLayout &layout;
  mlir::IRMapping &scalars;
};

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESOFTMAX_H
