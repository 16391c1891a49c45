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
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

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
  Sweep(Thread &thread, IRMapping &scalars, std::deque<Slab> &slabs)
      : thread(thread), kernel(thread.kernel), form(kernel.form), e(thread.e),
        scalars(scalars), slabs(slabs),
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
  FailureOr<Value> isReached(Value position);
  LogicalResult enterBlock(Value position, WarpScalars::Reduce reduceAny = {});

  void copyKeys(Value position, Value stage);
  void copyValues(Value position, Value stage);
  Value addressOf(int64_t base, const MmaTiles::Tile &tile, Value stage) {
    return e.add(e.add(thread.shared, base), e.mul(stage, tile.bytes()));
  }
  Value after(Value stage, int64_t distance);

  FailureOr<SmallVector<Fragment>> makeScores(Value position, Value stage);
  LogicalResult dropUnseen(Value stage);
  LogicalResult accumulate(SmallVector<Fragment> scores, SweepState &state,
                           Value stage);
  LogicalResult noteSeen(int64_t slab);
  Value seenAddress(Value slab) {
    return e.add(e.add(thread.shared, kernel.seenAt),
                 e.mul(slab, kernel.tiles.seenWords * 4));
  }

  Thread &thread;
  const MmaKernel &kernel;
  TiledForm &form;
  GpuEmitter &e;
  IRMapping &scalars;
  std::deque<Slab> &slabs;
  Value end;
  std::optional<TileCopy> key, value;
  /// Whether the block that was asked for is reached.
  Value reached;
};
} // namespace

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The scalars of the block, for every slab.
LogicalResult Sweep::enterBlock(Value position, WarpScalars::Reduce reduceAny) {
  scf::ForOp sweep = form.sweep;
  IRMapping block = scalars;
  block.map(sweep.getInductionVar(), e.toIndex(position));
  WarpScalars warp(e, block, e.toIndex(thread.lane));
  auto enterSlabs = [&]() {
    for (Slab &slab : slabs)
      slab.scalars = block;
  };
  auto reduce = [&](vector::MultiDimReductionOp op) -> FailureOr<Value> {
    Operation *seen = form.seen;
    if (!seen || op.getSource().getDefiningOp() != seen)
      return warp.reduce(op);
    enterSlabs();
    return reduceAny(op);
  };
  LogicalResult cloned = reduceAny ? warp.clone(*sweep.getBody(), reduce)
                                   : warp.clone(*sweep.getBody());
  if (succeeded(cloned) && form.reach && !reduceAny)
    cloned = warp.clone(*form.reach.thenBlock());
  if (reduceAny && succeeded(cloned))
    reached = block.lookup(form.reach.getCondition());
  enterSlabs();
  return cloned;
}

/// Whether some row sees some key of the block; all threads ask together.
FailureOr<Value> Sweep::isReached(Value position) {
  auto anyOfTile = [&](vector::MultiDimReductionOp) -> FailureOr<Value> {
    Value any;
    for (Slab &slab : slabs) {
      FailureOr<Fragment> visible =
          slab.layout.tile(form.seen.getSource(), form.blockKey);
      if (failed(visible))
        return failure();
      for (Value element : visible->elements)
        any = any ? e.bitOr(any, element) : element;
    }
    any = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), any);
    auto kind = NVVM::BarrierReductionAttr::get(e.b.getContext(),
                                                NVVM::BarrierReduction::OR);
    any = NVVM::BarrierOp::create(e.b, e.loc, e.b.getI32Type(), Value(),
                                  Value(), kind, any)
              .getResult(0);
    return e.compare(arith::CmpIPredicate::ne, any, e.i32(0));
  };
  if (failed(enterBlock(position, anyOfTile)))
    return failure();
  return reached;
}

/// The first block from `position` on that the masks reach.
FailureOr<Value> Sweep::findReached(Value position) {
  if (!form.reach)
    return position;
  bool valid = true;
  auto search = scf::WhileOp::create(
      e.b, e.loc, position.getType(), position,
      [&](OpBuilder &, Location, ValueRange at) {
        // Nothing of a block past the end may be read.
        Value hidden =
            e.branch(e.less(at[0], end), e.zero(e.b.getI1Type()), [&]() {
              FailureOr<Value> seen = isReached(at[0]);
              valid &= succeeded(seen);
              Value one = e.like(e.zero(e.b.getI1Type()), 1);
              return SmallVector<Value>{valid ? e.bitXor(*seen, one) : one};
            })[0];
        scf::ConditionOp::create(e.b, e.loc, hidden, at);
      },
      [&](OpBuilder &, Location, ValueRange at) {
        scf::YieldOp::create(e.b, e.loc, e.add(at[0], form.blockKey));
      });
  if (!valid)
    return failure();
  return search.getResult(0);
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
// Seen keys
//===----------------------------------------------------------------------===//

/// A bit for every key that some row of the slab sees, for the others to read.
LogicalResult Sweep::noteSeen(int64_t number) {
  if (!kernel.dropsUnseen() || !form.seen)
    return success();
  FailureOr<Fragment> visible =
      slabs[number].layout.tile(form.seen.getSource(), form.blockKey);
  if (failed(visible))
    return failure();
  Value target =
      seenAddress(e.add(e.mul(thread.warp, kernel.tiles.slabs), number));
  Type word = e.b.getI32Type();
  for (int64_t w = 0; w < kernel.tiles.seenWords; ++w) {
    Value bits = e.i32(0);
    for (int64_t group = 4 * w;
         group < std::min(visible->groups(), 4 * (w + 1)); ++group)
      for (int64_t i : {0, 1}) {
        Value either =
            e.bitOr(visible->at(group, 0, i), visible->at(group, 1, i));
        either = arith::ExtUIOp::create(e.b, e.loc, word, either);
        either = arith::ShLIOp::create(e.b, e.loc, either,
                                       e.i32(8 * (group % 4) + i));
        bits = e.bitOr(bits, either);
      }
    bits = arith::ShLIOp::create(e.b, e.loc, bits, thread.column());
    bits = e.ptx("redux.sync.or.b32 $0, $1, 0xffffffff;", "=r,r", {word},
                 {bits})[0];
    e.branch(e.equals(thread.lane, 0), [&]() {
      e.ptx("st.shared.b32 [$0], $1;", "r,r,~{memory}",
            {e.add(target, 4 * w), bits});
    });
  }
  return success();
}

/// Clears the values of keys that no row of the task sees.
LogicalResult Sweep::dropUnseen(Value stage) {
  if (!kernel.dropsUnseen())
    return success();
  Value address = addressOf(kernel.valueAt, kernel.tiles.value, stage);
  int64_t noted = kernel.warps * kernel.tiles.slabs;
  auto isSeen = [&](Value key) -> FailureOr<Value> {
    if (!form.seen) {
      Value at = e.toIndex(key);
      FailureOr<Value> lane = slabs[0].slicer.lanes(form.seenKeys, {at, at, 1});
      if (failed(lane))
        return failure();
      return Value(vector::ExtractOp::create(e.b, e.loc, *lane, 0));
    }
    Value word = e.mul(e.div(key, 32), 4), bits = e.i32(0);
    for (int64_t slab = 0; slab < noted; ++slab)
      bits = e.bitOr(bits, e.ptx("ld.shared.b32 $0, [$1];", "=r,r,~{memory}",
                                 {e.b.getI32Type()},
                                 {e.add(seenAddress(e.i32(slab)), word)})[0]);
    bits = arith::ShRUIOp::create(e.b, e.loc, bits, e.bitAnd(key, 31));
    return e.equals(e.bitAnd(bits, 1), 1);
  };
  LogicalResult cleared = success();
  auto clear = [&]() {
    thread.barrier();
    cleared = clearUnseen(thread, address, isSeen);
    thread.barrier();
  };
  // Where the masks were not tested, every key is seen.
  if (form.seen && form.masked && form.masked->isAncestor(form.seen))
    e.branch(slabs[0].scalars.lookup(form.masked.getCondition()), clear);
  else
    clear();
  return cleared;
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Fragment>> Sweep::makeScores(Value position,
                                                   Value stage) {
  SmallVector<Fragment> scores(slabs.size());
  if (key)
    scores = multiplyQueryKey(thread,
                              addressOf(kernel.keyAt, kernel.tiles.key, stage));
  if (failed(enterBlock(position)))
    return failure();
  for (size_t number = 0; number < slabs.size(); ++number) {
    FailureOr<Fragment> finished = slabs[number].softmax.finishScores(
        scores[number], [&]() { return noteSeen(number); });
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
    multiplyProbabilitiesValue(
        thread, probabilities, state.acc,
        addressOf(kernel.valueAt, kernel.tiles.value, stage));
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
    query.clearPadding(address, kernel.tiles.query.rows);
    query.issue(address, scalars.lookup(form.query.getIndices()[0]));
    key->clearPadding(e.add(thread.shared, kernel.keyAt),
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

LogicalResult mma::emitSweep(Thread &thread, IRMapping &scalars,
                             std::deque<Slab> &slabs) {
  return Sweep(thread, scalars, slabs).run();
}
