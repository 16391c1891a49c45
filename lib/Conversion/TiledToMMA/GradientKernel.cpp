//===- GradientKernel.cpp - Shared memory and tasks of a sweep ------------===//
//
// Shared memory, laid out by MmaGradientTiles, of the head dimension and of
// values each:
//
//   what stays | stages of what passes | left sides | seen keys | terms
//
//===----------------------------------------------------------------------===//

#include "GradientKernel.h"
#include "../Common/ScratchMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static MmaGradientTiles tilesOf(GradientForm &form) {
  bool ordersTerms = !form.queries.pairs.empty() &&
                     form.queries.tasks->hasAttr(kInOrderAttrName);
  return MmaGradientTiles(form.tiling, form.headDim, form.valueDim,
                          form.elementType.getWidth() / 8,
                          form.accumulatorType.getWidth() / 8, ordersTerms);
}

GradientKernel::GradientKernel(GradientForm &form, bool isKeys)
    : form(form), isKeys(isKeys) {
  MmaGradientTiles both = tilesOf(form);
  tiles = isKeys ? both.keys : both.queries;
  elementType = form.elementType;
  accumulatorType = form.accumulatorType;
  usesTensorCores = form.tiling.product == "mma";
  warps = tiles.warps;
  stages = form.tiling.stages;
  split = tiles.split;
  exchange = tiles.exchange;
  staysValueAt = staysAt + tiles.stays.bytes();
  passesAt = staysValueAt + tiles.staysValue.bytes();
  passesValueAt = passesAt + stages * tiles.passes.bytes();
  exchangeAt = passesValueAt + stages * tiles.passesValue.bytes();
  seenAt = exchangeAt + exchange.bytes();
  termsAt = seenAt + tiles.seenBytes;
  sharedBytes = tiles.sharedBytes(stages);
}

/// Runs `body` for each task that the loop leaves to one block of threads.
static LogicalResult
forEachInOrder(Thread &thread, ArrayRef<scf::ForOp> loops, Block &block,
               IRMapping &scalars,
               function_ref<LogicalResult(IRMapping &)> body) {
  GpuEmitter &e = thread.e;
  WarpScalars warp(e, scalars, e.toIndex(thread.lane));
  if (failed(warp.clone(block)))
    return failure();
  if (loops.empty())
    return body(scalars);
  scf::ForOp loop = loops.front();
  bool valid = true;
  e.loop(scalars.lookup(loop.getLowerBound()),
         scalars.lookup(loop.getUpperBound()), scalars.lookup(loop.getStep()),
         {}, [&](Value number, ValueRange) {
           IRMapping inner(scalars);
           inner.map(loop.getInductionVar(), number);
           valid &= succeeded(forEachInOrder(thread, loops.drop_front(),
                                             *loop.getBody(), inner, body));
           // The next task reuses shared memory, and reads what this one added.
           thread.barrier();
           return SmallVector<Value>();
         });
  return success(valid);
}

LogicalResult GradientModule::addSweep(bool isKeys) {
  GradientKernel kernel(form, isKeys);
  Launch launch;
  launch.workgroup = kernel.threads();
  launch.sharedMemory = kernel.sharedBytes;
  scf::ForallOp tasks = kernel.tasks();
  return add(
      tasks, launch, isKeys ? "keys" : "queries",
      [&](GpuEmitter &e, KernelOutline &outline) {
        placeScratch(e, form.function, outline);
        Thread thread(e, kernel, sharedMemory(e, outline.module));
        Value number = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
        IRMapping scalars = enterTask(e, tasks, outline, number);
        ArrayRef<scf::ForOp> loops;
        if (!isKeys)
          loops = form.queries.inOrder;
        return forEachInOrder(thread, loops, *tasks.getBody(), scalars,
                              [&](IRMapping &task) {
                                return emitGradientTask(thread, kernel, task);
                              });
      });
}
