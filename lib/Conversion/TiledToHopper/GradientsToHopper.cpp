//===- GradientsToHopper.cpp - The gradients on warpgroups of Hopper ------===//
//
// A function of accumulated gradients becomes three kernels that are launched
// one behind the other:
//
//   rows     delta and the reference of each row, zeros for the sum of dQ
//   keys     dK and dV of a key block; dQ is added to its sum by atomic
//            additions of 16 bytes
//   queries  the query gradient from its sum
//
// They share a workspace in main memory: one f32 number for each element of the
// query, and two for each row.
//
//===----------------------------------------------------------------------===//

#include "GradientKernels.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace attn {
#define GEN_PASS_DEF_GRADIENTSTOHOPPER
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static bool isPlannedForWgmma(func::FuncOp function) {
  return llvm::any_of(function.getOps<scf::ForallOp>(), [](scf::ForallOp op) {
    auto tiling = op->getAttrOfType<TilingAttr>(kTilingAttrName);
    return getRole(op) == role::kKeyTasks && tiling &&
           tiling.getValue().product == "wgmma" &&
           tiling.getValue().queryGradient == "accumulated";
  });
}

static LogicalResult emitKernels(func::FuncOp function) {
  FailureOr<GradientForm> form = readGradientForm(function);
  if (failed(form))
    return failure();
  gpu::GPUModuleOp module;
  if (failed(emitRowKernel(*form, module)) ||
      failed(emitKeyKernel(*form, module)) ||
      failed(emitQueryKernel(*form, module)))
    return failure();
  function.erase();
  return success();
}

namespace {
struct GradientsToHopper
    : attn::impl::GradientsToHopperBase<GradientsToHopper> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions(llvm::make_filter_range(
        getOperation().getOps<func::FuncOp>(), isPlannedForWgmma));
    for (func::FuncOp function : functions)
      if (failed(emitKernels(function)))
        return signalPassFailure();
  }
};
} // namespace
