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

void hopper::forEachTask(
    Thread &thread, ValueRange inits,
    function_ref<SmallVector<Value>(IRMapping &, Value, ValueRange)> body) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  scf::ForallOp tasks = kernel.form.tasks;
  SmallVector<Value> sizes;
  for (OpFoldResult size : tasks.getMixedUpperBound()) {
    if (auto value = dyn_cast<Value>(size))
      sizes.push_back(thread.outline.values.lookupOrDefault(value));
    else
      sizes.push_back(
          e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt()));
  }
  Value batch = sizes[0], heads = sizes[1], blocks = sizes[2];
  Value count = e.toI32(e.mul(e.mul(batch, heads), blocks));
  Value i32Heads = e.toI32(heads), i32Blocks = e.toI32(blocks);
  auto i32 = e.b.getI32Type();
  Value me = NVVM::BlockIdXOp::create(e.b, e.loc, i32);
  Value width = NVVM::GridDimXOp::create(e.b, e.loc, i32);
  // Of the rounds, the last may be short.
  Value rounds = e.div(e.add(count, e.add(width, -1)), width);

  e.loop(e.i32(0), rounds, e.i32(1), inits, [&](Value round, ValueRange state) {
    Value place = me;
    if (kernel.balances) {
      Value isOdd = e.equals(e.bitAnd(round, 1), 1);
      place = e.select(isOdd, e.sub(e.add(width, -1), me), me);
    }
    Value number = e.add(e.mul(round, width), place);
    return e.branch(e.less(number, count), state, [&]() {
      Value block, head, b;
      if (kernel.balances) {
        Value perBlock = e.mul(e.toI32(batch), i32Heads);
        Value rest = e.rem(number, perBlock);
        block = e.div(number, perBlock);
        head = e.rem(rest, i32Heads);
        b = e.div(rest, i32Heads);
      } else {
        block = e.rem(number, i32Blocks);
        Value rest = e.div(number, i32Blocks);
        head = e.rem(rest, i32Heads);
        b = e.div(rest, i32Heads);
      }
      IRMapping scalars(thread.outline.values);
      scalars.map(tasks.getInductionVar(0), e.toIndex(b));
      scalars.map(tasks.getInductionVar(1), e.toIndex(head));
      scalars.map(tasks.getInductionVar(2), e.toIndex(block));
      cloneScalars(e, *tasks.getBody(), scalars);
      return body(scalars, round, state);
    });
  });
}
