//===- Consumer.cpp - The sweep of a consumer warpgroup -------------------===//
//
// A warpgroup owns 64 rows. In each step the product Q K of a block runs beside
// P V of the block before it, and while a warpgroup works on its softmax the
// others have the tensor cores:
//
//   S = Q K(first block of the first task); softmax; P
//   for each task:
//     acc = 0
//     for block = 1 ..
//       wait K full; own turn
//       issue S = Q K(block); wait V full; issue acc += P V(block - 1)
//       next warpgroup's turn
//       wait S; release K; score region, masks; softmax
//       wait acc; release V; P
//     the same once more with S = Q K(first block of the next task)
//     write acc / l
//
// This is the intra- and inter-warpgroup overlap of Shah et al.,
// "FlashAttention-3" (2024), section 3.
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Named barriers: 0 is the whole block's, then a turn for each warpgroup,
/// then one among the threads of each.
static Value turnBarrier(GpuEmitter &e, Value group) {
  return e.add(group, 1);
}
Value hopper::groupBarrier(const Consumer &consumer) {
  GpuEmitter &e = consumer.thread.e;
  return e.add(consumer.group, 1 + consumer.thread.kernel.groups);
}

/// Two warpgroups meet at a turn: the one that waits, and the one that leaves.
static void waitTurn(Consumer &c) {
  GpuEmitter &e = c.thread.e;
  if (c.thread.kernel.groups > 1)
    NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), turnBarrier(e, c.group),
                            e.i32(2 * kWarpgroup), {}, Value());
}

static void passTurn(Consumer &c) {
  GpuEmitter &e = c.thread.e;
  int64_t groups = c.thread.kernel.groups;
  if (groups == 1)
    return;
  Value next = e.add(c.group, 1);
  next = e.select(e.equals(next, groups), e.i32(0), next);
  NVVM::BarrierArriveOp::create(e.b, e.loc, turnBarrier(e, next),
                                e.i32(2 * kWarpgroup));
}

namespace {
/// What is carried from block to block, and without `acc` from task to task.
struct SweepState {
  SoftmaxRows rows;
  Registers probabilities;
  Fragment acc;

  SmallVector<Value> values() const {
    SmallVector<Value> all;
    llvm::append_range(all, rows.max);
    llvm::append_range(all, rows.sum);
    llvm::append_range(all, probabilities);
    llvm::append_range(all, acc.elements);
    return all;
  }
  SweepState with(ValueRange values) const {
    SweepState state = *this;
    size_t next = 0;
    auto take = [&](MutableArrayRef<Value> targets) {
      for (Value &target : targets)
        target = values[next++];
    };
    take(state.rows.max);
    take(state.rows.sum);
    take(state.probabilities);
    take(state.acc.elements);
    return state;
  }
};

/// The part of one task in the sweep.
class Sweep {
public:
  Sweep(Consumer &c, ConsumerTask &task)
      : c(c), task(task), e(c.thread.e), kernel(c.thread.kernel),
        form(kernel.form), softmax(e, form, task.layout, task.scalars) {}

  /// The first block on its own.
  FailureOr<SweepState> start();
  /// The blocks behind the first.
  FailureOr<SweepState> continueTo(SweepState state);
  /// The last product, and the end of the task. The first block of `next`
  /// runs beside it.
  FailureOr<SweepState> finish(SweepState state);
  FailureOr<SweepState> finishInto(SweepState &state, Sweep &next);
  void close(const SweepState &state) { softmax.finish(state.rows, state.acc); }

private:
  Slot keySlot(Value block) {
    return kernel.keyRing.slot(e, e.add(task.firstUse, block));
  }
  Slot valueSlot(Value block) {
    return kernel.valueRing.slot(e, e.add(task.firstUse, block));
  }
  void enterBlock(Value block);
  Fragment issueScores(const Slot &slot);
  void issueOutput(SweepState &state, const Slot &slot);
  LogicalResult update(Fragment scores, SweepState &state, bool isFirst,
                       llvm::function_ref<void()> waitForAccumulator);
  FailureOr<SweepState> initial();

  Consumer &c;
  ConsumerTask &task;
  GpuEmitter &e;
  const HopperKernel &kernel;
  TiledForm &form;
  FragmentSoftmax softmax;
};
} // namespace

/// The scalars of the block.
void Sweep::enterBlock(Value block) {
  scf::ForOp sweep = form.sweep;
  Value first = task.scalars.lookup(sweep.getLowerBound());
  task.scalars.map(sweep.getInductionVar(),
                   e.add(first, e.mul(e.toIndex(block), form.blockKey)));
  cloneScalars(e, *sweep.getBody(), task.scalars);
}

Fragment Sweep::issueScores(const Slot &slot) {
  fence(e);
  Value address = kernel.keyRing.address(e, c.thread.shared, slot);
  Fragment scores = multiplyQueryKey(
      e, task.queryDescriptor, descriptor(e, address), form.blockKey,
      llvm::alignTo(form.headDim, kDepth), form.blockQuery, form.elementType);
  commit(e);
  return scores;
}

void Sweep::issueOutput(SweepState &state, const Slot &slot) {
  kernel.valueRing.waitFull(e, c.thread.shared, slot);
  fence(e);
  Value address = kernel.valueRing.address(e, c.thread.shared, slot);
  state.acc = multiplyProbabilitiesValue(
      e, state.acc, state.probabilities, descriptor(e, address), form.valueDim,
      form.blockKey, form.elementType);
  commit(e);
}

/// Score region, masks and softmax of a block.
LogicalResult Sweep::update(Fragment scores, SweepState &state, bool isFirst,
                            function_ref<void()> waitForAccumulator) {
  FailureOr<Fragment> finished = softmax.finishScores(scores);
  if (failed(finished))
    return failure();
  FailureOr<Registers> p = softmax.update(*finished, state.rows, state.acc,
                                          isFirst, waitForAccumulator);
  if (failed(p))
    return failure();
  state.probabilities = *p;
  return success();
}

FailureOr<SweepState> Sweep::initial() {
  FailureOr<SoftmaxRows> rows = softmax.initial(c.isRowLeader);
  if (failed(rows))
    return failure();
  SweepState state;
  state.rows = *rows;
  return state;
}

FailureOr<SweepState> Sweep::start() {
  Value shared = c.thread.shared;
  FailureOr<SweepState> state = initial();
  if (failed(state))
    return failure();
  Slot slot = keySlot(e.i32(0));
  kernel.queryRing.waitFull(e, shared, task.querySlot);
  kernel.keyRing.waitFull(e, shared, slot);
  Fragment scores = issueScores(slot);
  enterBlock(e.i32(0));
  wait(e, 0, {&scores});
  kernel.keyRing.release(e, shared, slot, c.isWarpLeader);
  if (failed(update(scores, *state, /*isFirst=*/true, []() {})))
    return failure();
  return state;
}

FailureOr<SweepState> Sweep::continueTo(SweepState state) {
  Value shared = c.thread.shared;
  state.acc.elements.assign(form.valueDim / 2, e.f32(0));
  bool valid = true;
  SmallVector<Value> values = e.loop(
      e.i32(1), task.blocks, e.i32(1), state.values(),
      [&](Value block, ValueRange carried) {
        SweepState inner = state.with(carried);
        Slot key = keySlot(block), value = valueSlot(e.add(block, -1));
        kernel.keyRing.waitFull(e, shared, key);
        waitTurn(c);
        Fragment scores = issueScores(key);
        issueOutput(inner, value);
        passTurn(c);
        enterBlock(block);
        wait(e, 1, {&scores});
        kernel.keyRing.release(e, shared, key, c.isWarpLeader);
        valid &= succeeded(update(scores, inner, /*isFirst=*/false, [&]() {
          wait(e, 0, {&inner.acc});
          kernel.valueRing.release(e, shared, value, c.isWarpLeader);
        }));
        return inner.values();
      });
  if (!valid)
    return failure();
  return state.with(values);
}

FailureOr<SweepState> Sweep::finish(SweepState state) {
  Slot last = valueSlot(e.add(task.blocks, -1));
  issueOutput(state, last);
  wait(e, 0, {&state.acc});
  kernel.valueRing.release(e, c.thread.shared, last, c.isWarpLeader);
  return state;
}

FailureOr<SweepState> Sweep::finishInto(SweepState &state, Sweep &next) {
  Value shared = c.thread.shared;
  FailureOr<SweepState> nextState = next.initial();
  if (failed(nextState))
    return failure();
  Slot key = next.keySlot(e.i32(0)), value = valueSlot(e.add(task.blocks, -1));
  kernel.queryRing.waitFull(e, shared, next.task.querySlot);
  kernel.keyRing.waitFull(e, shared, key);
  waitTurn(c);
  Fragment scores = next.issueScores(key);
  issueOutput(state, value);
  passTurn(c);
  next.enterBlock(e.i32(0));
  wait(e, 1, {&scores});
  kernel.keyRing.release(e, shared, key, c.isWarpLeader);
  if (failed(next.update(scores, *nextState, /*isFirst=*/true, [&]() {
        wait(e, 0, {&state.acc});
        kernel.valueRing.release(e, shared, value, c.isWarpLeader);
      })))
    return failure();
  return nextState;
}

ConsumerTask::ConsumerTask(Consumer &c, TaskOrder &order, Value round,
                           Value firstUse)
    : scalars(order.enter(round)),
      slicer(c.thread.e.b, c.thread.e.loc, scalars),
      layout(c.thread.e, slicer, c.thread.e.toIndex(c.row),
             c.thread.e.toIndex(c.column)),
      firstUse(firstUse) {
  GpuEmitter &e = c.thread.e;
  const HopperKernel &kernel = c.thread.kernel;
  blocks = countBlocks(e, kernel.form, scalars);
  querySlot = kernel.queryRing.slot(e, round);
  queryAddress =
      e.add(kernel.queryRing.address(e, c.thread.shared, querySlot),
            e.mul(c.group, kRows * kChunkRowBytes));
  queryDescriptor = descriptor(e, queryAddress);
}

/// Each task starts when the one before it has been written.
static LogicalResult emitTasksInTurn(Consumer &c, TaskOrder &order) {
  GpuEmitter &e = c.thread.e;
  bool valid = true;
  e.loop(e.i32(0), order.rounds(), e.i32(1), e.i32(0),
         [&](Value round, ValueRange uses) {
           ConsumerTask task(c, order, round, uses[0]);
           Sweep sweep(c, task);
           FailureOr<SweepState> state = sweep.start();
           if (succeeded(state))
             state = sweep.continueTo(*state);
           if (succeeded(state))
             state = sweep.finish(*state);
           valid &= succeeded(state);
           if (valid) {
             sweep.close(*state);
             valid &= succeeded(emitEpilogue(c, task));
           }
           return SmallVector<Value>{e.add(uses[0], task.blocks)};
         });
  return success(valid);
}

/// The first block of a task runs beside the last product of the task before
/// it and beside its epilogue.
static LogicalResult emitTasksOverlapped(Consumer &c, TaskOrder &order) {
  GpuEmitter &e = c.thread.e;
  bool valid = true;
  e.branch(e.less(e.i32(0), order.rounds()), [&]() {
    ConsumerTask first(c, order, e.i32(0), e.i32(0));
    FailureOr<SweepState> started = Sweep(c, first).start();
    if (failed(started)) {
      valid = false;
      return;
    }
    SmallVector<Value> inits = started->values();
    inits.push_back(e.i32(0));
    e.loop(e.i32(0), order.rounds(), e.i32(1), inits,
           [&](Value round, ValueRange carried) {
             ConsumerTask task(c, order, round, carried.back());
             Sweep sweep(c, task);
             Value nextUse = e.add(carried.back(), task.blocks);
             SmallVector<Value> results(carried);
             FailureOr<SweepState> state =
                 sweep.continueTo(started->with(carried));
             valid &= succeeded(state);
             if (!valid)
               return results;
             Value nextRound = e.add(round, 1);
             auto both = [](const SweepState &next, const Fragment &acc) {
               SmallVector<Value> values = next.values();
               llvm::append_range(values, acc.elements);
               return values;
             };
             auto ending = scf::IfOp::create(
                 e.b, e.loc, e.less(nextRound, order.rounds()),
                 [&](OpBuilder &, Location) {
                   ConsumerTask next(c, order, nextRound, nextUse);
                   Sweep nextSweep(c, next);
                   SweepState last = *state;
                   FailureOr<SweepState> nextState =
                       sweep.finishInto(last, nextSweep);
                   valid &= succeeded(nextState);
                   scf::YieldOp::create(
                       e.b, e.loc,
                       both(valid ? *nextState : *started, last.acc));
                 },
                 [&](OpBuilder &, Location) {
                   FailureOr<SweepState> last = sweep.finish(*state);
                   scf::YieldOp::create(
                       e.b, e.loc, both(started->with(carried), last->acc));
                 });
             SweepState next = started->with(ending.getResults());
             SmallVector<Value> nextValues = next.values();
             llvm::copy(ending.getResults().drop_front(nextValues.size()),
                        state->acc.elements.begin());
             sweep.close(*state);
             valid &= succeeded(emitEpilogue(c, task));
             nextValues.push_back(nextUse);
             return nextValues;
           });
  });
  return success(valid);
}

LogicalResult hopper::emitConsumer(Thread &thread, Value group) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  Value inGroup = e.bitAnd(thread.id, kWarpgroup - 1);
  Value lane = e.bitAnd(thread.id, 31);
  Consumer c{thread, group, inGroup, lane, {}, {}, {}, {}};
  c.isWarpLeader = e.equals(lane, 0);
  c.isRowLeader = e.equals(e.bitAnd(lane, 3), 0);
  c.row = e.add(e.mul(group, kRows),
                e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4)));
  c.column = e.mul(e.bitAnd(lane, 3), 2);
  // The last warpgroup hands the first turn to the first one.
  if (kernel.groups > 1)
    e.branch(e.equals(group, kernel.groups - 1), [&]() { passTurn(c); });
  TaskOrder order(thread);
  // With one query stage the next query would overwrite this output.
  return kernel.queryStages > 1 ? emitTasksOverlapped(c, order)
                                : emitTasksInTurn(c, order);
}
