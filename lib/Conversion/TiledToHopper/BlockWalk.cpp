//===- BlockWalk.cpp - The blocks of a task that a warpgroup visits -------===//

#include "BlockWalk.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

using Values = BlockWalk::Values;
using Block = BlockWalk::Block;

Value hopper::lastSeen(GpuEmitter &e, TiledForm &form, IRMapping scalars,
                       Value row) {
  cloneScalars(e, *form.rightBound.getParentBlock(), scalars);
  return e.add(scalars.lookup(form.rightBound), row);
}

namespace {
/// What both walks know of the rows of a warpgroup.
class GroupWalk : public BlockWalk {
protected:
  GroupWalk(Thread &thread, IRMapping &scalars, Value group, Value firstUse)
      : thread(thread), e(thread.e), form(thread.kernel.form), scalars(scalars),
        groupRow(e.mul(group, kRows)), firstUse(firstUse) {}

  /// Whether the right bound hides the block at `position` from all rows. So
  /// it does with those behind it.
  Value isBehindBound(Value position) {
    IRMapping block(scalars);
    enterAt(position, block);
    Value seen = lastSeen(e, form, block, e.add(groupRow, kRows - 1));
    return e.less(seen, e.i32(0));
  }
  /// Whether the first row is one of the queries.
  Value hasRows() {
    Value view = scalars.lookup(form.query.getBase());
    Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
    Value row =
        e.add(scalars.lookup(form.query.getIndices()[0]), e.toIndex(groupRow));
    return e.less(row, length);
  }
  /// How many blocks at the end of a task its right bound may hide from the
  /// first warpgroup.
  int64_t hiddenBlocks() const {
    return llvm::divideCeil(form.blockQuery - kRows, form.blockKey);
  }
  virtual void enterAt(Value position, IRMapping &block) {
    block.map(form.sweep.getInductionVar(), position);
    cloneScalars(e, *form.sweep.getBody(), block);
  }

  Thread &thread;
  GpuEmitter &e;
  TiledForm &form;
  IRMapping &scalars;
  Value groupRow, firstUse;
};

/// All blocks from the start of the sweep to its end.
class CountedWalk : public GroupWalk {
public:
  CountedWalk(Thread &thread, IRMapping &scalars, Value group, Value firstUse)
      : GroupWalk(thread, scalars, group, firstUse),
        blocks(countBlocks(e, form, scalars)), ownBlocks(countOwnBlocks()),
        end(e.add(firstUse, blocks)) {}

  Block first() override { return {firstUse, {}, e.i32(0)}; }
  Values enter(const Block &block) override {
    enterAt(position(block.index), scalars);
    return {};
  }
  Values
  forEach(ValueRange carried,
          function_ref<Values(const Block &, ValueRange)> body) override {
    return e.loop(e.i32(1), ownBlocks, e.i32(1), carried,
                  [&](Value index, ValueRange values) {
                    Value before = e.add(firstUse, e.add(index, -1));
                    return body({e.add(firstUse, index), before, index},
                                values);
                  });
  }
  Block last(const Values &) override {
    Value index = e.add(ownBlocks, -1);
    return {e.add(firstUse, index), {}, index};
  }
  Value hasRest(const Values &) override { return e.less(ownBlocks, blocks); }
  Values skipRest(const Values &cursor, function_ref<void(Value)> skip,
                  function_ref<void()> between) override {
    skip(e.add(firstUse, ownBlocks));
    e.loop(e.add(ownBlocks, 1), blocks, e.i32(1), {},
           [&](Value index, ValueRange) {
             between();
             skip(e.add(firstUse, index));
             return Values();
           });
    return cursor;
  }
  Value nextUse(const Values &) override { return end; }
  Value firstUseOfNext(const Values &) override { return end; }

private:
  Value position(Value index) {
    return e.add(scalars.lookup(form.sweep.getLowerBound()),
                 e.mul(e.toIndex(index), form.blockKey));
  }
  /// The blocks that some row of the warpgroup sees, at least one: behind them
  /// the band, or the end of the queries, hides all.
  Value countOwnBlocks() {
    Value own = blocks;
    if (form.rightBound) {
      Value hidden = e.i32(0);
      for (int64_t i = 1; i <= hiddenBlocks(); ++i) {
        Value isHidden = isBehindBound(position(e.add(blocks, -i)));
        hidden = e.add(hidden, e.select(isHidden, e.i32(1), e.i32(0)));
      }
      own = e.sub(own, hidden);
    }
    return e.max(e.select(hasRows(), own, e.i32(1)), e.i32(1));
  }

  Value blocks, ownBlocks, end;
};

/// The blocks that the search finds. The cursor is the use of the block that
/// was entered, and the position of the next one of the task, or -1.
class FoundWalk : public GroupWalk {
public:
  FoundWalk(Thread &thread, IRMapping &scalars, Value group, Value firstUse)
      : GroupWalk(thread, scalars, group, firstUse), isOwner(hasRows()) {}

  Block first() override { return {firstUse, {}}; }
  Values enter(const Block &block) override {
    FoundBlock found = readFound(thread, block.use);
    enterFound(e, form, found, scalars);
    return {block.use, found.next};
  }
  Values
  forEach(ValueRange carried,
          function_ref<Values(const Block &, ValueRange)> body) override {
    return e.repeatWhile(
        carried, [&](ValueRange values) { return isOwn(values[1]); },
        [&](ValueRange values) {
          return body({e.add(values[0], 1), values[0]}, values);
        });
  }
  Block last(const Values &cursor) override { return {cursor[0], {}}; }
  Value hasRest(const Values &cursor) override { return isBlock(cursor[1]); }
  Values skipRest(const Values &cursor, function_ref<void(Value)> skip,
                  function_ref<void()> between) override {
    auto skipNext = [&](Value use) -> Values {
      use = e.add(use, 1);
      Value next = waitFound(thread, use).next;
      skip(use);
      return {use, next};
    };
    return e.repeatWhile(
        skipNext(cursor[0]),
        [&](ValueRange values) { return isBlock(values[1]); },
        [&](ValueRange values) {
          between();
          return skipNext(values[0]);
        });
  }
  Value nextUse(const Values &cursor) override { return e.add(cursor[0], 1); }
  Value firstUseOfNext(const Values &nextCursor) override {
    return nextCursor[0];
  }

private:
  void enterAt(Value position, IRMapping &block) override {
    enterFound(e, form, {e.toI32(position), {}, {}}, block);
  }
  Value isBlock(Value position) {
    return e.compare(arith::CmpIPredicate::sge, position, e.i32(0));
  }
  Value isOwn(Value next) {
    Value own = e.both(isBlock(next), isOwner);
    if (!form.rightBound || hiddenBlocks() == 0)
      return own;
    Value one = e.like(own, 1);
    return e.both(own, e.bitXor(isBehindBound(e.toIndex(next)), one));
  }

  Value isOwner;
};
} // namespace

std::unique_ptr<BlockWalk> BlockWalk::create(Thread &thread, IRMapping &scalars,
                                             Value group, Value firstUse) {
  if (thread.kernel.searches())
    return std::make_unique<FoundWalk>(thread, scalars, group, firstUse);
  return std::make_unique<CountedWalk>(thread, scalars, group, firstUse);
}
