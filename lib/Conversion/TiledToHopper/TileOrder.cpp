//===- TileOrder.cpp - The persistent grid --------------------------------===//
//
// The grid is no larger than the chip has multiprocessors; block x takes the
// tasks x, x + blocks, x + 2 blocks, ...
//
// Without a diagonal the query blocks of a head are neighbours, and share its
// keys in L2. Under a causal mask tasks differ in length: they are numbered
// with the query block outermost, longest first, and every second round is
// dealt out backwards, so that who had the longest of one round gets the
// shortest of the next. Where heads have few query blocks, that would stream
// all keys through L2 once for each of them: then the order is that of groups
// of heads whose keys and values stay in L2 together, with whole rounds in a
// group. The last group takes what is left, so that the end is sorted. Under
// segments, where tasks are short wherever they lie, a batch is a group.
//
//===----------------------------------------------------------------------===//

#include "HopperKernel.h"
#include "attn/Target/WarpgroupOrder.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static Value greatestCommonDivisor(GpuEmitter &e, Value x, Value y) {
  auto loop = scf::WhileOp::create(
      e.b, e.loc, TypeRange{x.getType(), y.getType()}, ValueRange{x, y},
      [&](OpBuilder &, Location, ValueRange pair) {
        scf::ConditionOp::create(e.b, e.loc, e.less(e.i32(0), pair[1]), pair);
      },
      [&](OpBuilder &, Location, ValueRange pair) {
        scf::YieldOp::create(e.b, e.loc,
                             ValueRange{pair[1], e.rem(pair[0], pair[1])});
      });
  return loop.getResult(0);
}

/// Heads whose tasks are numbered together.
static Value headsInGroup(Thread &thread, Value heads, Value blocks,
                          Value width) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  gpu::GPUFuncOp function = thread.outline.kernel;
  Value key = function.getArgument(kernel.key.argument);
  Value keys = e.toI32(
      memref::DimOp::create(e.b, e.loc, key, int64_t(kernel.key.rowDim)));
  int64_t bytes = (kernel.headChunks + kernel.valueChunks) * kChunkRowBytes;
  Value fitting =
      e.div(e.i32(WarpgroupOrder::kGroupBytes / bytes), e.max(keys, e.i32(1)));
  // So many heads fill whole rounds.
  Value unit = e.div(width, greatestCommonDivisor(e, width, blocks));
  Value units = e.max(e.div(fitting, unit), e.i32(1));
  Value isShort = e.less(blocks, e.i32(WarpgroupOrder::kGroupedBlocks + 1));
  return e.select(isShort, e.mul(unit, units), heads);
}

TaskOrder::TaskOrder(Thread &thread) : thread(thread), e(thread.e) {
  std::tie(batch, heads, blocks) =
      std::tuple_cat(taskSizes(e, thread.kernel.form.tasks, thread.outline));
  allHeads = e.mul(batch, heads);
  count = e.mul(allHeads, blocks);
  me = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  width = NVVM::GridDimXOp::create(e.b, e.loc, e.b.getI32Type());
  // The search keeps what it knows of a batch.
  Value together = thread.kernel.searches() ? heads : allHeads;
  if (thread.kernel.balances)
    groups =
        HeadGroups(e, allHeads, headsInGroup(thread, together, blocks, width));
  // The last round may leave some blocks without a task.
  Value rounds = e.div(e.add(count, e.add(width, -1)), width);
  Value last = e.add(rounds, -1);
  myRounds = e.select(e.less(numberOf(last), count), rounds, last);
}

Value TaskOrder::numberOf(Value round) {
  Value place = me;
  if (thread.kernel.balances) {
    Value isOdd = e.equals(e.bitAnd(round, 1), 1);
    place = e.select(isOdd, e.sub(e.add(width, -1), me), me);
  }
  return e.add(e.mul(round, width), place);
}

TaskOrder::Task TaskOrder::taskOf(Value round) {
  Value number = numberOf(round);
  Value block, head, b;
  if (thread.kernel.balances) {
    HeadGroups::Place place = groups.find(e, number, blocks);
    block = place.block;
    head = e.rem(place.head, heads);
    b = e.div(place.head, heads);
  } else {
    block = e.rem(number, blocks);
    Value rest = e.div(number, blocks);
    head = e.rem(rest, heads);
    b = e.div(rest, heads);
  }
  return {b, head, block};
}

Value TaskOrder::address(const Slot &slot) {
  return e.add(e.add(thread.shared, e.mul(slot.stage, 16)),
               thread.kernel.tasksAt);
}

void TaskOrder::publish(const Task &task, const Slot &slot) {
  e.ptx("st.shared.v4.b32 [$0], {$1, $2, $3, $3};", "r,r,r,r,~{memory}",
        {address(slot), task.batch, task.head, task.block});
}

TaskOrder::Task TaskOrder::read(const Slot &slot) {
  SmallVector<Type> results(4, e.b.getI32Type());
  SmallVector<Value> values =
      e.ptx("ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];",
            "=r,=r,=r,=r,r,~{memory}", results, {address(slot)});
  return {values[0], values[1], values[2]};
}

IRMapping TaskOrder::enter(const Task &task) {
  scf::ForallOp tasks = thread.kernel.form.tasks;
  IRMapping scalars(thread.outline.values);
  Value places[] = {task.batch, task.head, task.block};
  for (auto [variable, value] : llvm::zip(tasks.getInductionVars(), places))
    scalars.map(variable, e.toIndex(value));
  cloneScalars(e, *tasks.getBody(), scalars);
  return scalars;
}
