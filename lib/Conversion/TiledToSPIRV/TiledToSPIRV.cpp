//===- TiledToSPIRV.cpp - The tiled form on a Vulkan device ---------------===//
//
// A workgroup a task, of ordinary lanes that multiply and add:
//
//   copy the query tile to shared memory                      (TileCopy)
//   for each key/value block that the masks reach             (Sweep)
//     S = Q K: a few rows times a few keys a thread           (LaneProduct)
//     score region, masks, softmax on what a thread holds     (LaneSoftmax)
//     acc += P V, with P through shared memory                (LaneProduct)
//   write acc / l, and the lse                                (Results)
//
// Nothing is assumed of subgroups: threads that share a row meet in shared
// memory. f16 and bf16 are widened on their way there and multiplied as f32,
// probabilities included, so nothing is rounded but the results.
//
// Precondition: a target of the family "vulkan", product = "fma" in the tiling.
// Task loops with another product are left alone.
//
//===----------------------------------------------------------------------===//

#include "LaneKernel.h"
#include "LaneScalars.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {
#define GEN_PASS_DEF_TILEDTOSPIRV
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::spv;

static LaneLayout layOut(Thread &thread, IRMapping &scalars) {
  GpuEmitter &e = thread.e;
  const LaneTiles &tiles = thread.kernel.tiles;
  Registers rows, keys, columns;
  for (int64_t i = 0; i < tiles.rows; ++i)
    rows.push_back(thread.rowOf(i));
  for (int64_t j = 0; j < tiles.keys; ++j)
    keys.push_back(e.add(thread.column, j * tiles.columnThreads));
  for (int64_t q = 0; q < tiles.quads; ++q) {
    Value quad = e.add(thread.column, q * tiles.columnThreads);
    for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
      columns.push_back(e.add(e.mul(quad, LaneTiles::kQuad), d));
  }
  return LaneLayout(e, scalars, rows, keys, columns);
}

static LogicalResult emitTask(Thread &thread, const KernelOutline &outline,
                              Value number) {
  GpuEmitter &e = thread.e;
  TiledForm &form = thread.kernel.form;
  IRMapping scalars = enterTask(e, form, outline, number);
  LaneScalars lane(e, scalars);
  if (failed(lane.clone(*form.tasks.getBody())))
    return failure();
  LaneLayout layout = layOut(thread, scalars);
  if (form.sweep && failed(emitSweep(thread, scalars, layout)))
    return failure();
  return emitResults(thread, scalars, layout);
}

static LogicalResult emitKernel(TiledForm &form) {
  FailureOr<LaneKernel> kernel = LaneKernel::plan(form);
  FailureOr<std::string> tasks = countTasks(form.tasks);
  if (failed(kernel) || failed(tasks))
    return failure();
  Launch launch;
  launch.grid = *tasks;
  launch.workgroup = kernel->tiles.threads;
  launch.sharedMemory = form.sweep ? kernel->tiles.sharedBytes() : 0;
  FailureOr<KernelOutline> outline = outlineKernel(form.tasks, launch);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.tasks.getLoc()};
  Thread thread(e, *kernel);
  Value number = taskOfGrid(thread.e);
  auto [batch, heads, blocks] = taskSizes(thread.e, form.tasks, *outline);
  Value count = e.mul(e.mul(batch, heads), blocks);
  bool valid = true;
  e.branch(e.less(number, count),
           [&]() { valid = succeeded(emitTask(thread, *outline, number)); });
  if (!valid)
    return failure();
  form.tasks->getParentOfType<func::FuncOp>().erase();
  return success();
}

namespace {
struct TiledToSPIRV : attn::impl::TiledToSPIRVBase<TiledToSPIRV> {
  void runOnOperation() override {
    auto takes = [](TilingAttr tiling) {
      return !tiling || tiling.getValue().product == "fma";
    };
    if (failed(mapTaskLoops(getOperation(), takes, emitKernel)))
      signalPassFailure();
  }
};
} // namespace
