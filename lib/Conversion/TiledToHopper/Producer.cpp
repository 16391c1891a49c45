//===- Producer.cpp - The thread that issues the copies -------------------===//

#include "HopperKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Fills one stage of `ring` with the rows from `row` on. `beforehand` is
/// called when the stage is free.
static void copyTile(Thread &thread, const Ring &ring, const OperandTile &tile,
                     Map map, IRMapping &scalars, Value row, Value use,
                     function_ref<void(const Slot &)> beforehand = {}) {
  GpuEmitter &e = thread.e;
  Slot slot = ring.slot(e, use);
  ring.waitEmpty(e, thread.shared, slot);
  if (beforehand)
    beforehand(slot);
  ring.expect(e, thread.shared, slot);
  Value barrier = ring.fullBarrier(e, thread.shared, slot);
  Value address = ring.address(e, thread.shared, slot);
  tile.load(e, thread.outline.tensorMaps[map], scalars, row, address, barrier);
}

/// Fills the stages of keys and values with the block at `row`.
static void copyBlock(Thread &thread, IRMapping &scalars, Value row,
                      Value use) {
  const HopperKernel &kernel = thread.kernel;
  copyTile(thread, kernel.keyRing, kernel.key, KeyMap, scalars, row, use);
  copyTile(thread, kernel.valueRing, kernel.value, ValueMap, scalars, row, use);
}

/// All blocks of the sweep, from the use `firstUse` on. Returns the use behind.
static Value copyAll(Thread &thread, IRMapping &scalars, Value firstUse) {
  GpuEmitter &e = thread.e;
  TiledForm &form = thread.kernel.form;
  Value firstKey = e.toI32(scalars.lookupOrDefault(form.sweep.getLowerBound()));
  Value blocks = countBlocks(e, form, scalars);
  e.loop(e.i32(0), blocks, e.i32(1), {}, [&](Value i, ValueRange) {
    Value fromStart =
        thread.kernel.walksBackward() ? e.sub(e.add(blocks, -1), i) : i;
    copyBlock(thread, scalars, e.add(firstKey, e.mul(fromStart, form.blockKey)),
              e.add(firstUse, i));
    return SmallVector<Value>();
  });
  return e.add(firstUse, blocks);
}

/// The blocks that the search finds; its stages are released as BlockSearch.cpp
/// says.
static Value copyFound(Thread &thread, IRMapping &scalars, Value firstUse) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  return e.repeatWhile(
      {firstUse, e.i32(0)},
      [&](ValueRange carried) {
        return e.compare(arith::CmpIPredicate::sge, carried[1], e.i32(0));
      },
      [&](ValueRange carried) -> SmallVector<Value> {
        Value use = carried[0];
        FoundBlock found = waitFound(thread, use);
        copyBlock(thread, scalars, found.position, use);
        Value before = e.add(use, -kernel.stages);
        kernel.foundRing.release(
            e, thread.shared, kernel.foundRing.slot(e, before),
            e.compare(arith::CmpIPredicate::sge, before, e.i32(0)));
        return {e.add(use, 1), found.next};
      })[0];
}

void hopper::emitProducer(Thread &thread) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  TiledForm &form = kernel.form;
  TaskOrder order(thread);
  e.loop(e.i32(0), order.rounds(), e.i32(1), e.i32(0),
         [&](Value round, ValueRange uses) {
           TaskOrder::Task task = order.taskOf(round);
           IRMapping scalars = order.enter(task);
           Value firstRow =
               e.toI32(scalars.lookupOrDefault(form.query.getIndices()[0]));
           copyTile(thread, kernel.queryRing, kernel.query, QueryMap, scalars,
                    firstRow, round,
                    [&](const Slot &slot) { order.publish(task, slot); });
           auto copy = kernel.searches() ? copyFound : copyAll;
           return SmallVector<Value>{copy(thread, scalars, uses[0])};
         });
}
