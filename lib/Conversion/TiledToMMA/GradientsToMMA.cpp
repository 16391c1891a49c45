//===- GradientsToMMA.cpp - The gradients on warps of an NVIDIA GPU -------===//
//
// A function of gradients becomes kernels that are launched one behind the
// other, and share a workspace of two numbers a row:
//
//   zeros    for the gradients of bias and captures
//   rows     delta and the reference of each row
//   keys     dK and dV: a block of threads for a block of keys, whose queries
//            pass by
//   queries  dQ: a block of threads for a block of queries, whose keys pass by;
//            gradients of bias and captures
//   sinks    the gradients of the sinks
//
// Those that nobody asked for are left out. The sweeps (GradientSweep.cpp) are
// the forward's but for their products: warps own 16 rows of what stays, and
// what passes by lies in stages of shared memory.
//
// This mapping takes whatever attn-tile makes of attn.attention_backward with
// query_gradient = "recomputed". No addition depends on the order of tasks but
// those to gradients of bias and captures where the op is not deterministic.
//
// Precondition: product = "mma" (f16, bf16) or "fma" (f32, f64) in the tiling.
// Functions with another product are left alone.
//
//===----------------------------------------------------------------------===//

#include "../Common/ScratchMemory.h"
#include "GradientKernel.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace attn {
#define GEN_PASS_DEF_GRADIENTSTOMMA
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::mma;

/// Task loops of gradients for warps; what only fills memory is for them
/// whatever it was planned for.
static bool isForWarps(func::FuncOp function) {
  bool isFilled = false, hasTasks = false, isPlanned = false;
  for (auto tasks : function.getOps<scf::ForallOp>()) {
    auto tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName);
    auto target = tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
    if (!tiling || !target || target.getValue().family != "cuda")
      return false;
    StringRef role = getRole(tasks);
    std::string product = tiling.getValue().product;
    if (role == role::kTasks)
      return false;
    isFilled |= role.empty();
    hasTasks |= !role.empty();
    isPlanned |= product == "mma" || product == "fma" || product.empty();
  }
  return hasTasks ? isPlanned : isFilled;
}

static LogicalResult verifyMappable(GradientForm &form) {
  const Tiling &t = form.tiling;
  if (!form.rows.tasks)
    return success();
  auto refuse = [&](const Twine &what) {
    return form.rows.tasks.emitOpError("cannot map gradients to warps: ")
           << what;
  };
  if (form.isAccumulated())
    return refuse("expected query_gradient = \"recomputed\"");
  bool isNarrow = form.elementType.getWidth() == 16;
  if (t.product == "mma" && !isNarrow)
    return refuse("expected elements of f16 or bf16 for product = \"mma\"");
  if (t.product == "fma" && isNarrow)
    return refuse("expected elements of f32 or f64 for product = \"fma\"");
  if (t.blockQuery % MmaTiles::kRows != 0 || t.blockKey % MmaTiles::kRows != 0)
    return refuse("expected a block_query and a block_key that are multiples "
                  "of 16");
  int64_t rows = t.groups * MmaTiles::kRows;
  if (rows % t.blockKey != 0 || !llvm::isPowerOf2_64(rows / t.blockKey))
    return refuse("expected groups of block_key / 16, or that times a power "
                  "of two");
  MmaGradientTiles tiles(t, form.headDim, form.valueDim, 1, 4, false);
  if (std::max(tiles.keys.warps, tiles.queries.warps) > 32)
    return refuse("expected at most 32 warps of either sweep");
  if (t.stages < 1)
    return refuse("expected one stage or more");
  return success();
}

LogicalResult GradientModule::add(
    scf::ForallOp tasks, Launch launch, const Twine &name,
    function_ref<LogicalResult(GpuEmitter &, KernelOutline &)> emit) {
  if (launch.grid.empty()) {
    FailureOr<std::string> count = countTasks(tasks);
    if (failed(count))
      return failure();
    launch.grid = *count;
  }
  launch.workspace = workspace;
  std::string full = (form.function.getName() + "_" + name).str();
  FailureOr<KernelOutline> outline = addKernel(tasks, launch, full, module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, tasks.getLoc()};
  return emit(e, *outline);
}

static LogicalResult emitKernels(func::FuncOp function) {
  FailureOr<GradientForm> form = readGradientForm(function, /*isWhole=*/false);
  if (failed(form) || failed(verifyMappable(*form)))
    return failure();
  FailureOr<std::string> workspace = scratchBytes(function);
  if (failed(workspace))
    return failure();
  GradientModule module{*form, {}, *workspace};
  for (auto [number, fill] : llvm::enumerate(form->fills))
    if (failed(module.addFill(fill, number)))
      return failure();
  if (form->rows.tasks && failed(module.addRows()))
    return failure();
  if ((form->keys.keyOutput || form->keys.valueOutput) &&
      failed(module.addSweep(/*isKeys=*/true)))
    return failure();
  if ((form->queries.output || !form->queries.pairs.empty()) &&
      failed(module.addSweep(/*isKeys=*/false)))
    return failure();
  if (form->sinks.tasks && failed(module.addSinks()))
    return failure();
  function.erase();
  return success();
}

namespace {
struct GradientsToMMA : attn::impl::GradientsToMMABase<GradientsToMMA> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions(llvm::make_filter_range(
        getOperation().getOps<func::FuncOp>(), isForWarps));
    for (func::FuncOp function : functions)
      if (failed(emitKernels(function)))
        return signalPassFailure();
  }
};
} // namespace
