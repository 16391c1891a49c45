//===- BlockSearch.cpp - Which blocks the masks reach ---------------------===//
//
// Segments hide whole blocks from a task, and only their ids tell which. A warp
// of the producer's warpgroup, the searcher, looks for the blocks of all tasks,
// ahead of the copies. It keeps a table of the least and the greatest id of
// blocks of one batch, which most tasks find filled: heads share it, and tasks
// that follow each other mostly do. Its lanes reduce the ids of a block
// together, several blocks at a time, so that their loads overlap; then each
// lane decides on a block of its own. What was found goes through a ring of
// small stages, one for each use of the key and value rings:
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

/// Blocks that are decided on together, a bit and a lane each.
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

  /// What the table has: of a batch, the blocks from `begin` to `end`, counted
  /// from its first key. Block n is entry n mod HopperKernel::kRanges.
  struct Table {
    Value batch, begin, end;
    Values values() const { return {batch, begin, end}; }
    static Table from(ValueRange v) { return {v[0], v[1], v[2]}; }
  };

  /// Finds the blocks of a task; the first is use `use`. Returns the use
  /// behind.
  Value task(Value batch, Value use, Table &table);
  State searchBatch(State state, Value first, Value count);
  Values testBatch(Value first, Value count);
  Table cover(const Table &table, const Table &wanted);
  void fill(const Table &missing);
  void storeRange(Value number);
  SmallVector<vector::MultiDimReductionOp, 2> ranges();
  Value rangeAddress(Value number);
  bool isBackward() const { return thread.kernel.walksBackward(); }
  /// The number of the block that is `count` further on the walk.
  Value further(Value number, Value count) {
    return isBackward() ? e.sub(number, count) : e.add(number, count);
  }
  Value position(Value number) {
    return e.mul(e.toIndex(number), form.blockKey);
  }
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

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// The least and the greatest id of a block.
SmallVector<vector::MultiDimReductionOp, 2> Search::ranges() {
  return llvm::to_vector<2>(
      form.sweep.getBody()->getOps<vector::MultiDimReductionOp>());
}

Value Search::rangeAddress(Value number) {
  Value entry = e.bitAnd(number, HopperKernel::kRanges - 1);
  return e.add(e.add(thread.shared, thread.kernel.rangesAt),
               e.mul(entry, HopperKernel::kRangeBytes));
}

void Search::storeRange(Value number) {
  IRMapping block = scalars;
  block.map(form.sweep.getInductionVar(), position(number));
  WarpScalars warp(e, block, e.toIndex(lane));
  valid &= succeeded(warp.clone(*form.sweep.getBody()));
  Value address = rangeAddress(number);
  for (auto [i, op] : llvm::enumerate(ranges())) {
    Value id = block.lookupOrNull(op.getResult());
    valid &= bool(id);
    if (!valid)
      return;
    int64_t offset = i * HopperKernel::kRangeBytes / 2;
    LLVM::StoreOp::create(e.b, e.loc, id,
                          sharedPointer(e, e.add(address, offset)));
  }
}

void Search::fill(const Table &missing) {
  int64_t step = std::max<int64_t>(
      1, kLoads / llvm::divideCeil(form.blockKey, int64_t(kBatch)));
  auto sync = [&]() { NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1)); };
  sync();
  e.loop(missing.begin, missing.end, e.i32(step), {}, [&](Value i, ValueRange) {
    // Past the end, the last block once more. All lanes store the same.
    for (int64_t k = 0; k < step; ++k)
      storeRange(e.min(e.add(i, k), e.add(missing.end, -1)));
    return Values();
  });
  sync();
}

/// Makes the table have the blocks of `wanted`: fills those that are missing
/// where they adjoin what it has, and it starts anew where they do not.
Search::Table Search::cover(const Table &table, const Table &wanted) {
  auto atMost = [&](Value x, Value y) {
    return e.compare(arith::CmpIPredicate::sle, x, y);
  };
  Value isSame = e.compare(arith::CmpIPredicate::eq, table.batch, wanted.batch);
  Value beginsLater = e.both(isSame, atMost(table.begin, wanted.begin));
  Value endsEarlier = e.both(isSame, atMost(wanted.end, table.end));
  return Table::from(e.branchOr(
      e.both(beginsLater, endsEarlier), [&]() { return table.values(); },
      [&]() {
        Value extendsEnd = e.both(beginsLater, atMost(wanted.begin, table.end));
        Value extendsBegin =
            e.both(endsEarlier, atMost(table.begin, wanted.end));
        Table missing = wanted, next = wanted;
        missing.begin = e.select(extendsEnd, table.end, wanted.begin);
        missing.end = e.select(extendsBegin, table.begin, wanted.end);
        fill(missing);
        constexpr int64_t kMost = HopperKernel::kRanges;
        next.begin =
            e.select(extendsEnd, e.max(table.begin, e.add(wanted.end, -kMost)),
                     wanted.begin);
        next.end =
            e.select(extendsBegin, e.min(table.end, e.add(wanted.begin, kMost)),
                     wanted.end);
        return next.values();
      }));
}

//===----------------------------------------------------------------------===//
// The tasks
//===----------------------------------------------------------------------===//

/// A bit for each of `count` blocks from number `first` on: whether it is
/// reached, and whether it is masked.
Search::Values Search::testBatch(Value first, Value count) {
  Value number = further(first, e.min(lane, e.add(count, -1)));
  IRMapping block = scalars;
  enterFound(e, form, {e.toI32(position(number)), {}, {}}, block);
  Value address = rangeAddress(number);
  for (auto [i, op] : llvm::enumerate(ranges())) {
    int64_t offset = i * HopperKernel::kRangeBytes / 2;
    block.map(op.getResult(),
              LLVM::LoadOp::create(e.b, e.loc, op.getResult().getType(),
                                   sharedPointer(e, e.add(address, offset)))
                  .getResult());
  }
  cloneScalars(e, *form.sweep.getBody(), block);
  cloneScalars(e, *form.reach.thenBlock(), block);
  Values bits;
  for (Value condition :
       {form.reach.getCondition(), form.masked.getCondition()}) {
    Value bit = block.lookupOrNull(condition);
    valid &= bool(bit);
    if (!valid)
      return Values(2, e.i32(0));
    bits.push_back(NVVM::VoteSyncOp::create(
        e.b, e.loc, e.b.getI32Type(), e.i32(-1),
        e.both(bit, e.less(lane, count)), NVVM::VoteSyncKind::ballot));
  }
  return bits;
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
        State before = State::from(v);
        Value rest = v[3];
        Value number = LLVM::CountTrailingZerosOp::create(
            e.b, e.loc, rest.getType(), rest, /*is_zero_poison=*/true);
        Value position = e.mul(further(first, number), form.blockKey);
        Value isMasked =
            e.bitAnd(arith::ShRUIOp::create(e.b, e.loc, bits[1], number), 1);
        Value isSecond =
            e.compare(arith::CmpIPredicate::sge, before.position, e.i32(0));
        e.branch(isSecond, [&]() { tell(before, position); });
        Value use = e.add(before.use, e.select(isSecond, e.i32(1), e.i32(0)));
        return {use, position, isMasked, e.both(rest, e.add(rest, -1))};
      });
  return State::from(after);
}

Value Search::task(Value batch, Value use, Table &table) {
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  Value hasKeys = e.less(lower, upper);
  Value keys = e.max(e.sub(upper, lower), e.index(0));
  Value blocks = e.toI32(e.div(e.add(keys, form.blockKey - 1), form.blockKey));
  // Sweeps start at a whole block.
  Value begin = e.toI32(e.div(lower, form.blockKey));
  Value end = e.add(begin, blocks);
  State none{use, e.i32(-1), e.i32(1)};
  Values inits = none.values();
  llvm::append_range(inits, table.values());
  Values found =
      e.loop(e.i32(0), blocks, e.i32(kBatch), inits,
             [&](Value block, ValueRange carried) {
               Value count = e.min(e.sub(blocks, block), e.i32(kBatch));
               Table wanted = {batch, e.add(begin, block), {}};
               if (isBackward())
                 wanted.begin = e.sub(e.sub(end, block), count);
               wanted.end = e.add(wanted.begin, count);
               Table next = cover(Table::from(carried.drop_front(3)), wanted);
               Value first =
                   isBackward() ? e.add(wanted.end, -1) : wanted.begin;
               Values result =
                   searchBatch(State::from(carried), first, count).values();
               llvm::append_range(result, next.values());
               return result;
             });
  table = Table::from(ValueRange(found).drop_front(3));
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
  Table nothing = {e.i32(-1), e.i32(0), e.i32(0)};
  Values inits = nothing.values();
  inits.push_back(e.i32(0));
  e.loop(e.i32(0), order.rounds(), e.i32(1), inits,
         [&](Value round, ValueRange carried) {
           TaskOrder::Task next = order.taskOf(round);
           scalars = order.enter(next);
           WarpScalars warp(e, scalars, e.toIndex(lane));
           valid &= succeeded(warp.clone(*form.tasks.getBody()));
           Table table = Table::from(carried);
           Value use = task(next.batch, carried.back(), table);
           Values result = table.values();
           result.push_back(use);
           return result;
         });
  return success(valid);
}

LogicalResult hopper::emitSearch(Thread &thread) {
  return Search(thread).run();
}
