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
// Nothing is assumed of the layout of a matrix, but for one thing that the
// target has to promise ("matrix_layout_shared"): a left side of 16-bit
// elements lies in the threads as the accumulator does.
//
// Precondition: product = "coopmat" in the tiling, of a Vulkan target. Task
// loops with another product are left alone.
//
//===----------------------------------------------------------------------===//

#include "../Common/TaskLoop.h"
#include "CoopKernel.h"
#include "attn/Conversion/Passes.h"
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

static LogicalResult emitTask(GpuEmitter &e, const CoopKernel &kernel,
                              const KernelOutline &outline, Value number) {
  TiledForm &form = kernel.form;
  Thread thread(e, kernel, outline.module);
  IRMapping scalars = enterTask(e, form, outline, number);
  cloneScalars(e, *form.tasks.getBody(), scalars);
  std::deque<Slab> slabs;
  for (int64_t slab = 0; slab < kernel.tiles.slabs; ++slab) {
    slabs.emplace_back(thread, slab);
    slabs.back().scalars = scalars;
  }
  if (form.sweep && failed(emitSweep(thread, scalars, slabs)))
    return failure();
  return emitResults(thread, scalars, slabs);
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
  form.tasks->getParentOfType<func::FuncOp>().erase();
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
