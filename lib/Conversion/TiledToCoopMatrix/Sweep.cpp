//===- Sweep.cpp - The sweep of a workgroup -------------------------------===//
//
// Subgroups own rows and share the key/value blocks. Shared memory holds one
// block of keys and one of values; the next ones wait in registers until the
// products that read the place are done:
//
//   fetch K of the first block, store it
//   for each block
//     barrier; fetch V of the block; S = Q K
//     store V; barrier; fetch K of the next block
//     score region, masks, softmax; acc += P V; store K
//
// Blocks that masks leave alone come first in a loop of their own, up to the
// first one on an edge: that loop has less to keep in registers.
//
// Where a mask can hide a key from all rows, values are stored behind the
// scores, and the next keys fetched then. Where it can hide a whole block, all
// of this is done for blocks that are reached, whose keys are fetched at their
// start.
//
// The query tile goes through the same memory before the first block, and
// stays in registers as left sides.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"
#include "SubgroupScalars.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;
static constexpr int64_t kUnit = CoopMatrixTiles::kUnit;

namespace {
/// What is carried from block to block.
struct SweepState {
  SmallVector<MatrixRows> rows;
  /// Matrices of the accumulator, of each slab.
  SmallVector<Values> acc;

  Values values() const {
    Values all;
    for (const MatrixRows &slab : rows) {
      llvm::append_range(all, slab.max);
      llvm::append_range(all, slab.sum);
    }
    for (const Values &slab : acc)
      llvm::append_range(all, slab);
    return all;
  }
  SweepState with(ValueRange values) const {
    SweepState state = *this;
    size_t next = 0;
    auto take = [&](Values &targets) {
      for (Value &target : targets)
        target = values[next++];
    };
    for (MatrixRows &slab : state.rows) {
      take(slab.max);
      take(slab.sum);
    }
    for (Values &slab : state.acc)
      take(slab);
    return state;
  }
};

class Sweep {
public:
  Sweep(Thread &thread, IRMapping &scalars, std::deque<Slab> &slabs)
      : thread(thread), kernel(thread.kernel), form(kernel.form), e(thread.e),
        matrices(thread.matrices), tiles(kernel.tiles), scalars(scalars),
        slabs(slabs), seen(thread, slabs) {
    if (form.key)
      key.emplace(thread, tiles.key, form.key, scalars);
    if (form.value)
      value.emplace(thread, tiles.value, form.value, scalars);
    for (Slab &slab : slabs)
      softmax.emplace_back(thread, slab);
  }

  LogicalResult run();

private:
  LogicalResult loadQuery();
  FailureOr<SweepState> start();
  /// The block at `position` of a sweep to `upper`, and a fetch of the next.
  FailureOr<SweepState> visit(Value position, Value upper, SweepState state,
                              bool isMasked);
  /// Visits blocks from `position` on while their masks hide nothing, and moves
  /// `position` behind them.
  FailureOr<SweepState> visitUnmasked(Value &position, Value upper,
                                      SweepState state);
  /// The block at `position`, if it is reached.
  FailureOr<SweepState> visitReached(Value position, Value upper,
                                     SweepState state);
  /// Gives the scalars of the block to all slabs. Of a block that may be hidden
  /// whole, `whetherReached` has those that its reach depends on alone.
  LogicalResult enterBlock(Value position, bool whetherReached = false);
  /// The softmax of a block, from its raw scores to the probabilities.
  FailureOr<SmallVector<Fragments>>
  updateSoftmax(ArrayRef<Fragments> scores, SweepState &state, bool isMasked);
  LogicalResult correct(SweepState &state);
  SmallVector<Fragments> multiplyQueryKey();
  void multiplyProbabilitiesValue(ArrayRef<Fragments> probabilities,
                                  SweepState &state);
  /// Probabilities as a factor of the second product.
  Value makeLeftSide(const Values &elements);
  /// Unit of `Thread::tiles` at a row and column of a tile.
  Value unitAt(const CoopMatrixTiles::Tile &tile, int64_t row, int64_t column,
               int64_t from = 0) {
    return e.i32(from + (row * tile.pitch + column) / kUnit);
  }
  int64_t valueAt() const { return tiles.key.bytes() / 16; }

  Thread &thread;
  const CoopKernel &kernel;
  TiledForm &form;
  GpuEmitter &e;
  Matrices &matrices;
  const CoopMatrixTiles &tiles;
  IRMapping &scalars;
  std::deque<Slab> &slabs;
  SeenKeys seen;
  std::deque<MatrixSoftmax> softmax;
  std::optional<TileCopy> key, value;
  /// Left sides of the query tile: [slab][16 of depth].
  SmallVector<Values> query;
};
} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult Sweep::loadQuery() {
  query.resize(slabs.size());
  if (!form.query)
    return success();
  TileCopy copy(thread, tiles.query, form.query, scalars);
  Value firstRow = e.toI32(scalars.lookup(form.query.getIndices()[0]));
  if (failed(copy.store(copy.fetch(firstRow), 0)))
    return failure();
  matrices.workgroupBarrier();
  int64_t pitch = tiles.query.pitch / kUnit;
  for (auto [number, slab] : llvm::enumerate(query)) {
    Value row = e.add(e.mul(thread.subgroup, tiles.slabs * kSide),
                      int64_t(number) * kSide);
    for (int64_t depth = 0; depth < tiles.query.columns; depth += kSide)
      slab.push_back(matrices.load(matrices.left(), thread.tiles,
                                   e.add(e.mul(row, pitch), depth / kUnit),
                                   pitch));
  }
  matrices.workgroupBarrier();
  return success();
}

SmallVector<Fragments> Sweep::multiplyQueryKey() {
  SmallVector<Fragments> scores(slabs.size());
  if (!key)
    return scores;
  int64_t pitch = tiles.key.pitch / kUnit;
  for (int64_t column = 0; column < form.blockKey; column += kSide) {
    Values sums(slabs.size(), matrices.splat(matrices.accumulator(), 0));
    for (int64_t depth = 0; depth < tiles.key.columns; depth += kSide) {
      Value right = matrices.load(matrices.right(), thread.tiles,
                                  unitAt(tiles.key, column, depth), pitch,
                                  /*isTransposed=*/true);
      for (auto [number, sum] : llvm::enumerate(sums))
        sum = matrices.multiplyAdd(query[number][depth / kSide], right, sum);
    }
    for (auto [number, sum] : llvm::enumerate(sums))
      scores[number].push_back(matrices.elements(sum, tiles.elements()));
  }
  return scores;
}

/// Element by element where left sides lie in the threads as accumulators do.
/// Else through the memory that rows are reduced in.
Value Sweep::makeLeftSide(const Values &elements) {
  if (kernel.isLayoutShared()) {
    Values narrow;
    for (Value element : elements)
      narrow.push_back(matrices.narrow(element));
    return matrices.fromElements(matrices.left(), narrow);
  }
  constexpr int64_t kPitch = CoopMatrixTiles::kReductionPitch;
  Value matrix = matrices.narrowMatrix(elements);
  // What was read there before was read by all.
  matrices.subgroupBarrier();
  matrices.store(matrix, thread.reduction, thread.reductionAt, kPitch);
  matrices.subgroupBarrier();
  return matrices.load(matrices.left(), thread.reduction, thread.reductionAt,
                       kPitch);
}

void Sweep::multiplyProbabilitiesValue(ArrayRef<Fragments> probabilities,
                                       SweepState &state) {
  SmallVector<Values> left(probabilities.size());
  for (auto [sides, slab] : llvm::zip(left, probabilities))
    for (const Values &elements : slab)
      sides.push_back(makeLeftSide(elements));
  int64_t pitch = tiles.value.pitch / kUnit;
  for (int64_t depth = 0; depth < form.blockKey; depth += kSide)
    for (int64_t column = 0; column < tiles.value.columns; column += kSide) {
      Value right =
          matrices.load(matrices.right(), thread.tiles,
                        unitAt(tiles.value, depth, column, valueAt()), pitch);
      for (size_t number = 0; number < slabs.size(); ++number) {
        Value &sum = state.acc[number][column / kSide];
        sum = matrices.multiplyAdd(left[number][depth / kSide], right, sum);
      }
    }
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

FailureOr<SweepState> Sweep::start() {
  if (failed(loadQuery()))
    return failure();
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  LogicalResult stored = success();
  if (key && !form.reach)
    e.branch(e.less(lower, upper),
             [&]() { stored = key->store(key->fetch(e.toI32(lower)), 0); });
  if (failed(stored))
    return failure();
  SweepState state;
  Values zero;
  if (value)
    zero.assign(tiles.value.columns / kSide,
                matrices.splat(matrices.accumulator(), 0));
  for (auto [slab, rows] : llvm::zip(slabs, softmax)) {
    slab.scalars = scalars;
    FailureOr<MatrixRows> first = rows.initial();
    if (failed(first))
      return failure();
    state.rows.push_back(*first);
    state.acc.push_back(zero);
  }
  return state;
}

LogicalResult Sweep::enterBlock(Value position, bool whetherReached) {
  IRMapping block = scalars;
  block.map(form.sweep.getInductionVar(), position);
  SubgroupScalars subgroup(e, block, e.toIndex(thread.lane), tiles.lanes);
  auto enterSlabs = [&]() {
    for (Slab &slab : slabs)
      slab.scalars = block;
  };
  auto reduce = [&](vector::MultiDimReductionOp op) -> FailureOr<Value> {
    Operation *any = form.seen;
    if (!any || op.getSource().getDefiningOp() != any)
      return subgroup.reduce(op);
    enterSlabs();
    return seen.isAnySeen();
  };
  LogicalResult cloned = whetherReached
                             ? subgroup.clone(*form.sweep.getBody(), reduce)
                             : subgroup.clone(*form.sweep.getBody());
  if (succeeded(cloned) && form.reach && !whetherReached)
    cloned = subgroup.clone(*form.reach.thenBlock());
  enterSlabs();
  return cloned;
}

LogicalResult Sweep::correct(SweepState &state) {
  for (auto [rows, max, acc] : llvm::zip(softmax, state.rows, state.acc))
    if (failed(rows.correct(max, acc)))
      return failure();
  return success();
}

/// One vote for all slabs: between branches, what one slab computes and another
/// one multiplies runs side by side.
FailureOr<SmallVector<Fragments>>
Sweep::updateSoftmax(ArrayRef<Fragments> scores, SweepState &state,
                     bool isMasked) {
  Value vote;
  for (auto [rows, raw, max, slab] :
       llvm::zip(softmax, scores, state.rows, slabs)) {
    Slab &noted = slab;
    FailureOr<Fragments> finished =
        rows.finishScores(raw, isMasked, [&]() { return seen.note(noted); });
    if (failed(finished))
      return failure();
    FailureOr<Value> grew = rows.compare(*finished, max);
    if (failed(grew))
      return failure();
    vote = vote ? e.bitOr(vote, *grew) : *grew;
  }
  bool valid = true;
  if (!form.rescale)
    valid = succeeded(correct(state));
  else
    state = state.with(e.branch(matrices.any(vote), state.values(), [&]() {
      SweepState corrected = state;
      valid = succeeded(correct(corrected));
      return corrected.values();
    }));
  if (!valid)
    return failure();
  SmallVector<Fragments> probabilities;
  for (auto [rows, max] : llvm::zip(softmax, state.rows)) {
    FailureOr<Fragments> tile = rows.exponentiate(max);
    if (failed(tile))
      return failure();
    probabilities.push_back(*tile);
  }
  return probabilities;
}

FailureOr<SweepState> Sweep::visit(Value position, Value upper,
                                   SweepState state, bool isMasked) {
  // Behind the last block it is fetched once more, and not read.
  Value following = e.add(position, e.index(form.blockKey));
  Value next = e.select(e.less(following, upper), following, position);
  bool drops = seen.dropValues(isMasked), isAhead = key && !form.reach;
  Values values, keys;
  matrices.workgroupBarrier();
  if (drops)
    seen.clear();
  if (value)
    values = value->fetch(e.toI32(position));
  if (form.reach) {
    if (key && failed(key->store(key->fetch(e.toI32(position)), 0)))
      return failure();
    matrices.workgroupBarrier();
  }
  SmallVector<Fragments> scores = multiplyQueryKey();
  if (value && !drops && failed(value->store(values, valueAt())))
    return failure();
  matrices.workgroupBarrier();
  if (isAhead && !drops)
    keys = key->fetch(e.toI32(next));

  if (failed(enterBlock(position)))
    return failure();
  FailureOr<SmallVector<Fragments>> probabilities =
      updateSoftmax(scores, state, isMasked);
  if (failed(probabilities))
    return failure();
  if (drops) {
    matrices.workgroupBarrier();
    if (failed(value->store(values, valueAt(),
                            [&](Value row) { return seen.isSeen(row); })))
      return failure();
    matrices.workgroupBarrier();
    if (isAhead)
      keys = key->fetch(e.toI32(next));
  }
  if (value)
    multiplyProbabilitiesValue(*probabilities, state);
  if (isAhead && failed(key->store(keys, 0)))
    return failure();
  return state;
}

FailureOr<SweepState> Sweep::visitReached(Value position, Value upper,
                                          SweepState state) {
  if (!form.reach)
    return visit(position, upper, state, true);
  if (failed(enterBlock(position, /*whetherReached=*/true)))
    return failure();
  Value isReached = slabs[0].scalars.lookup(form.reach.getCondition());
  bool valid = true;
  Values values = e.branch(isReached, state.values(), [&]() {
    FailureOr<SweepState> after = visit(position, upper, state, true);
    valid = succeeded(after);
    return (valid ? *after : state).values();
  });
  if (!valid)
    return failure();
  return state.with(values);
}

FailureOr<SweepState> Sweep::visitUnmasked(Value &position, Value upper,
                                           SweepState state) {
  Values carried = {position};
  llvm::append_range(carried, state.values());
  bool valid = true;
  Values results = e.repeatWhile(
      carried,
      [&](ValueRange at) -> Value {
        valid &= succeeded(enterBlock(at[0]));
        Value isLeft = e.less(at[0], upper);
        if (!valid)
          return isLeft;
        Value isMasked = slabs[0].scalars.lookup(form.masked.getCondition());
        return e.both(isLeft, e.equals(isMasked, 0));
      },
      [&](ValueRange at) {
        SweepState inner = state.with(at.drop_front());
        FailureOr<SweepState> after = visit(at[0], upper, inner, false);
        valid &= succeeded(after);
        Values next = {e.add(at[0], e.index(form.blockKey))};
        llvm::append_range(next, (valid ? *after : inner).values());
        return next;
      });
  if (!valid)
    return failure();
  position = results[0];
  return state.with(ArrayRef(results).drop_front());
}

LogicalResult Sweep::run() {
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  Value step = e.index(form.blockKey);
  FailureOr<SweepState> state = start();
  if (succeeded(state) && !form.reach && MatrixSoftmax::testsSomeBlocks(form))
    state = visitUnmasked(lower, upper, *state);
  if (failed(state))
    return failure();
  bool valid = true;
  Values results = e.loop(lower, upper, step, state->values(),
                          [&](Value position, ValueRange carried) {
                            SweepState inner = state->with(carried);
                            FailureOr<SweepState> after =
                                visitReached(position, upper, inner);
                            valid &= succeeded(after);
                            return (valid ? *after : inner).values();
                          });
  if (!valid)
    return failure();
  SweepState last = state->with(results);
  for (size_t number = 0; number < slabs.size(); ++number) {
    slabs[number].scalars = scalars;
    softmax[number].finish(last.rows[number], last.acc[number]);
  }
  return success();
}

LogicalResult coop::emitSweep(Thread &thread, IRMapping &scalars,
                              std::deque<Slab> &slabs) {
  return Sweep(thread, scalars, slabs).run();
}
