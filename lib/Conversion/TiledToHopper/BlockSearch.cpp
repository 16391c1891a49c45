//===- BlockSearch.cpp - Which blocks the masks reach ---------------------===//
//
// Segments hide whole blocks from a task, and only their ids tell which. A warp
// of the producer's warpgroup, the searcher, looks for the blocks of all tasks,
// ahead of the copies: its lanes reduce the ids of a block together, and it
// decides on several blocks at a time, so that their loads overlap. What it has
// found goes through a ring of small stages, one for each use of the key and
// value rings:
//
//   position | position of the next one of the task, or -1 | is masked
//
// A task that the masks keep from every block still gets one, in which the
// masks are tested and hide all: so each task writes its rows in the same way.
//
// The protocol. Use n of this ring tells of use n of the key and value rings.
//
//   searcher   waits until the stage is empty, writes it, fills it
//   producer   waits until it is full; copies keys and values; then, having
//              found the value stage of use n - stages empty, releases that use
//   consumers  read the stage after the keys of the use have arrived, which the
//              producer copied after it saw the stage, and before they release
//              its values
//   inspector  reads it after its values have arrived, and before it passes
//   them
//              on (ValueInspection.cpp)
//
// So whoever reads a stage holds up the release of the value stage of the same
// use, and through it that of the stage. The searcher is ahead by the stages of
// this ring less those of the key ring, at least one: it waits for nobody but
// the producer, and the producer for consumers that need no later block.
//
//===----------------------------------------------------------------------===//

#include "../Common/WarpScalars.h"
#include "HopperKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Blocks that are decided on together, a bit each.
static constexpr int64_t kBatch = 32;
/// Ids of them that a lane loads at a time: as registers allow.
static constexpr int64_t kLoads = 8;

//===----------------------------------------------------------------------===//
// A block that was found
//===----------------------------------------------------------------------===//

FoundBlock hopper::readFound(Thread &thread, Value use) {
  GpuEmitter &e = thread.e;
  const Ring &ring = thread.kernel.foundRing;
  Value address = ring.address(e, thread.shared, ring.slot(e, use));
  SmallVector<Type> words(4, e.b.getI32Type());
  SmallVector<Value> read = e.ptx("ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];",
                                  "=r,=r,=r,=r,r,~{memory}", words, {address});
  return {read[0], read[1], read[2]};
}

FoundBlock hopper::waitFound(Thread &thread, Value use) {
  GpuEmitter &e = thread.e;
  const Ring &ring = thread.kernel.foundRing;
  ring.waitFull(e, thread.shared, ring.slot(e, use));
  return readFound(thread, use);
}

/// The scalars of the block. Its range of ids is known: what pads them matters
/// to the range alone, and there may be nothing to read.
void hopper::enterFound(GpuEmitter &e, TiledForm &form, const FoundBlock &found,
                        IRMapping &scalars) {
  scalars.map(form.sweep.getInductionVar(), e.toIndex(found.position));
  for (Block *block : {form.sweep.getBody(), form.blockBody()}) {
    for (auto load : block->getOps<memref::LoadOp>())
      scalars.map(load.getResult(), e.zero(load.getType()));
    cloneScalars(e, *block, scalars);
  }
  if (found.isMasked)
    scalars.map(form.masked.getCondition(),
                e.compare(arith::CmpIPredicate::ne, found.isMasked, e.i32(0)));
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  explicit Search(Thread &thread)
      : thread(thread), e(thread.e), form(thread.kernel.form),
        ring(thread.kernel.foundRing), lane(e.bitAnd(thread.id, kBatch - 1)) {}

  LogicalResult run();

private:
  using Values = SmallVector<Value>;
  /// The block that was found last, to be told when the next one is.
  struct State {
    Value use, position, isMasked;
    Values values() const { return {use, position, isMasked}; }
    static State from(ValueRange v) { return {v[0], v[1], v[2]}; }
  };

  Value task(Value use);
  State searchBatch(State state, Value first, Value count);
  Values testBatch(Value first, Value count);
  Values test(Value position);
  void tell(const State &state, Value next);

  Thread &thread;
  GpuEmitter &e;
  TiledForm &form;
  const Ring &ring;
  Value lane;
  IRMapping scalars;
  bool valid = true;
};
} // namespace

/// Whether the block is reached, and whether it is masked (i32, 0 or 1).
Search::Values Search::test(Value position) {
  IRMapping block = scalars;
  block.map(form.sweep.getInductionVar(), position);
  WarpScalars warp(e, block, e.toIndex(lane));
  valid &= succeeded(warp.clone(*form.sweep.getBody())) &&
           succeeded(warp.clone(*form.reach.thenBlock()));
  Values results;
  for (Value condition :
       {form.reach.getCondition(), form.masked.getCondition()}) {
    valid &= block.contains(condition);
    results.push_back(valid
                          ? arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(),
                                                   block.lookup(condition))
                                .getResult()
                          : e.i32(0));
  }
  return results;
}

/// A bit for each of `count` blocks from the key `first` on (index): whether it
/// is reached, and whether it is masked.
Search::Values Search::testBatch(Value first, Value count) {
  int64_t step = std::max<int64_t>(
      1, kLoads / llvm::divideCeil(form.blockKey, int64_t(kBatch)));
  Values none = {e.i32(0), e.i32(0)};
  return e.loop(
      e.i32(0), count, e.i32(step), none, [&](Value i, ValueRange bits) {
        Values result(bits);
        for (int64_t k = 0; k < step; ++k) {
          // Past the end, the last block once more.
          Value number = e.min(e.add(i, k), e.add(count, -1));
          Value position =
              e.add(first, e.mul(e.toIndex(number), form.blockKey));
          for (auto [bit, all] : llvm::zip(test(position), result))
            all = e.bitOr(all, arith::ShLIOp::create(e.b, e.loc, bit, number));
        }
        return result;
      });
}

/// Writes the stage of `state`; all lanes wait, one writes.
void Search::tell(const State &state, Value next) {
  Slot slot = ring.slot(e, state.use);
  ring.waitEmpty(e, thread.shared, slot);
  Value address = ring.address(e, thread.shared, slot);
  Value isFirst = e.equals(lane, 0);
  e.branch(isFirst, [&]() {
    e.ptx("st.shared.v4.b32 [$0], {$1, $2, $3, $3};", "r,r,r,r,~{memory}",
          {address, state.position, next, state.isMasked});
    ring.fill(e, thread.shared, slot, e.equals(e.i32(0), 0));
  });
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
}

Search::State Search::searchBatch(State state, Value first, Value count) {
  Values bits = testBatch(first, count);
  Values carried = state.values();
  carried.push_back(bits[0]);
  Values after = e.repeatWhile(
      carried,
      [&](ValueRange v) {
        return e.compare(arith::CmpIPredicate::ne, v[3], e.i32(0));
      },
      [&](ValueRange v) -> Values {
        State last = State::from(v);
        Value rest = v[3];
        Value number = LLVM::CountTrailingZerosOp::create(
            e.b, e.loc, rest.getType(), rest, /*is_zero_poison=*/true);
        Value position =
            e.toI32(e.add(first, e.mul(e.toIndex(number), form.blockKey)));
        Value isMasked =
            e.bitAnd(arith::ShRUIOp::create(e.b, e.loc, bits[1], number), 1);
        Value isSecond =
            e.compare(arith::CmpIPredicate::sge, last.position, e.i32(0));
        e.branch(isSecond, [&]() { tell(last, position); });
        Value use = e.add(last.use, e.select(isSecond, e.i32(1), e.i32(0)));
        return {use, position, isMasked, e.both(rest, e.add(rest, -1))};
      });
  return State::from(after);
}

/// Finds the blocks of a task; the first is use `use`. Returns the use behind.
Value Search::task(Value use) {
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  Value hasKeys = e.less(lower, upper);
  Value keys = e.max(e.sub(upper, lower), e.index(0));
  Value blocks = e.toI32(e.div(e.add(keys, form.blockKey - 1), form.blockKey));
  State none{use, e.i32(-1), e.i32(1)};
  Values found =
      e.loop(e.i32(0), blocks, e.i32(kBatch), none.values(),
             [&](Value block, ValueRange carried) {
               Value first =
                   e.add(lower, e.mul(e.toIndex(block), form.blockKey));
               Value count = e.min(e.sub(blocks, block), e.i32(kBatch));
               return searchBatch(State::from(carried), first, count).values();
             });
  State last = State::from(found);
  Value isNone = e.less(last.position, e.i32(0));
  // Any block will do, if only there is something to read.
  Value any = e.select(hasKeys, e.toI32(lower), e.i32(0));
  last.position = e.select(isNone, any, last.position);
  last.isMasked = e.select(isNone, e.i32(1), last.isMasked);
  tell(last, e.i32(-1));
  return e.add(last.use, 1);
}

LogicalResult Search::run() {
  TaskOrder order(thread);
  e.loop(e.i32(0), order.rounds(), e.i32(1), e.i32(0),
         [&](Value round, ValueRange uses) {
           scalars = order.enter(order.taskOf(round));
           WarpScalars warp(e, scalars, e.toIndex(lane));
           valid &= succeeded(warp.clone(*form.tasks.getBody()));
           return Values{task(uses[0])};
         });
  return success(valid);
}

LogicalResult hopper::emitSearch(Thread &thread) {
  return Search(thread).run();
}
