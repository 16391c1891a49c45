//===- Consumer.cpp - The sweep of a consumer warpgroup -------------------===//
//
// A warpgroup owns 64 rows. In each step the product Q K of a block runs beside
// P V of the block before it, and while a warpgroup works on its softmax the
// others have the tensor cores:
//
//   S = Q K(0); softmax; P
//   for block = 1 ..
//     wait K full; own turn
//     issue S = Q K(block); wait V full; issue acc += P V(block - 1)
//     next warpgroup's turn
//     wait S; release K; score region, masks, row maximum
//     wait acc; release V; correct acc; P = exp2(...)
//   acc += P V(last)
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
/// What the sweep carries from block to block.
struct SweepState {
  SoftmaxRows rows;
  Fragment acc;
  Registers probabilities;

  SmallVector<Value> values() const {
    SmallVector<Value> all;
    llvm::append_range(all, rows.max);
    llvm::append_range(all, rows.sum);
    llvm::append_range(all, acc.elements);
    llvm::append_range(all, probabilities);
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
    take(state.acc.elements);
    take(state.probabilities);
    return state;
  }
};

class Sweep {
public:
  Sweep(Consumer &c, ConsumerTask &task)
      : c(c), task(task), e(c.thread.e), kernel(c.thread.kernel),
        form(kernel.form),
        softmax(e, form, task.layout, task.scalars) {}

  LogicalResult run(Value blocks);

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
  LogicalResult firstBlock(SweepState &state);
  LogicalResult nextBlock(SweepState &state, Value block);

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
  Value address = kernel.keyRing.address(e, c.thread.shared, slot);
  Fragment scores = multiplyQueryKey(e, task.queryDescriptor,
                                     descriptor(e, address), form.blockKey,
                                     llvm::alignTo(form.headDim, kDepth),
                                     form.blockQuery, form.elementType);
  commit(e);
  return scores;
}

void Sweep::issueOutput(SweepState &state, const Slot &slot) {
  kernel.valueRing.waitFull(e, c.thread.shared, slot);
  fence(e);
  Value address = kernel.valueRing.address(e, c.thread.shared, slot);
  state.acc = multiplyProbabilitiesValue(
      e, state.acc, state.probabilities, descriptor(e, address),
      form.valueDim, form.blockKey, form.elementType);
  commit(e);
}

LogicalResult Sweep::firstBlock(SweepState &state) {
  Value shared = c.thread.shared;
  Value block = e.i32(0);
  Slot slot = keySlot(block);
  kernel.keyRing.waitFull(e, shared, slot);
  fence(e);
  Fragment scores = issueScores(slot);
  enterBlock(block);
  wait(e, 0, {&scores});
  kernel.keyRing.release(e, shared, slot, c.isWarpLeader);
  FailureOr<Fragment> finished = softmax.finishScores(scores);
  if (failed(finished))
    return failure();
  FailureOr<Registers> p = softmax.update(*finished, state.rows, state.acc,
                                          /*isFirst=*/true, []() {});
  if (failed(p))
    return failure();
  state.probabilities = *p;
  return success();
}

LogicalResult Sweep::nextBlock(SweepState &state, Value block) {
  Value shared = c.thread.shared;
  Slot key = keySlot(block), value = valueSlot(e.add(block, -1));
  kernel.keyRing.waitFull(e, shared, key);
  waitTurn(c);
  fence(e);
  Fragment scores = issueScores(key);
  issueOutput(state, value);
  passTurn(c);
  enterBlock(block);
  wait(e, 1, {&scores});
  kernel.keyRing.release(e, shared, key, c.isWarpLeader);
  FailureOr<Fragment> finished = softmax.finishScores(scores);
  if (failed(finished))
    return failure();
  FailureOr<Registers> p = softmax.update(
      *finished, state.rows, state.acc, /*isFirst=*/false, [&]() {
        wait(e, 0, {&state.acc});
        kernel.valueRing.release(e, shared, value, c.isWarpLeader);
      });
  if (failed(p))
    return failure();
  state.probabilities = *p;
  return success();
}

LogicalResult Sweep::run(Value blocks) {
  FailureOr<SoftmaxRows> initial = softmax.initial(c.isRowLeader);
  if (failed(initial))
    return failure();
  SweepState state;
  state.rows = *initial;
  state.acc.elements.assign(form.valueDim / 2, e.f32(0));
  SmallVector<Value> otherwise = state.values();
  bool valid = true;
  Value hasKeys = e.less(e.i32(0), blocks);
  SmallVector<Value> swept = e.branch(hasKeys, otherwise, [&]() {
    SweepState inner = state;
    valid &= succeeded(firstBlock(inner));
    SmallVector<Value> carried =
        e.loop(e.i32(1), blocks, e.i32(1), inner.values(),
               [&](Value block, ValueRange values) {
                 SweepState next = inner.with(values);
                 valid &= succeeded(nextBlock(next, block));
                 return next.values();
               });
    inner = inner.with(carried);
    Slot last = valueSlot(e.add(blocks, -1));
    issueOutput(inner, last);
    wait(e, 0, {&inner.acc});
    kernel.valueRing.release(e, c.thread.shared, last, c.isWarpLeader);
    inner.probabilities.clear();
    return inner.values();
  });
  if (!valid)
    return failure();
  state = state.with(swept);
  softmax.finish(state.rows, state.acc);
  return success();
}

LogicalResult hopper::emitConsumer(Thread &thread, Value group) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  TiledForm &form = kernel.form;
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

  bool valid = true;
  forEachTask(
      thread, e.i32(0),
      [&](IRMapping &scalars, Value round, ValueRange state) {
        Value blocks = countBlocks(e, form, scalars);
        ConsumerTask task(c, scalars, state[0]);
        task.querySlot = kernel.queryRing.slot(e, round);
        task.queryAddress = e.add(
            kernel.queryRing.address(e, thread.shared, task.querySlot),
            e.mul(group, kRows * kChunkRowBytes));
        task.queryDescriptor = descriptor(e, task.queryAddress);
        kernel.queryRing.waitFull(e, thread.shared, task.querySlot);
        valid &= succeeded(Sweep(c, task).run(blocks));
        if (valid)
          valid &= succeeded(emitEpilogue(c, task));
        return SmallVector<Value>{e.add(state[0], blocks)};
      });
  return success(valid);
}
