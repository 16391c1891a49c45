//===- Consumer.cpp - The sweep of a consumer warpgroup -------------------===//
//
// A warpgroup owns 64 rows. In each step the product Q K of a block runs beside
// P V of the block before it, and while a warpgroup works on its softmax the
// others have the tensor cores:
//
//   S = Q K(first block of the first task); softmax; P
//   for each task:
//     acc = 0
//     for each further block (BlockWalk.h)
//       wait K full; own turn
//       issue S = Q K(block); wait V full; issue acc += P V(block before it)
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
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// The test that masks by the right bound alone.
static bool masksByRightBound(TiledForm &form) {
  if (!form.masked || !form.rightBound)
    return false;
  auto select =
      form.masked.thenYield().getOperand(0).getDefiningOp<arith::SelectOp>();
  return select && select.getCondition().getDefiningOp<arith::CmpIOp>();
}

namespace {
/// What is carried from block to block, and without `acc` from task to task.
struct SweepState {
  BlockWalk::Values cursor;
  SoftmaxRows rows;
  Registers probabilities;
  Fragment acc;

  SmallVector<Value> values() const {
    SmallVector<Value> all(cursor);
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
    take(state.cursor);
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
      : c(c), task(task), walk(*task.walk), e(c.thread.e),
        kernel(c.thread.kernel), form(kernel.form),
        softmax(e, form, task.layout, task.scalars,
                /*sumsInProduct=*/kernel.onesAt.has_value()) {}

  /// The first block on its own.
  FailureOr<SweepState> start();
  /// The blocks behind the first.
  FailureOr<SweepState> continueTo(SweepState state);
  /// The end of the task: the last product.
  SweepState finish(SweepState state);
  /// The same with the start of the next task, whose state is returned.
  FailureOr<SweepState> endInto(SweepState &state, TaskOrder &order,
                                Value nextRound);
  void close(const SweepState &state) { softmax.finish(state.rows, state.acc); }

private:
  /// The last product; the first block of `next` runs beside it.
  FailureOr<SweepState> finishInto(SweepState &state, Sweep &next);
  void skip(Value keyUse, Value valueUse);
  Slot keySlot(Value use) { return kernel.keyRing.slot(e, use); }
  Slot valueSlot(Value use) { return kernel.valueRing.slot(e, use); }
  void waitValues(const Slot &slot) {
    kernel.readyValues().waitFull(e, c.thread.shared, slot);
  }
  Fragment issueScores(const Slot &slot);
  void issueOutput(SweepState &state, const Slot &slot);
  void clearHiddenValues(const BlockWalk::Block &block);
  LogicalResult update(Fragment scores, SweepState &state, bool isFirst,
                       llvm::function_ref<void()> waitForAccumulator);
  FailureOr<SweepState> initial();

  Consumer &c;
  ConsumerTask &task;
  BlockWalk &walk;
  GpuEmitter &e;
  const HopperKernel &kernel;
  TiledForm &form;
  FragmentSoftmax softmax;

public:
  /// The use of the rings behind the task, once its blocks have been emitted.
  Value nextUse;
};
} // namespace

FailureOr<SweepState> Sweep::endInto(SweepState &state, TaskOrder &order,
                                     Value nextRound) {
  FailureOr<SweepState> result = state;
  result->acc = {};
  bool valid = true;
  auto both = [&](FailureOr<SweepState> next, const SweepState &last) {
    valid &= succeeded(next);
    SmallVector<Value> values = valid ? next->values() : result->values();
    values.truncate(result->values().size());
    llvm::append_range(values, last.acc.elements);
    return values;
  };
  SmallVector<Value> values = e.branchOr(
      e.less(nextRound, order.rounds()),
      [&]() {
        ConsumerTask nextTask(c, order, nextRound, nextUse);
        Sweep next(c, nextTask);
        SweepState last = state;
        FailureOr<SweepState> started = finishInto(last, next);
        return both(started, last);
      },
      [&]() { return both(result, finish(state)); });
  if (!valid)
    return failure();
  size_t carried = result->values().size();
  state.acc.elements.assign(values.begin() + carried, values.end());
  return result->with(values);
}

/// A block that other warpgroups work on: this one lets its turn pass.
void Sweep::skip(Value keyUse, Value valueUse) {
  Value shared = c.thread.shared;
  Slot key = keySlot(keyUse), value = valueSlot(valueUse);
  waitTurn(c);
  passTurn(c);
  kernel.keyRing.waitFull(e, shared, key);
  kernel.keyRing.release(e, shared, key, c.isWarpLeader);
  waitValues(value);
  kernel.valueRing.release(e, shared, value, c.isWarpLeader);
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
  waitValues(slot);
  fence(e);
  Value address = kernel.valueRing.address(e, c.thread.shared, slot);
  Value ones;
  if (kernel.onesAt)
    ones = descriptor(e, e.add(c.thread.shared, *kernel.onesAt));
  state.acc = multiplyProbabilitiesValue(e, state.acc, state.probabilities,
                                         descriptor(e, address), form.valueDim,
                                         form.blockKey, form.elementType, ones);
  commit(e);
}

/// Lengths and band crop the values of a task, but TMA copies whole blocks:
/// zeros go where the rows of others are, which may hold a NaN. Each warpgroup
/// clears for itself, before it reads. Where values are inspected that has been
/// done.
void Sweep::clearHiddenValues(const BlockWalk::Block &block) {
  if (kernel.searches())
    return;
  memref::SubViewOp view = kernel.value.view;
  unsigned rowDim = kernel.value.rowDim;
  int64_t whole = view.getSourceType().getDimSize(rowDim);
  if (!ShapedType::isDynamic(whole) && view.getStaticSize(rowDim) == whole)
    return;
  auto scalar = [&](OpFoldResult size) -> Value {
    if (auto value = dyn_cast<Value>(size))
      return task.scalars.lookup(value);
    return e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  };
  Value count = scalar(view.getMixedSizes()[rowDim]);
  Value end = e.add(scalar(view.getMixedOffsets()[rowDim]), count);
  Value source = task.scalars.lookup(view.getSource());
  Value length = memref::DimOp::create(e.b, e.loc, source, int64_t(rowDim));
  Value first = block.position;
  Value isCropped =
      arith::AndIOp::create(e.b, e.loc, e.less(end, length),
                            e.less(count, e.add(first, form.blockKey)));
  e.branch(isCropped, [&]() {
    Slot slot = valueSlot(block.use);
    waitValues(slot);
    Value address = kernel.valueRing.address(e, c.thread.shared, slot);
    Value seen = e.toI32(e.sub(count, first));
    constexpr int64_t kUnits = kChunkRowBytes / 16;
    e.loop(c.inGroup, e.i32(kernel.valueChunks * form.blockKey * kUnits),
           e.i32(kWarpgroup), {}, [&](Value unit, ValueRange) {
             Value row = e.rem(e.div(unit, kUnits), form.blockKey);
             Value isHidden = e.compare(arith::CmpIPredicate::sge, row, seen);
             e.branch(isHidden, [&]() {
               e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};",
                     "r,r,~{memory}",
                     {e.add(address, e.mul(unit, 16)), e.i32(0)});
             });
             return SmallVector<Value>();
           });
    publishToAsyncProxy(c);
  });
}

/// Score region, masks and softmax of a block.
LogicalResult Sweep::update(Fragment scores, SweepState &state, bool isFirst,
                            function_ref<void()> waitForAccumulator) {
  // The task's rows straddle more edges than those of the warpgroup do.
  if (masksByRightBound(form)) {
    Value seen = lastSeen(e, form, task.scalars, e.mul(c.group, kRows));
    Value tests = form.masked.getCondition();
    task.scalars.map(tests, e.both(task.scalars.lookup(tests),
                                   e.less(seen, e.i32(form.blockKey - 1))));
  }
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
  BlockWalk::Block block = walk.first();
  Slot slot = keySlot(block.use);
  kernel.keyRing.waitFull(e, shared, slot);
  Fragment scores = issueScores(slot);
  state->cursor = walk.enter(block);
  wait(e, 0, {&scores});
  kernel.keyRing.release(e, shared, slot, c.isWarpLeader);
  if (failed(update(scores, *state, /*isFirst=*/true, []() {})))
    return failure();
  if (kernel.walksBackward())
    clearHiddenValues(block);
  return state;
}

FailureOr<SweepState> Sweep::continueTo(SweepState state) {
  Value shared = c.thread.shared;
  state.acc.elements.assign(kernel.accElements(), e.f32(0));
  auto skipOne = [&](Value key, Value value) { skip(key, value); };
  state.cursor = walk.skipInFront(state.cursor, skipOne);
  bool valid = true;
  SmallVector<Value> values = walk.forEach(
      state.values(), [&](const BlockWalk::Block &block, ValueRange carried) {
        SweepState inner = state.with(carried);
        Slot key = keySlot(block.use), value = valueSlot(block.before);
        kernel.keyRing.waitFull(e, shared, key);
        waitTurn(c);
        Fragment scores = issueScores(key);
        issueOutput(inner, value);
        passTurn(c);
        inner.cursor = walk.enter(block);
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
  SweepState last = state.with(values);
  nextUse = walk.skipBehind(last.cursor, skipOne);
  return last;
}

SweepState Sweep::finish(SweepState state) {
  BlockWalk::Block block = walk.last(state.cursor);
  Slot last = valueSlot(block.use);
  if (!kernel.walksBackward())
    clearHiddenValues(block);
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
  BlockWalk::Block first = next.walk.first();
  BlockWalk::Block last = walk.last(state.cursor);
  Slot key = keySlot(first.use), value = valueSlot(last.use);
  if (!kernel.walksBackward())
    clearHiddenValues(last);
  kernel.keyRing.waitFull(e, shared, key);
  waitTurn(c);
  Fragment scores = next.issueScores(key);
  issueOutput(state, value);
  passTurn(c);
  nextState->cursor = next.walk.enter(first);
  wait(e, 1, {&scores});
  kernel.keyRing.release(e, shared, key, c.isWarpLeader);
  if (failed(next.update(scores, *nextState, /*isFirst=*/true, [&]() {
        wait(e, 0, {&state.acc});
        kernel.valueRing.release(e, shared, value, c.isWarpLeader);
      })))
    return failure();
  if (kernel.walksBackward())
    next.clearHiddenValues(first);
  return nextState;
}

static Slot waitForQuery(Consumer &c, Value round) {
  GpuEmitter &e = c.thread.e;
  const Ring &ring = c.thread.kernel.queryRing;
  Slot slot = ring.slot(e, round);
  ring.waitFull(e, c.thread.shared, slot);
  return slot;
}

ConsumerTask::ConsumerTask(Consumer &c, TaskOrder &order, Value round,
                           Value firstUse)
    : querySlot(waitForQuery(c, round)),
      scalars(order.enter(order.read(querySlot))),
      slicer(c.thread.e.b, c.thread.e.loc, scalars),
      layout(c.thread.e, slicer, c.thread.e.toIndex(c.row),
             c.thread.e.toIndex(c.column)),
      walk(BlockWalk::create(c.thread, scalars, c.group, firstUse)) {
  GpuEmitter &e = c.thread.e;
  const HopperKernel &kernel = c.thread.kernel;
  queryAddress = e.add(kernel.queryRing.address(e, c.thread.shared, querySlot),
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
           valid &= succeeded(state);
           if (valid) {
             state = sweep.finish(*state);
             sweep.close(*state);
             valid &= succeeded(emitEpilogue(c, task));
           }
           return SmallVector<Value>{valid ? sweep.nextUse : uses[0]};
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
             FailureOr<SweepState> state =
                 sweep.continueTo(started->with(carried));
             FailureOr<SweepState> next =
                 succeeded(state)
                     ? sweep.endInto(*state, order, e.add(round, 1))
                     : state;
             valid &= succeeded(next);
             if (!valid)
               return SmallVector<Value>(carried);
             sweep.close(*state);
             valid &= succeeded(emitEpilogue(c, task));
             SmallVector<Value> values = next->values();
             values.push_back(sweep.nextUse);
             return values;
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
