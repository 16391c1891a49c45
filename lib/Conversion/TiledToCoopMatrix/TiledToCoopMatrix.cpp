//===- TiledToCoopMatrix.cpp - The tiled form on cooperative matrices -----===//
//
// One workgroup a task. Its subgroups own 16 rows each, or a few times 16, and
// keep queries, scores, probabilities and accumulator in registers:
//
//   find out which elements of a matrix a thread holds     (MatrixLayout)
//   query tile through shared memory to left sides         (Sweep)
//   for each key/value block that the masks reach
//     copy it to shared memory through registers           (TileCopy)
//     S = Q K by cooperative matrices                      (Matrices)
//     score region, masks, softmax on a thread's elements  (MatrixSoftmax)
//     acc += P V; P becomes a left side within its thread
//   write acc / l, and the lse                             (Results)
//
// Nothing is assumed of the layout of a matrix, but for one thing that a target
// may promise ("matrix_layout_shared"): a left side of 16-bit elements lies in
// the threads as the accumulator does. Without, P goes through shared memory.
//
// A target may say how elements lie. Then the kernel has two bodies, one of
// which relies on that, and a specialisation constant chooses: false by itself,
// true where a second kernel has asked the device (LayoutCheck).
//
// Precondition: product = "coopmat" in the tiling, of a Vulkan target. Task
// loops with another product are left alone.
//
//===----------------------------------------------------------------------===//

#include "../Common/TaskLoop.h"
#include "CoopKernel.h"
#include "SubgroupScalars.h"
#include "attn/Conversion/Passes.h"
#include "attn/IR/MappedKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"

namespace attn {
#define GEN_PASS_DEF_TILEDTOCOOPMATRIX
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::coop;

/// Under a diagonal tasks are numbered within so many heads that their keys and
/// values take a third of the cache. There are about as many keys as queries.
static IRMapping enterTaskInGroups(GpuEmitter &e, const CoopKernel &kernel,
                                   const KernelOutline &outline, Value number) {
  TiledForm &form = kernel.form;
  int64_t rowBytes = kernel.tiles.key.columns + kernel.tiles.value.columns;
  rowBytes *= CoopMatrixTiles::kElementBytes;
  int64_t rows = form.target.cacheBytes / (3 * std::max<int64_t>(rowBytes, 1));
  Value group;
  if (form.rightBound && rows > 0) {
    Value blocks = taskSizes(e, form.tasks, outline)[2];
    group = e.max(e.div(e.i32(rows), e.mul(blocks, form.blockQuery)), e.i32(1));
  }
  return enterTask(e, form, outline, number, group);
}

/// Whether matrices lie in the device's threads as the target says.
static Value layoutConstant(GpuEmitter &e, gpu::GPUModuleOp module) {
  constexpr StringLiteral kName = "layout_is_known";
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto constant =
      spirv::SpecConstantOp::create(b, e.loc, kName, b.getBoolAttr(false));
  constant->setAttr("spec_id", b.getI32IntegerAttr(kLayoutConstant));
  return spirv::ReferenceOfOp::create(e.b, e.loc, b.getI1Type(),
                                      FlatSymbolRefAttr::get(constant));
}

static LogicalResult emitBody(GpuEmitter &e, const CoopKernel &kernel,
                              const KernelOutline &outline, IRMapping scalars,
                              const KnownLayout *layout) {
  TiledForm &form = kernel.form;
  Thread thread(e, kernel, outline.module, layout);
  std::deque<Slab> slabs;
  for (int64_t slab = 0; slab < kernel.tiles.slabs; ++slab) {
    slabs.emplace_back(thread, slab);
    slabs.back().scalars = scalars;
  }
  if (form.sweep && failed(emitSweep(thread, scalars, slabs)))
    return failure();
  return emitResults(thread, scalars, slabs);
}

static LogicalResult emitTask(GpuEmitter &e, const CoopKernel &kernel,
                              const KernelOutline &outline, Value number) {
  IRMapping scalars = enterTaskInGroups(e, kernel, outline, number);
  Value lane = gpu::LaneIdOp::create(e.b, e.loc, IntegerAttr());
  SubgroupScalars subgroup(e, scalars, lane, kernel.tiles.lanes);
  if (failed(subgroup.clone(*kernel.form.tasks.getBody())))
    return failure();
  if (!kernel.layout)
    return emitBody(e, kernel, outline, scalars, nullptr);
  bool valid = true;
  auto emit = [&](const KnownLayout *layout) {
    return [&, layout]() {
      valid &= succeeded(emitBody(e, kernel, outline, scalars, layout));
      return SmallVector<Value>();
    };
  };
  e.branchOr(layoutConstant(e, outline.module), emit(&*kernel.layout),
             emit(nullptr));
  return success(valid);
}

static LogicalResult emitKernel(TiledForm &form) {
  FailureOr<CoopKernel> kernel = CoopKernel::plan(form);
  FailureOr<std::string> tasks = countTasks(form.tasks);
  if (failed(kernel) || failed(tasks))
    return failure();
  Launch launch;
  launch.grid = *tasks;
  launch.workgroup = kernel->tiles.threads();
  launch.sharedMemory = kernel->tiles.sharedBytes();
  launch.subgroupSize = kernel->tiles.lanes;
  auto function = form.tasks->getParentOfType<func::FuncOp>();
  if (kernel->layout)
    launch.layoutCheck = layoutCheckName(function.getName());
  FailureOr<KernelOutline> outline = outlineKernel(form.tasks, launch);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.tasks.getLoc()};
  Value number = taskOfGrid(e);
  auto [batch, heads, blocks] = taskSizes(e, form.tasks, *outline);
  Value count = e.mul(e.mul(batch, heads), blocks);
  bool valid = true;
  e.branch(e.less(number, count), [&]() {
    valid = succeeded(emitTask(e, *kernel, *outline, number));
  });
  if (!valid)
    return failure();
  if (kernel->layout)
    emitLayoutCheck(*kernel, outline->module, launch.layoutCheck);
  function.erase();
  return success();
}

namespace {
struct TiledToCoopMatrix
    : attn::impl::TiledToCoopMatrixBase<TiledToCoopMatrix> {
  void runOnOperation() override {
    auto takes = [](TilingAttr tiling) {
      return tiling && tiling.getValue().product == "coopmat";
    };
    if (failed(mapTaskLoops(getOperation(), takes, emitKernel)))
      signalPassFailure();
  }
};
} // namespace
