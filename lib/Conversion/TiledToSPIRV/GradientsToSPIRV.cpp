//===- GradientsToSPIRV.cpp - The gradients on a Vulkan device ------------===//
//
// A function of gradients becomes kernels that are launched one behind the
// other, a task loop each:
//
//   rows      delta of each row, to the workspace
//   keys      dK and dV of a block of keys, by a sweep over the rows
//   zeros     of gradients that pairs add to
//   queries   dQ of a block of rows, by a sweep over the keys; sums over pairs
//   sinks     the gradient of a head's sink
//
// A workgroup a task, of ordinary lanes that multiply and add as in the
// forward. Every number is the sum of one workgroup in a fixed order: nothing
// is atomic, and equal inputs give equal bits.
//
// Precondition: a target of the family "vulkan", product = "fma" and
// query_gradient = "recomputed" in the tiling. Functions with another product
// are left alone.
//
//===----------------------------------------------------------------------===//

#include "GradientLanes.h"
#include "attn/Conversion/Passes.h"

namespace attn {
#define GEN_PASS_DEF_GRADIENTSTOSPIRV
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::spv;

/// The task loops of gradients, if they were planned for lanes.
static SmallVector<scf::ForallOp> findTaskLoops(func::FuncOp function) {
  SmallVector<scf::ForallOp> loops;
  for (auto loop : function.getOps<scf::ForallOp>()) {
    auto tiling = loop->getAttrOfType<TilingAttr>(kTilingAttrName);
    // Loops without a role fill memory with zeros.
    if (tiling && tiling.getValue().product == "fma" &&
        llvm::is_contained({StringRef(role::kDeltaTasks),
                            StringRef(role::kKeyTasks),
                            StringRef(role::kQueryTasks),
                            StringRef(role::kSinkTasks), StringRef()},
                           getRole(loop)))
      loops.push_back(loop);
  }
  return loops;
}

static LogicalResult emitKernels(func::FuncOp function,
                                 ArrayRef<scf::ForallOp> loops) {
  FailureOr<GradientLanes> gradients = GradientLanes::plan(function, loops);
  if (failed(gradients))
    return failure();
  gpu::GPUModuleOp module;
  unsigned zeros = 0;
  for (scf::ForallOp loop : loops) {
    StringRef role = getRole(loop);
    LogicalResult emitted =
        role == role::kDeltaTasks  ? emitRowKernel(*gradients, loop, module)
        : role == role::kSinkTasks ? emitSinkKernel(*gradients, loop, module)
        : role.empty()
            ? emitZeroKernel(*gradients, loop, ("zeros" + Twine(zeros++)).str(),
                             module)
            : emitGradientKernel(*gradients, loop, module);
    if (failed(emitted))
      return failure();
  }
  function.erase();
  return success();
}

namespace {
struct GradientsToSPIRV : attn::impl::GradientsToSPIRVBase<GradientsToSPIRV> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      SmallVector<scf::ForallOp> loops = findTaskLoops(function);
      if (!loops.empty() && failed(emitKernels(function, loops)))
        return signalPassFailure();
    }
  }
};
} // namespace
