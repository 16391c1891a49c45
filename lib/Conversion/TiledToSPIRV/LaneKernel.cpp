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

SharedTile spv::allocateShared(GpuEmitter &e, int64_t count, Type type) {
  if (count == 0)
    return {};
  auto space = gpu::AddressSpaceAttr::get(e.b.getContext(),
                                          gpu::AddressSpace::Workgroup);
  auto memory = MemRefType::get(count, type, MemRefLayoutAttrInterface(),
                                Attribute(space));
  return {memref::AllocOp::create(e.b, e.loc, memory)};
}

Thread::Thread(GpuEmitter emitter, const LaneKernel &kernel)
    : e(emitter), kernel(kernel) {
  const LaneTiles &tiles = kernel.tiles;
  FloatType type = kernel.type();
  int64_t quadBytes = LaneTiles::kQuad * type.getWidth() / 8;
  id = gpu::ThreadIdOp::create(e.b, e.loc, e.b.getIndexType(),
                               gpu::Dimension::x);
  row = e.div(id, tiles.columnThreads);
  column = e.rem(id, tiles.columnThreads);
  if (!kernel.form.sweep)
    return;
  auto rowVector = VectorType::get(tiles.rowVector(), type);
  query = allocateShared(e, tiles.queryBytes / quadBytes, kernel.quadType());
  block = allocateShared(e, tiles.blockBytes / quadBytes, kernel.quadType());
  probabilities =
      allocateShared(e,
                     tiles.probabilityBytes /
                         (rowVector.getNumElements() * type.getWidth() / 8),
                     rowVector);
  reduction =
      allocateShared(e, tiles.reductionBytes / (type.getWidth() / 8), type);
  seen = allocateShared(e, tiles.seenBytes / sizeof(int32_t), e.b.getI32Type());
}

void Thread::barrier() { gpu::BarrierOp::create(e.b, e.loc); }

/// By the last word of `seen`.
Value Thread::voteAny(Value any) {
  Value vote = e.index(kernel.tiles.seenBytes / sizeof(int32_t) - 1);
  barrier();
  e.branch(e.equals(id, 0), [&]() { seen.store(e, e.i32(0), vote); });
  barrier();
  e.branch(any, [&]() {
    memref::AtomicRMWOp::create(e.b, e.loc, arith::AtomicRMWKind::ori, e.i32(1),
                                seen.memory, vote);
  });
  barrier();
  return e.equals(seen.load(e, vote), 1);
}

Registers Thread::combineRows(const Registers &rows, Combine combine) {
  const LaneTiles &tiles = kernel.tiles;
  int64_t height = kernel.form.blockQuery;
  Value line = e.mul(column, height);
  for (auto [i, value] : llvm::enumerate(rows))
    reduction.store(e, value, e.add(line, rowOf(i)));
  barrier();
  Registers result;
  for (size_t i = 0; i < rows.size(); ++i) {
    Value combined;
    for (int64_t c = 0; c < tiles.columnThreads; ++c) {
      Value part = reduction.load(e, e.add(rowOf(i), c * height));
      combined = combined ? combine(combined, part) : part;
    }
    result.push_back(combined);
  }
  return result;
}
