//===- GradientSweep.cpp - dQ by a sweep over key blocks ------------------===//
//
// The recomputed query gradient, with no addition across tasks. A block of
// threads for two neighbouring query blocks of a head: one thread copies, each
// of two warpgroups has 64 rows, key blocks pass by for both.
//
//   for each key block that either of the two reaches:
//     wait K;  S = Q K^T;  wait V;  dP = dO V^T
//     wait S;  score region, masks;  P = exp2(S - reference)
//     wait dP; release V;  dS = P (dP - delta)
//     dQ += dS K;  wait;  release K
//   write scale dQ
//
// A block that a query block does not reach is hidden from its rows by the test
// of elements. Where a head has an odd number of query blocks, the last one is
// done twice, and written twice with the same bits.
//
//===----------------------------------------------------------------------===//

#include "../Common/GradientBlock.h"
#include "../Common/TaskLoop.h"
#include "Consumer.h"
#include "GradientKernels.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static constexpr int64_t kTileAlignment = 1024, kGroups = 2;
static constexpr int64_t kWarps = kWarpgroup / 32;

namespace {
enum SweepMap {
  RowQueryMap,
  RowGradientMap,
  KeyBlockMap,
  ValueBlockMap,
  RowOutputMap
};

struct SweepKernel {
  WarpgroupForm &form;
  QueryTasks &tasks;
  OperandTile query, gradient, key, value, output;
  /// Queries, then output gradients, of each warpgroup.
  Ring rowRing, keyRing, valueRing;
  int64_t sharedBytes = 0;

  explicit SweepKernel(WarpgroupForm &form) : form(form), tasks(form.queries) {}
  static FailureOr<SweepKernel> plan(WarpgroupForm &form);
  FailureOr<Launch> launch() const;
  int64_t rowBytes() const { return query.bytes() + gradient.bytes(); }
};

/// What a thread knows once it runs.
struct SweepThread {
  GpuEmitter e;
  const SweepKernel &kernel;
  const KernelOutline &outline;
  /// i32.
  Value id, shared;
  /// The scalars of the task of each warpgroup.
  std::array<IRMapping, kGroups> scalars;
  /// The keys that either sweeps (i32).
  Value firstKey, endKey;
};

class SweepConsumer {
public:
  SweepConsumer(SweepThread &thread, Value group);
  LogicalResult emit();

private:
  /// Maps the scalars of the block that begins at `key` (i32).
  FailureOr<Fragment> step(Value key, Value use, Fragment accumulator);
  RowPair readRows(Value address);
  void clear(const OperandTile &tile, Value key, Value address);
  void meet();

  SweepThread &thread;
  GpuEmitter &e;
  const SweepKernel &kernel;
  WarpgroupForm &form;
  QueryTasks &tasks;
  /// Those of the warpgroup's own task, chosen at run time.
  IRMapping scalars;
  Value group, inGroup, row, column, isWarpLeader, queryAddress,
      gradientAddress;
  RowPair reference, delta;
};
} // namespace

FailureOr<SweepKernel> SweepKernel::plan(WarpgroupForm &form) {
  SweepKernel kernel(form);
  QueryTasks &tasks = form.queries;
  bool valid = true;
  auto find = [&](OperandTile &tile, VectorTransferOpInterface access,
                  int64_t rows) {
    FailureOr<OperandTile> found = findOperand(access, rows);
    valid &= succeeded(found);
    if (succeeded(found))
      tile = *found;
  };
  find(kernel.query, tasks.query, form.blockQuery);
  find(kernel.gradient, tasks.outputGradient, form.blockQuery);
  find(kernel.key, tasks.key, form.blockKey);
  find(kernel.value, tasks.value, form.blockKey);
  find(kernel.output, tasks.output, form.blockQuery);
  if (!valid)
    return failure();
  kernel.rowRing.stages = 1;
  kernel.rowRing.stageBytes = kGroups * kernel.rowBytes();
  kernel.keyRing.stages = form.tiling.stages;
  kernel.keyRing.stageBytes = kernel.key.bytes();
  // The next values have until the next scores are there.
  kernel.valueRing.stages = form.splitsRoles() ? 1 : form.tiling.stages;
  kernel.valueRing.stageBytes = kernel.value.bytes();
  int64_t barriers = 0;
  for (Ring *ring : {&kernel.rowRing, &kernel.keyRing, &kernel.valueRing}) {
    ring->consumers = kGroups * kWarps;
    ring->barriers = barriers;
    barriers += ring->barrierBytes();
  }
  int64_t at = barriers;
  for (Ring *ring : {&kernel.rowRing, &kernel.keyRing, &kernel.valueRing}) {
    ring->tiles = llvm::alignTo(at, kTileAlignment);
    at = ring->tiles + ring->stages * ring->stageBytes;
  }
  kernel.sharedBytes = at;
  return kernel;
}

FailureOr<Launch> SweepKernel::launch() const {
  FailureOr<SmallVector<std::string>> counts = taskCounts(tasks.tasks);
  FailureOr<std::string> workspace = Workspace::bytes(form);
  if (failed(counts) || failed(workspace))
    return failure();
  Launch launch;
  launch.grid = (*counts)[0] + " * " + (*counts)[1] + " * ceildiv(" +
                (*counts)[2] + ", " + std::to_string(kGroups) + ")";
  launch.workgroup = (kGroups + 1) * kWarpgroup;
  launch.sharedMemory = sharedBytes;
  for (const OperandTile *tile : {&query, &gradient, &key, &value, &output})
    launch.tensorMaps.push_back(tile->tensorMap());
  launch.workspace = *workspace;
  return launch;
}

/// The tasks of both warpgroups, and what they sweep together.
static void enterTasks(SweepThread &thread) {
  GpuEmitter &e = thread.e;
  scf::ForallOp tasks = thread.kernel.tasks.tasks;
  auto [batches, heads, blocks] = taskSizes(e, tasks, thread.outline);
  Value pairs = e.div(e.add(blocks, kGroups - 1), kGroups);
  Value number = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  Value head = e.div(number, pairs), pair = e.rem(number, pairs);
  scf::ForOp sweep = thread.kernel.tasks.sweep;
  for (auto [group, scalars] : llvm::enumerate(thread.scalars)) {
    Value block =
        e.min(e.add(e.mul(pair, kGroups), int64_t(group)), e.add(blocks, -1));
    Value places[] = {e.div(head, heads), e.rem(head, heads), block};
    scalars = IRMapping(thread.outline.values);
    for (auto [variable, place] : llvm::zip(tasks.getInductionVars(), places))
      scalars.map(variable, e.toIndex(place));
    cloneScalars(e, *tasks.getBody(), scalars);
    Value first = e.toI32(scalars.lookupOrDefault(sweep.getLowerBound()));
    Value end = e.toI32(scalars.lookupOrDefault(sweep.getUpperBound()));
    // A sweep of nothing does not widen the other's.
    Value isEmpty = e.compare(arith::CmpIPredicate::sge, first, end);
    if (group == 0) {
      thread.firstKey = e.select(isEmpty, e.i32(INT32_MAX), first);
      thread.endKey = e.select(isEmpty, e.i32(0), end);
    } else {
      thread.firstKey =
          e.min(thread.firstKey, e.select(isEmpty, e.i32(INT32_MAX), first));
      thread.endKey = e.max(thread.endKey, e.select(isEmpty, e.i32(0), end));
    }
  }
}

static Value firstRowOf(GpuEmitter &e, vector::TransferReadOp read,
                        IRMapping &scalars) {
  return e.toI32(scalars.lookupOrDefault(read.getIndices()[0]));
}

static void emitCopies(SweepThread &thread) {
  GpuEmitter &e = thread.e;
  const SweepKernel &kernel = thread.kernel;
  const KernelOutline &outline = thread.outline;
  QueryTasks &tasks = kernel.tasks;
  Slot first{e.i32(0), e.i32(0)};
  kernel.rowRing.expect(e, thread.shared, first);
  Value barrier = kernel.rowRing.fullBarrier(e, thread.shared, first);
  Value address = kernel.rowRing.address(e, thread.shared, first);
  for (auto [group, scalars] : llvm::enumerate(thread.scalars)) {
    Value own = e.add(address, int64_t(group) * kernel.rowBytes());
    kernel.query.load(e, outline.tensorMaps[RowQueryMap], scalars,
                      firstRowOf(e, tasks.query, scalars), own, barrier);
    kernel.gradient.load(e, outline.tensorMaps[RowGradientMap], scalars,
                         firstRowOf(e, tasks.outputGradient, scalars),
                         e.add(own, kernel.query.bytes()), barrier);
  }
  // Keys and values are those of the head, whatever the rows are.
  IRMapping scalars = thread.scalars[0];
  e.loop(thread.firstKey, thread.endKey, e.i32(kernel.form.blockKey), e.i32(0),
         [&](Value key, ValueRange carried) {
           IRMapping step(scalars);
           step.map(tasks.sweep.getInductionVar(), e.toIndex(key));
           cloneScalars(e, *tasks.sweep.getBody(), step);
           Value use = carried[0];
           auto copy = [&](const Ring &ring, const OperandTile &tile,
                           vector::TransferReadOp read, SweepMap map) {
             Slot slot = ring.slot(e, use);
             ring.waitEmpty(e, thread.shared, slot);
             ring.expect(e, thread.shared, slot);
             tile.load(e, outline.tensorMaps[map], step,
                       firstRowOf(e, read, step),
                       ring.address(e, thread.shared, slot),
                       ring.fullBarrier(e, thread.shared, slot));
           };
           copy(kernel.keyRing, kernel.key, tasks.key, KeyBlockMap);
           copy(kernel.valueRing, kernel.value, tasks.value, ValueBlockMap);
           return SmallVector<Value>{e.add(use, 1)};
         });
}

/// The scalars of one task or the other: where they differ, by a choice.
static IRMapping chooseScalars(SweepThread &thread, Value group) {
  GpuEmitter &e = thread.e;
  IRMapping chosen(thread.outline.values);
  Value isFirst = e.equals(group, 0);
  scf::ForallOp tasks = thread.kernel.tasks.tasks;
  for (Value variable : tasks.getInductionVars())
    chosen.map(variable, e.select(isFirst, thread.scalars[0].lookup(variable),
                                  thread.scalars[1].lookup(variable)));
  cloneScalars(e, *tasks.getBody(), chosen);
  return chosen;
}

SweepConsumer::SweepConsumer(SweepThread &thread, Value group)
    : thread(thread), e(thread.e), kernel(thread.kernel), form(kernel.form),
      tasks(kernel.tasks), scalars(chooseScalars(thread, group)), group(group) {
  inGroup = e.bitAnd(thread.id, kWarpgroup - 1);
  Value lane = e.bitAnd(thread.id, 31);
  row = e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4));
  column = e.mul(e.bitAnd(lane, 3), 2);
  isWarpLeader = e.equals(lane, 0);
  Slot first{e.i32(0), e.i32(0)};
  queryAddress = e.add(kernel.rowRing.address(e, thread.shared, first),
                       e.mul(group, kernel.rowBytes()));
  gradientAddress = e.add(queryAddress, kernel.query.bytes());
}

/// The threads of the warpgroup.
void SweepConsumer::meet() {
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.add(group, 1),
                          e.i32(kWarpgroup), {}, Value());
}

/// The numbers of the thread's two rows.
RowPair SweepConsumer::readRows(Value address) {
  Value first =
      e.add(address, arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                            e.mul(row, 4)));
  RowPair pair;
  for (int64_t half : {0, 1})
    pair[half] =
        e.ptx("ld.global.f32 $0, [$1+" + std::to_string(32 * half) + "];",
              "=f,l,~{memory}", {e.b.getF32Type()}, {first})[0];
  return pair;
}

/// Each warpgroup for itself, before it reads.
void SweepConsumer::clear(const OperandTile &tile, Value key, Value address) {
  clearCropped(e, tile, scalars, e.toIndex(key), address, inGroup, kWarpgroup,
               [&]() {
                 fenceAsyncProxy(e);
                 meet();
               });
}

FailureOr<Fragment> SweepConsumer::step(Value key, Value use,
                                        Fragment accumulator) {
  IRMapping block(scalars);
  block.map(tasks.sweep.getInductionVar(), e.toIndex(key));
  cloneScalars(e, *tasks.sweep.getBody(), block);
  TileSlicer slicer(e.b, e.loc, block);
  AccumulatorLayout layout(e, slicer, e.toIndex(row), e.toIndex(column));
  BlockArithmetic<AccumulatorLayout> arithmetic(e, tasks, layout, block,
                                                form.blockKey);
  layout.bind(tasks.reference, reference);
  layout.bind(tasks.delta, delta);
  Value shared = thread.shared;
  Slot keySlot = kernel.keyRing.slot(e, use);
  Slot valueSlot = kernel.valueRing.slot(e, use);
  Value keys = kernel.keyRing.address(e, shared, keySlot);
  Value values = kernel.valueRing.address(e, shared, valueSlot);
  auto multiply = [&](Value rows, Value columns, int64_t dim) {
    fence(e);
    Fragment product = multiplyQueryKey(
        e, descriptor(e, rows), descriptor(e, columns), form.blockKey,
        llvm::alignTo(dim, kDepth), form.blockQuery, form.elementType);
    commit(e);
    return product;
  };
  kernel.keyRing.waitFull(e, shared, keySlot);
  clear(kernel.key, key, keys);
  Fragment scores = multiply(queryAddress, keys, form.headDim);
  kernel.valueRing.waitFull(e, shared, valueSlot);
  clear(kernel.value, key, values);
  Fragment ofProbabilities = multiply(gradientAddress, values, form.valueDim);
  wait(e, 1, {&scores});
  FailureOr<Fragment> p = arithmetic.probabilities(scores);
  if (failed(p))
    return failure();
  wait(e, 0, {&ofProbabilities});
  kernel.valueRing.release(e, shared, valueSlot, isWarpLeader);
  FailureOr<Fragment> dx = arithmetic.ofProducts(*p, ofProbabilities);
  if (failed(dx))
    return failure();
  Registers packed = packLeftSide(e, *dx, form.elementType);
  fence(e);
  accumulator =
      multiplyProbabilitiesValue(e, accumulator, packed, descriptor(e, keys),
                                 form.headDim, form.blockKey, form.elementType);
  commit(e);
  wait(e, 0, {&accumulator});
  kernel.keyRing.release(e, shared, keySlot, isWarpLeader);
  return accumulator;
}

LogicalResult SweepConsumer::emit() {
  Workspace workspace(e, form, thread.outline);
  SmallVector<Value> ids;
  for (Value variable : tasks.tasks.getInductionVars())
    ids.push_back(e.toI32(scalars.lookup(variable)));
  Value firstRow = firstRowOf(e, tasks.query, scalars);
  Value tile = workspace.tile(ids[0], ids[1], e.div(firstRow, form.blockQuery));
  reference = readRows(workspace.reference(tile));
  delta = readRows(workspace.delta(tile));
  kernel.rowRing.waitFull(e, thread.shared, {e.i32(0), e.i32(0)});
  SmallVector<Value> inits(form.headDim / 2, e.f32(0));
  inits.push_back(e.i32(0));
  bool valid = true;
  SmallVector<Value> sums =
      e.loop(thread.firstKey, thread.endKey, e.i32(form.blockKey), inits,
             [&](Value key, ValueRange carried) {
               FailureOr<Fragment> next =
                   step(key, carried.back(),
                        Fragment{SmallVector<Value>(carried.drop_back())});
               valid &= succeeded(next);
               if (!valid)
                 return SmallVector<Value>(carried);
               SmallVector<Value> yielded = next->elements;
               yielded.push_back(e.add(carried.back(), 1));
               return yielded;
             });
  if (!valid)
    return failure();
  sums.pop_back();
  // Through the queries, which only this warpgroup read.
  TileSlicer slicer(e.b, e.loc, scalars);
  AccumulatorLayout layout(e, slicer, e.toIndex(row), e.toIndex(column));
  layout.bind(tasks.sweep.getResult(0), Fragment{sums});
  if (failed(storeToShared(e, layout, tasks.output.getVector(), queryAddress,
                           form.blockQuery, inGroup)))
    return failure();
  fenceAsyncProxy(e);
  meet();
  e.branch(e.equals(inGroup, 0), [&]() {
    kernel.output.store(e, thread.outline.tensorMaps[RowOutputMap], scalars,
                        firstRow, queryAddress);
    NVVM::CpAsyncBulkCommitGroupOp::create(e.b, e.loc);
    NVVM::CpAsyncBulkWaitGroupOp::create(e.b, e.loc, 0, e.b.getUnitAttr());
  });
  return success();
}

LogicalResult hopper::emitSweepKernel(WarpgroupForm &form,
                                      gpu::GPUModuleOp &module) {
  FailureOr<SweepKernel> kernel = SweepKernel::plan(form);
  if (failed(kernel))
    return failure();
  FailureOr<Launch> launch = kernel->launch();
  if (failed(launch))
    return failure();
  FailureOr<KernelOutline> outline =
      addKernel(form.queries.tasks, *launch,
                (form.function.getName() + "_queries").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.queries.tasks.getLoc()};
  Value id = NVVM::ThreadIdXOp::create(b, e.loc, b.getI32Type());
  SweepThread thread{
      e, *kernel, *outline, id, sharedMemory(e, outline->module), {}, {}, {}};
  enterTasks(thread);
  return specialiseWarpgroups(
      e, id, thread.shared,
      {&kernel->rowRing, &kernel->keyRing, &kernel->valueRing},
      [&]() { emitCopies(thread); },
      [&](Value group) { return SweepConsumer(thread, group).emit(); });
}
