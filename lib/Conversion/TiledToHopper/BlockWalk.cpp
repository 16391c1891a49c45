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
        groupRow(e.mul(group, kRows)), firstUse(firstUse), isOwner(hasRows()) {}

  bool backward() const { return thread.kernel.walksBackward(); }
  /// Whether the right bound hides the block at `position` from all rows.
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
  /// How many blocks of a task its right bound may hide from the first
  /// warpgroup; none where they would not fit beside its own first one.
  int64_t hiddenBlocks() const {
    int64_t count = llvm::divideCeil(form.blockQuery - kRows, form.blockKey);
    return form.rightBound && count < thread.kernel.stages ? count : 0;
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
  /// Whether the warpgroup has rows: without any it multiplies one block.
  Value isOwner;
};

/// All blocks of the sweep.
class CountedWalk : public GroupWalk {
public:
  CountedWalk(Thread &thread, IRMapping &scalars, Value group, Value firstUse)
      : GroupWalk(thread, scalars, group, firstUse),
        blocks(countBlocks(e, form, scalars)) {
    Value hidden = countHidden(), none = e.i32(0);
    Value inFront = backward() ? hidden : none;
    begin = e.select(isOwner, inFront, none);
    skipped = e.select(isOwner, inFront, e.add(blocks, -1));
    end =
        backward() ? blocks : e.select(isOwner, e.sub(blocks, hidden), blocks);
  }

  Block first() override { return at(begin); }
  Values enter(const Block &block) override {
    enterAt(block.position, scalars);
    return {};
  }
  Values skipInFront(const Values &cursor, Skip skip) override {
    Value shift = e.select(isOwner, e.i32(0), e.i32(1));
    e.loop(e.i32(0), skipped, e.i32(1), {}, [&](Value index, ValueRange) {
      Value use = e.add(firstUse, index);
      skip(e.add(use, shift), use);
      return Values();
    });
    return cursor;
  }
  Values
  forEach(ValueRange carried,
          function_ref<Values(const Block &, ValueRange)> body) override {
    return e.loop(e.add(skipped, 1), end, e.i32(1), carried,
                  [&](Value index, ValueRange values) {
                    return body(at(index), values);
                  });
  }
  Block last(const Values &) override { return at(e.add(end, -1)); }
  Value skipBehind(const Values &, Skip skip) override {
    if (!backward())
      e.loop(end, blocks, e.i32(1), {}, [&](Value index, ValueRange) {
        Value use = e.add(firstUse, index);
        skip(use, use);
        return Values();
      });
    return e.add(firstUse, blocks);
  }

private:
  Block at(Value index) {
    Value use = e.add(firstUse, index);
    return {use, e.add(use, -1), position(backward() ? fromEnd(index) : index)};
  }
  Value fromEnd(Value index) { return e.sub(e.add(blocks, -1), index); }
  Value position(Value fromStart) {
    return e.add(scalars.lookup(form.sweep.getLowerBound()),
                 e.mul(e.toIndex(fromStart), form.blockKey));
  }
  Value countHidden() {
    Value count = e.i32(0);
    for (int64_t i = 0; i < hiddenBlocks(); ++i)
      count = e.add(count, e.select(isBehindBound(position(fromEnd(e.i32(i)))),
                                    e.i32(1), e.i32(0)));
    return e.min(count, e.add(blocks, -1));
  }

  /// The warpgroup multiplies the block `begin` and those from `skipped` + 1 to
  /// `end`.
  Value blocks, begin, skipped, end;
};

/// The blocks that the search finds. The cursor is the use of the block that
/// was entered, and the position of the next one of the task, or -1.
class FoundWalk : public GroupWalk {
public:
  FoundWalk(Thread &thread, IRMapping &scalars, Value group, Value firstUse)
      : GroupWalk(thread, scalars, group, firstUse), firstOwn(findOwn()) {}

  Block first() override { return {firstOwn, {}}; }
  Values enter(const Block &block) override {
    FoundBlock found = readFound(thread, block.use);
    enterFound(e, form, found, scalars);
    return {block.use, found.next};
  }
  Values skipInFront(const Values &cursor, Skip skip) override {
    if (backward())
      e.loop(firstUse, firstOwn, e.i32(1), {}, [&](Value use, ValueRange) {
        skip(use, use);
        return Values();
      });
    // Without rows: all but the keys of the first and the values of the last.
    Value none = e.i32(-1);
    Value next = e.select(isOwner, none, cursor[1]);
    Values end = e.repeatWhile(
        {cursor[0], next},
        [&](ValueRange values) { return isBlock(values[1]); },
        [&](ValueRange values) -> Values {
          Value use = e.add(values[0], 1);
          Value behind = waitFound(thread, use).next;
          skip(use, values[0]);
          return {use, behind};
        });
    return {end[0], e.select(isOwner, cursor[1], none)};
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
  Value skipBehind(const Values &cursor, Skip skip) override {
    return e.add(e.repeatWhile(
                     cursor,
                     [&](ValueRange values) { return isBlock(values[1]); },
                     [&](ValueRange values) -> Values {
                       Value use = e.add(values[0], 1);
                       Value next = waitFound(thread, use).next;
                       skip(use, use);
                       return {use, next};
                     })[0],
                 1);
  }

private:
  void enterAt(Value position, IRMapping &block) override {
    enterFound(e, form, {e.toI32(position), {}, {}}, block);
  }
  Value isBlock(Value position) {
    return e.compare(arith::CmpIPredicate::sge, position, e.i32(0));
  }
  /// Of the blocks behind the first none is out of bounds where the walk goes
  /// backward.
  Value isOwn(Value next) {
    if (backward() || hiddenBlocks() == 0)
      return isBlock(next);
    Value isBehind = isBehindBound(e.toIndex(next));
    return e.both(isBlock(next), e.bitXor(isBehind, e.like(isBehind, 1)));
  }
  /// The use of the first block that some row sees, or of the last.
  Value findOwn() {
    Value use = firstUse;
    for (int64_t i = 0; backward() && i < hiddenBlocks(); ++i) {
      FoundBlock found = waitFound(thread, use);
      Value isHidden = e.both(isBehindBound(e.toIndex(found.position)),
                              e.both(isOwner, isBlock(found.next)));
      use = e.add(use, e.select(isHidden, e.i32(1), e.i32(0)));
    }
    return use;
  }

  Value firstOwn;
};
} // namespace

std::unique_ptr<BlockWalk> BlockWalk::create(Thread &thread, IRMapping &scalars,
                                             Value group, Value firstUse) {
  if (thread.kernel.searches())
    return std::make_unique<FoundWalk>(thread, scalars, group, firstUse);
  return std::make_unique<CountedWalk>(thread, scalars, group, firstUse);
}
