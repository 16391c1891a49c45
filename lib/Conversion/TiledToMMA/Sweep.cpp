//===- Sweep.cpp - The sweep of a block of threads ------------------------===//
//
// Warps own rows and share the key/value blocks, which pass through stages of
// shared memory. With two stages or more the copies run ahead:
//
//   copy K, V of the first stages - 1 blocks that the masks reach
//   while a block is left:
//     wait for K, V of the block; barrier
//     find the next block that the masks reach; copy its K, V
//     S = Q K; score region, masks; softmax; acc += P V
//
// With one stage, copies of values run beside the scores and those of the next
// keys beside the softmax:
//
//   copy K of the first block
//   while a block is left:
//     wait for K; barrier; copy V of the block
//     S = Q K; score region, masks
//     wait for V; barrier; find the next block; copy its K
//     softmax; acc += P V
//
// (Dao, "FlashAttention-2", 2023, section 3.3, for the division of rows among
// warps.) Values of keys that no row of the task sees are cleared in shared
// memory before they are multiplied.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

namespace {
/// What is carried from block to block.
struct SweepState {
  /// Blocks whose copies were issued, by first key (i32), the oldest first. A
  /// position past the end is no block.
  SmallVector<Value> blocks;
  /// The stage of the oldest (i32).
  Value stage;
  SmallVector<SoftmaxRows> rows;
  SmallVector<Fragment> acc;

  SmallVector<Value> values() const {
    SmallVector<Value> all(blocks);
    all.push_back(stage);
    for (const SoftmaxRows &slab : rows) {
      llvm::append_range(all, slab.max);
      llvm::append_range(all, slab.sum);
    }
    for (const Fragment &fragment : acc)
      llvm::append_range(all, fragment.elements);
    return all;
  }
  SweepState with(ValueRange values) const {
    SweepState state = *this;
    size_t next = 0;
    auto take = [&](MutableArrayRef<Value> targets) {
      for (Value &target : targets)
        target = values[next++];
    };
    take(state.blocks);
    take(state.stage);
    for (SoftmaxRows &slab : state.rows) {
      take(slab.max);
      take(slab.sum);
    }
    for (Fragment &fragment : state.acc)
      take(fragment.elements);
    return state;
  }
};

class Sweep {
public:
  Sweep(Thread &thread, const MmaKernel &kernel, IRMapping &scalars,
        std::deque<Slab> &slabs)
      : thread(thread), kernel(kernel), form(kernel.form), e(thread.e),
        scalars(scalars), slabs(slabs),
        blocks(thread, form.sweep, form.reach, form.seen, form.blockKey),
        seen(thread,
             form.value && form.value.getMask() ? form.seenKeys : Value(),
             form.seen, form.masked, form.blockKey, kernel.seenAt,
             kernel.tiles.seenWords),
        end(e.toI32(scalars.lookup(form.sweep.getUpperBound()))) {
    if (form.key)
      key.emplace(thread, kernel.tiles.key, form.key, scalars);
    if (form.value)
      value.emplace(thread, kernel.tiles.value, form.value, scalars);
  }

  LogicalResult run();

private:
  FailureOr<SweepState> start();
  FailureOr<SweepState> visitAhead(SweepState state);
  FailureOr<SweepState> visitInTurn(SweepState state);

  FailureOr<Value> findReached(Value position);
  LogicalResult enterBlock(Value position);

  void copyKeys(Value position, Value stage);
  void copyValues(Value position, Value stage);
  Value addressOf(int64_t base, const MmaTiles::Tile &tile, Value stage) {
    return e.add(e.add(thread.shared, base), e.mul(stage, tile.bytes()));
  }
  Value after(Value stage, int64_t distance);

  FailureOr<SmallVector<Fragment>> makeScores(Value position, Value stage);
  SharedTile valueStage(Value stage) {
    return {addressOf(kernel.valueAt, kernel.tiles.value, stage),
            kernel.tiles.value};
  }
  LogicalResult dropUnseen(Value stage) {
    return seen.clear(slabs[0].slicer, slabs[0].scalars, valueStage(stage));
  }
  LogicalResult accumulate(SmallVector<Fragment> scores, SweepState &state,
                           Value stage);

  Thread &thread;
  const MmaKernel &kernel;
  TiledForm &form;
  GpuEmitter &e;
  IRMapping &scalars;
  std::deque<Slab> &slabs;
  SweepBlocks blocks;
  SeenKeys seen;
  Value end;
  std::optional<TileCopy> key, value;
};
} // namespace

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The scalars of the block, for every slab.
LogicalResult Sweep::enterBlock(Value position) {
  FailureOr<IRMapping> block = blocks.enter(scalars, position);
  if (failed(block))
    return failure();
  for (Slab &slab : slabs)
    slab.scalars = *block;
  return success();
}

/// The first block from `position` on that the masks reach.
FailureOr<Value> Sweep::findReached(Value position) {
  auto anyVisible = [&](IRMapping &block) -> FailureOr<Value> {
    Value any;
    for (Slab &slab : slabs) {
      slab.scalars = block;
      FailureOr<Fragment> visible =
          slab.layout.tile(form.seen.getSource(), form.blockKey);
      if (failed(visible))
        return failure();
      Value ofSlab = anyOf(e, *visible);
      any = any ? e.bitOr(any, ofSlab) : ofSlab;
    }
    return any;
  };
  return blocks.findReached(scalars, position, end, anyVisible);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void Sweep::copyKeys(Value position, Value stage) {
  if (key)
    e.branch(e.less(position, end), [&]() {
      key->issue(addressOf(kernel.keyAt, kernel.tiles.key, stage),
                 e.toIndex(position));
    });
}

void Sweep::copyValues(Value position, Value stage) {
  if (value)
    e.branch(e.less(position, end), [&]() {
      value->issue(addressOf(kernel.valueAt, kernel.tiles.value, stage),
                   e.toIndex(position));
    });
}

Value Sweep::after(Value stage, int64_t distance) {
  if (kernel.stages == 1)
    return e.i32(0);
  Value next = e.add(stage, distance);
  Value wraps = e.less(next, e.i32(kernel.stages));
  return e.select(wraps, next, e.add(next, -kernel.stages));
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Fragment>> Sweep::makeScores(Value position,
                                                   Value stage) {
  SmallVector<Fragment> scores(slabs.size());
  if (key)
    scores = multiplyRows(
        thread, {e.add(thread.shared, kernel.queryAt), kernel.tiles.query},
        {addressOf(kernel.keyAt, kernel.tiles.key, stage), kernel.tiles.key});
  if (failed(enterBlock(position)))
    return failure();
  for (size_t number = 0; number < slabs.size(); ++number) {
    FailureOr<Fragment> finished =
        slabs[number].softmax.finishScores(scores[number], [&]() {
          return seen.note(slabs[number].layout, number);
        });
    if (failed(finished))
      return failure();
    scores[number] = *finished;
  }
  return scores;
}

LogicalResult Sweep::accumulate(SmallVector<Fragment> scores, SweepState &state,
                                Value stage) {
  SmallVector<Registers> probabilities;
  for (auto [number, slab] : llvm::enumerate(slabs)) {
    FailureOr<Registers> p =
        slab.softmax.update(scores[number], state.rows[number],
                            state.acc[number], /*isFirst=*/false, []() {});
    if (failed(p))
      return failure();
    probabilities.push_back(*p);
  }
  if (value)
    multiplyColumns(thread, probabilities, state.acc, valueStage(stage));
  return success();
}

FailureOr<SweepState> Sweep::visitAhead(SweepState state) {
  waitCopies(e, kernel.stages - 2);
  thread.barrier();
  FailureOr<Value> next =
      findReached(e.add(state.blocks.back(), form.blockKey));
  if (failed(next))
    return failure();
  Value free = after(state.stage, kernel.stages - 1);
  copyKeys(*next, free);
  copyValues(*next, free);
  commitCopies(e);
  FailureOr<SmallVector<Fragment>> scores =
      makeScores(state.blocks.front(), state.stage);
  if (failed(scores) || failed(dropUnseen(state.stage)) ||
      failed(accumulate(*scores, state, state.stage)))
    return failure();
  state.blocks.erase(state.blocks.begin());
  state.blocks.push_back(*next);
  state.stage = after(state.stage, 1);
  return state;
}

FailureOr<SweepState> Sweep::visitInTurn(SweepState state) {
  waitCopies(e, 0);
  thread.barrier();
  copyValues(state.blocks.front(), state.stage);
  commitCopies(e);
  FailureOr<SmallVector<Fragment>> scores =
      makeScores(state.blocks.front(), state.stage);
  if (failed(scores))
    return failure();
  waitCopies(e, 0);
  thread.barrier();
  if (failed(dropUnseen(state.stage)))
    return failure();
  IRMapping block = slabs[0].scalars;
  FailureOr<Value> next =
      findReached(e.add(state.blocks.back(), form.blockKey));
  if (failed(next))
    return failure();
  for (Slab &slab : slabs)
    slab.scalars = block;
  copyKeys(*next, state.stage);
  commitCopies(e);
  if (failed(accumulate(*scores, state, state.stage)))
    return failure();
  state.blocks = {*next};
  return state;
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

FailureOr<SweepState> Sweep::start() {
  SweepState state;
  state.stage = e.i32(0);
  if (form.query) {
    TileCopy query(thread, kernel.tiles.query, form.query, scalars);
    Value address = e.add(thread.shared, kernel.queryAt);
    clearPadding(thread, kernel.tiles.query, form.headDim, address,
                 kernel.tiles.query.rows);
    query.issue(address, scalars.lookup(form.query.getIndices()[0]));
    clearPadding(thread, kernel.tiles.key, form.headDim,
                 e.add(thread.shared, kernel.keyAt),
                 kernel.stages * kernel.tiles.key.rows);
  }
  Value position = e.toI32(scalars.lookup(form.sweep.getLowerBound()));
  bool isAhead = kernel.stages > 1;
  for (int64_t i = 0; i < std::max<int64_t>(1, kernel.stages - 1); ++i) {
    if (i > 0)
      position = e.add(position, form.blockKey);
    FailureOr<Value> reachedBlock = findReached(position);
    if (failed(reachedBlock))
      return failure();
    position = *reachedBlock;
    copyKeys(position, e.i32(i));
    if (isAhead)
      copyValues(position, e.i32(i));
    commitCopies(e);
    state.blocks.push_back(position);
  }
  Fragment zero;
  if (value)
    zero.elements.assign(kernel.tiles.accumulatorColumns / 2,
                         e.zero(form.accumulatorType));
  state.acc.assign(slabs.size(), zero);
  Value isLeader = thread.isRowLeader();
  for (Slab &slab : slabs) {
    slab.scalars = scalars;
    FailureOr<SoftmaxRows> rows = slab.softmax.initial(isLeader);
    if (failed(rows))
      return failure();
    state.rows.push_back(*rows);
  }
  return state;
}

LogicalResult Sweep::run() {
  FailureOr<SweepState> state = start();
  if (failed(state))
    return failure();
  bool valid = true;
  SmallVector<Value> inits = state->values();
  auto loop = scf::WhileOp::create(
      e.b, e.loc, TypeRange(ValueRange(inits)), inits,
      [&](OpBuilder &, Location, ValueRange carried) {
        Value isBlock = e.less(carried[0], end);
        scf::ConditionOp::create(e.b, e.loc, isBlock, carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        SweepState inner = state->with(carried);
        FailureOr<SweepState> next =
            kernel.stages > 1 ? visitAhead(inner) : visitInTurn(inner);
        valid = succeeded(next);
        scf::YieldOp::create(e.b, e.loc, (valid ? *next : inner).values());
      });
  if (!valid)
    return failure();
  SweepState last = state->with(loop.getResults());
  for (auto [slab, rows, acc] : llvm::zip(slabs, last.rows, last.acc)) {
    slab.scalars = scalars;
    slab.softmax.finish(rows, acc);
  }
  return success();
}

LogicalResult mma::emitSweep(Thread &thread, const MmaKernel &kernel,
                             IRMapping &scalars, std::deque<Slab> &slabs) {
  return Sweep(thread, kernel, scalars, slabs).run();
}
