//===- TiledToMMA.cpp - The tiled form on warps of an NVIDIA GPU ----------===//
//
// One block of threads a task. Its warps own 16 rows each, or a few times 16,
// and keep scores, probabilities and accumulator in registers:
//
//   copy the query tile to shared memory                      (TileCopy)
//   for each key/value block that the masks reach             (Sweep)
//     copy it to shared memory, ahead of its use
//     S = Q K by mma.sync, or by multiply-adds     (MmaProduct, LaneProduct)
//     score region, masks, softmax on what a thread holds (FragmentSoftmax)
//     acc += P V; P goes from the accumulator's layout to a left side's
//     without leaving its thread
//   write acc / l, and the lse                                (Results)
//
// This mapping takes whatever attn-tile makes: any head dimension, stride,
// alignment, mask and score region. Where a row's accumulator is too wide for a
// thread, warps share rows and split its columns.
//
// Precondition: product = "mma" (f16, bf16) or "fma" (f32, f64) in the tiling.
// Task loops with another product are left alone.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn {
#define GEN_PASS_DEF_TILEDTOMMA
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static LogicalResult emitTask(Thread &thread, const MmaKernel &kernel,
                              const KernelOutline &outline) {
  GpuEmitter &e = thread.e;
  TiledForm &form = kernel.form;
  Value number = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  IRMapping scalars = enterTask(e, form, outline, number);
  WarpScalars warp(e, scalars, e.toIndex(thread.lane));
  if (failed(warp.clone(*form.tasks.getBody())))
    return failure();
  std::deque<Slab> slabs;
  for (int64_t slab = 0; slab < kernel.tiles.slabs; ++slab) {
    slabs.emplace_back(thread, form, slab);
    slabs.back().scalars = scalars;
  }
  if (form.sweep && failed(emitSweep(thread, kernel, scalars, slabs)))
    return failure();
  return emitResults(thread, kernel, scalars, slabs);
}

static LogicalResult emitKernel(TiledForm &form) {
  FailureOr<MmaKernel> kernel = MmaKernel::plan(form);
  FailureOr<std::string> tasks = countTasks(form.tasks);
  if (failed(kernel) || failed(tasks))
    return failure();
  Launch launch;
  launch.grid = *tasks;
  launch.workgroup = kernel->threads();
  launch.sharedMemory = kernel->sharedBytes;
  FailureOr<KernelOutline> outline = outlineKernel(form.tasks, launch);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.tasks.getLoc()};
  Thread thread(e, *kernel, sharedMemory(e, outline->module));
  if (failed(emitTask(thread, *kernel, *outline)))
    return failure();
  form.tasks->getParentOfType<func::FuncOp>().erase();
  return success();
}

namespace {
struct TiledToMMA : attn::impl::TiledToMMABase<TiledToMMA> {
  void runOnOperation() override {
    auto takes = [](TilingAttr tiling) {
      return !tiling || tiling.getValue().product == "mma" ||
             tiling.getValue().product == "fma";
    };
    if (failed(mapTaskLoops(getOperation(), takes, emitKernel)))
      signalPassFailure();
  }
};
} // namespace
