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
                                    /*hidesKeys=*/form.seen || form.seenKeys)};
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
  if (tiles.rowThreads > 1) {
    Value pair = e.div(id, 2);
    row = e.add(e.mul(e.div(pair, tiles.columnThreads), 2), e.rem(id, 2));
    column = e.rem(pair, tiles.columnThreads);
  } else {
    row = e.index(0);
    column = id;
  }
  if (!kernel.form.sweep)
    return;
  auto rowVector = VectorType::get(tiles.rowVector(), type);
  query = allocateShared(e, tiles.queryBytes / quadBytes, quadType());
  block = allocateShared(e, tiles.blockBytes / quadBytes, quadType());
  if (tiles.streams) {
    probabilities = query;
    reduction = block;
    return;
  }
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
  if (kernel.tiles.streams)
    return combineQuads(rows, combine);
  Registers places;
  for (size_t i = 0; i < rows.size(); ++i)
    places.push_back(rowOf(i));
  return LaneThread::combine(rows, places, column, kernel.tiles.columnThreads,
                             kernel.form.blockQuery, reduction, combine);
}

/// Rows of a thread side by side, in quads of `block`.
Registers Thread::combineQuads(const Registers &rows, Combine combine) {
  const LaneTiles &tiles = kernel.tiles;
  constexpr int64_t kQuad = LaneTiles::kQuad;
  int64_t quads = rows.size() / kQuad, line = tiles.rowThreads * quads;
  Value first = e.mul(row, quads);
  auto quadOf = [&](int64_t number) {
    ArrayRef<Value> elements = ArrayRef(rows).slice(number * kQuad, kQuad);
    return vector::FromElementsOp::create(e.b, e.loc, quadType(), elements);
  };
  barrier();
  Value own = e.add(e.mul(column, line), first);
  for (int64_t q = 0; q < quads; ++q)
    reduction.store(e, quadOf(q), e.add(own, q));
  barrier();
  Registers result(rows.size());
  for (int64_t c = 0; c < tiles.columnThreads; ++c)
    for (int64_t q = 0; q < quads; ++q) {
      Value quad = reduction.load(e, e.add(first, c * line + q));
      for (int64_t i = 0; i < kQuad; ++i) {
        Value part = vector::ExtractOp::create(e.b, e.loc, quad, i);
        Value &combined = result[q * kQuad + i];
        combined = combined ? combine(combined, part) : part;
      }
    }
  return result;
}
