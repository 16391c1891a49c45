//===- LaneKernel.cpp - Shared memory and threads of a kernel -------------===//

#include "LaneKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

static LogicalResult verifyMappable(TiledForm &form) {
  const Tiling &t = form.tiling;
  auto refuse = [&](const Twine &what) {
    return form.tasks.emitOpError("cannot map tiles to lanes: ") << what;
  };
  if (form.isStale())
    return refuse("expected softmax = \"exact\" or \"conditional\", got \"" +
                  Twine(t.softmax) + "\", whose vote would stop all threads");
  if (t.stages != 1)
    return refuse("expected one stage");
  int64_t limit = form.target.maxWorkgroupThreads;
  int64_t threads = t.groups * lanesOfGroup(form.target);
  if (limit > 0 && threads > limit)
    return refuse("expected at most " + Twine(limit) + " threads, got " +
                  Twine(threads) + "; give fewer groups");
  return success();
}

FailureOr<LaneKernel> LaneKernel::plan(TiledForm &form) {
  if (failed(verifyMappable(form)))
    return failure();
  LaneKernel kernel{form, LaneTiles(form.tiling, form.target, form.headDim,
                                    form.valueDim,
                                    form.accumulatorType.getWidth() / 8,
                                    /*hidesKeys=*/bool(form.seen))};
  const LaneTiles &tiles = kernel.tiles;
  if (!tiles.isValid())
    return form.tasks.emitOpError("cannot map tiles to lanes: ")
           << tiles.threads << " threads cannot share " << form.blockQuery
           << " rows; expected groups that are a power of two";
  int64_t limit = form.target.scratchBytes;
  if (limit > 0 && tiles.sharedBytes() > limit)
    return form.tasks.emitOpError("cannot map tiles to lanes: they need ")
           << tiles.sharedBytes() << " bytes of shared memory, and '"
           << form.target.name << "' has " << limit << "; give smaller blocks";
  return kernel;
}

Thread::Thread(GpuEmitter emitter, const LaneKernel &kernel)
    : LaneThread(emitter, kernel.tiles.threads, kernel.type()), kernel(kernel) {
  const LaneTiles &tiles = kernel.tiles;
  int64_t quadBytes = LaneTiles::kQuad * type.getWidth() / 8;
  row = e.div(id, tiles.columnThreads);
  column = e.rem(id, tiles.columnThreads);
  if (!kernel.form.sweep)
    return;
  auto rowVector = VectorType::get(tiles.rowVector(), type);
  query = allocateShared(e, tiles.queryBytes / quadBytes, quadType());
  block = allocateShared(e, tiles.blockBytes / quadBytes, quadType());
  probabilities =
      allocateShared(e,
                     tiles.probabilityBytes /
                         (rowVector.getNumElements() * type.getWidth() / 8),
                     rowVector);
  reduction =
      allocateShared(e, tiles.reductionBytes / (type.getWidth() / 8), type);
  seen = allocateShared(e, tiles.seenBytes / sizeof(int32_t), e.b.getI32Type());
}

Registers Thread::combineRows(const Registers &rows, Combine combine) {
  Registers places;
  for (size_t i = 0; i < rows.size(); ++i)
    places.push_back(rowOf(i));
  return LaneThread::combine(rows, places, column, kernel.tiles.columnThreads,
                             kernel.form.blockQuery, reduction, combine);
}
