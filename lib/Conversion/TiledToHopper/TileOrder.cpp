//===- TileOrder.cpp - The persistent grid --------------------------------===//
//
// The grid is no larger than the chip has multiprocessors; block x takes the
// tasks x, x + blocks, x + 2 blocks, ... Under a causal mask tasks differ in
// length: they are numbered with the query block outermost, longest first, and
// every second round is dealt out backwards, so that who had the longest of
// one round gets the shortest of the next. Otherwise the query blocks of a head
// are neighbours, and share its keys in L2.
//
//===----------------------------------------------------------------------===//

#include "HopperKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

TaskOrder::TaskOrder(Thread &thread) : thread(thread), e(thread.e) {
  SmallVector<Value> sizes;
  scf::ForallOp tasks = thread.kernel.form.tasks;
  for (OpFoldResult size : tasks.getMixedUpperBound()) {
    if (auto value = dyn_cast<Value>(size))
      sizes.push_back(e.toI32(thread.outline.values.lookup(value)));
    else
      sizes.push_back(e.i32(cast<IntegerAttr>(cast<Attribute>(size)).getInt()));
  }
  batch = sizes[0];
  heads = sizes[1];
  blocks = sizes[2];
  count = e.mul(e.mul(batch, heads), blocks);
  me = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  width = NVVM::GridDimXOp::create(e.b, e.loc, e.b.getI32Type());
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

IRMapping TaskOrder::enter(Value round) {
  Value number = numberOf(round);
  Value block, head, b;
  if (thread.kernel.balances) {
    Value perBlock = e.mul(batch, heads);
    Value rest = e.rem(number, perBlock);
    block = e.div(number, perBlock);
    head = e.rem(rest, heads);
    b = e.div(rest, heads);
  } else {
    block = e.rem(number, blocks);
    Value rest = e.div(number, blocks);
    head = e.rem(rest, heads);
    b = e.div(rest, heads);
  }
  scf::ForallOp tasks = thread.kernel.form.tasks;
  IRMapping scalars(thread.outline.values);
  for (auto [variable, value] :
       llvm::zip(tasks.getInductionVars(), ArrayRef<Value>{b, head, block}))
    scalars.map(variable, e.toIndex(value));
  cloneScalars(e, *tasks.getBody(), scalars);
  return scalars;
}
