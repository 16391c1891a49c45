//===- GradientTurns.cpp - Additions to dQ in one order -------------------===//
//
// An `ordered` query gradient is added up like an `accumulated` one, by the key
// blocks of a head in main memory, but each query block takes the parts in one
// order, so that equal inputs give equal bits: the last key block first. The
// workspace has a number for each warp of the consumers and query block: the
// key block whose part that warp has added last. A thread adds to the same
// elements for every key block, so warps need not wait for each other.
//
//   await: if the next key block adds to these rows at all,
//          until the number is that of the next key block
//   add
//   pass:  fence; the number is that of this key block
//
// A part is passed on in the step behind the one that added it, while the next
// scores are multiplied: the fence, which waits for the additions to arrive, is
// hidden there. Key blocks are visited from the last to
// the first because under a causal mask the last one that a query block sees is
// the first to get there: its sweep begins with it. In the other order the
// first of a head would begin with blocks that it has to itself, and all others
// wait.
//
// Blocks of threads that start together belong to several heads, of which each
// adds by the key block of one: if they began with the key blocks of one head,
// all but one would wait, round after round. So heads are taken in groups whose
// rows and sums stay in L2, key block by key block.
//
// No task waits for one that has not started: tasks are numbered by a counter
// in the order in which their blocks of threads start, and wait for smaller
// numbers only. What masks hide is a band, so if a key block adds to some rows,
// the next one adds to them too, or begins behind them.
//
//===----------------------------------------------------------------------===//

#include "GradientTurns.h"
#include "../Common/TaskLoop.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// What L2 holds beside the keys and values that pass by.
static constexpr int64_t kGroupBytes = int64_t(32) << 20;

/// Key/value heads whose queries, output gradients and sums of dQ fit there.
static Value headsInGroup(KeyThread &thread) {
  GpuEmitter &e = thread.e;
  const KeyKernel &kernel = thread.kernel;
  gpu::GPUFuncOp function = thread.outline.kernel;
  Value query = function.getArgument(kernel.query.argument);
  Value rows =
      memref::DimOp::create(e.b, e.loc, query, int64_t(kernel.query.rowDim));
  Value queryHeads = taskSizes(e, kernel.form.rows.tasks, thread.outline)[1];
  Value kvHeads = taskSizes(e, kernel.form.keys.tasks, thread.outline)[1];
  int64_t rowBytes = 6 * kernel.form.headDim + 2 * kernel.form.valueDim;
  Value ofHead = e.mul(e.toIndex(e.div(queryHeads, kvHeads)),
                       e.mul(e.max(rows, e.index(1)), rowBytes));
  Value fitting = e.div(e.index(kGroupBytes), e.max(ofHead, e.index(1)));
  return e.max(e.toI32(fitting), e.i32(1));
}

Value hopper::takeTask(KeyThread &thread) {
  GpuEmitter &e = thread.e;
  Workspace workspace(e, thread.kernel.form, thread.outline);
  Value place = e.add(thread.shared, thread.kernel.numberAt);
  e.branch(e.equals(thread.id, 0), [&]() {
    e.ptx("{\n\t.reg .b32 number;\n\t"
          "atom.global.add.u32 number, [$0], 1;\n\t"
          "st.shared.u32 [$1], number;\n\t}",
          "l,r,~{memory}", {workspace.taskCounter(), place});
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
  SmallVector<Type> types(1, e.b.getI32Type());
  Value number =
      e.ptx("ld.shared.u32 $0, [$1];", "=r,r,~{memory}", types, {place})[0];
  auto [batch, heads, blocks] =
      taskSizes(e, thread.kernel.form.keys.tasks, thread.outline);
  Value allHeads = e.mul(batch, heads);
  HeadGroups groups(e, allHeads, e.min(headsInGroup(thread), allHeads));
  HeadGroups::Place task = groups.find(e, number, blocks);
  Value fromEnd = e.sub(e.add(blocks, -1), task.block);
  return e.add(e.mul(task.head, blocks), fromEnd);
}

Value hopper::firstRowBehind(KeyThread &thread, Value number) {
  GpuEmitter &e = thread.e;
  KeyTasks &keys = thread.kernel.form.keys;
  Value blocks = taskSizes(e, keys.tasks, thread.outline)[2];
  Value next = e.add(number, 1);
  // Behind the last block of a head lies another head.
  Value isLast = e.equals(e.rem(next, blocks), 0);
  IRMapping scalars =
      enterTask(e, keys.tasks, thread.outline, e.select(isLast, number, next));
  cloneScalars(e, *keys.tasks.getBody(), scalars);
  auto bound = [&](Value value) {
    return e.toI32(scalars.lookupOrDefault(value));
  };
  Value first = bound(keys.sweep.getLowerBound());
  Value adds = e.less(first, bound(keys.sweep.getUpperBound()));
  Value none = e.i32(INT32_MAX);
  return e.select(isLast, none, e.select(adds, first, none));
}

Value GradientTurns::mark() {
  KeyTasks &keys = thread.kernel.form.keys;
  Value block = thread.scalars.lookup(keys.tasks.getInductionVars()[2]);
  return e.add(e.toI32(block), 1);
}

Value GradientTurns::address(Value tile) {
  Value offset = arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                        e.mul(warp, Workspace::kTurnBytes));
  return e.add(workspace.turns(tile), offset);
}

void GradientTurns::await(Value tile, Value row) {
  Value waits =
      e.compare(arith::CmpIPredicate::sge, row, thread.firstRowBehind);
  e.branch(waits, [&]() {
    e.ptx("{\n\t.reg .pred waits;\n\t.reg .b32 turn;\n"
          "AWAIT:\n\t"
          "ld.acquire.gpu.global.u32 turn, [$0];\n\t"
          "setp.ne.u32 waits, turn, $1;\n\t"
          "@waits bra AWAIT;\n\t}",
          "l,r,~{memory}", {address(tile), e.add(mark(), 1)});
  });
}

void GradientTurns::pass(Value tile) {
  Value flag = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), isLeader);
  e.ptx("{\n\t.reg .pred passes;\n\t"
        "fence.acq_rel.gpu;\n\t"
        "bar.warp.sync 0xffffffff;\n\t"
        "setp.ne.b32 passes, $1, 0;\n\t"
        "@passes st.relaxed.gpu.global.u32 [$0], $2;\n\t}",
        "l,r,r,~{memory}", {address(tile), flag, mark()});
}
