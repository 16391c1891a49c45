//===- SelectTiling.cpp - Choose target and tile sizes --------------------===//
//
// The pass that decides sizes. An op without `#attn.target` gets the
// target that the option names; an op without `#attn.tiling` gets the
// planner's choice for its target. What is already there was decided by
// somebody else and is kept, so the pass can run any number of times.
//
// Head dimensions must be static: they are the widths of tiles. Sequence
// lengths, batch and head counts may be dynamic; the planner then plans for a
// long sequence.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/KnownTargets.h"
#include "attn/Target/TilePlanner.h"
#include "attn/Transforms/Passes.h"

#define DEBUG_TYPE "attn-select-tiling"

namespace attn {
#define GEN_PASS_DEF_SELECTTILING
#include "attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

namespace {
struct SelectTiling : attn::impl::SelectTilingBase<SelectTiling> {
  using SelectTilingBase::SelectTilingBase;
  void runOnOperation() override;
};
} // namespace

static LogicalResult configure(AttentionOpInterface op, TargetAttr target) {
  if (!op.getTargetAttr())
    op.setTargetAttr(target);
  if (op.getTilingAttr())
    return success();
  llvm::Expected<TilingPlan> plan =
      selectTiling(getProblem(op), op.getTargetAttr().getValue());
  if (!plan)
    return emitError(op.getLoc()) << "cannot tile '" << op->getName()
                                  << "': " << llvm::toString(plan.takeError());
  op.setTilingAttr(TilingAttr::get(op.getContext(), plan->tiling));
  return success();
}

void SelectTiling::runOnOperation() {
  llvm::Expected<TargetDescription> target = lookupTarget(targetName);
  if (!target) {
    emitError(getOperation()->getLoc(), llvm::toString(target.takeError()));
    return signalPassFailure();
  }
  auto attribute = TargetAttr::get(&getContext(), *target);
  WalkResult result = getOperation()->walk([&](AttentionOpInterface op) {
    return failed(configure(op, attribute)) ? WalkResult::interrupt()
                                            : WalkResult::advance();
  });
  if (result.wasInterrupted())
    signalPassFailure();
}
