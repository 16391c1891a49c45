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
// The query tile goes through the same memory before the first block, and
// stays in registers as left sides.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"

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
        slabs(slabs) {
    if (form.key)
      key.emplace(thread, tiles.key, form.key, scalars);
    if (form.value)
      value.emplace(thread, tiles.value, form.value, scalars);
    for (Slab &slab : slabs)
      softmax.emplace_back(thread, slab);
  }

  LogicalResult run();

private:
  void loadQuery();
  FailureOr<SweepState> start();
  FailureOr<SweepState> visit(Value position, Value next, SweepState state);
  SmallVector<Fragments> multiplyQueryKey();
  void multiplyProbabilitiesValue(ArrayRef<Fragments> probabilities,
                                  SweepState &state);
  Values makeLeftSides(const Fragments &probabilities);
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
  std::deque<MatrixSoftmax> softmax;
  std::optional<TileCopy> key, value;
  /// Left sides of the query tile: [slab][16 of depth].
  SmallVector<Values> query;
};
} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void Sweep::loadQuery() {
  query.resize(slabs.size());
  if (!form.query)
    return;
  TileCopy copy(thread, tiles.query, form.query, scalars);
  Value firstRow = e.toI32(scalars.lookup(form.query.getIndices()[0]));
  copy.store(copy.fetch(firstRow), 0);
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

Values Sweep::makeLeftSides(const Fragments &probabilities) {
  Values sides;
  for (const Values &matrix : probabilities) {
    Values narrow;
    for (Value element : matrix)
      narrow.push_back(matrices.narrow(element));
    sides.push_back(matrices.fromElements(matrices.left(), narrow));
  }
  return sides;
}

void Sweep::multiplyProbabilitiesValue(ArrayRef<Fragments> probabilities,
                                       SweepState &state) {
  SmallVector<Values> left;
  for (const Fragments &slab : probabilities)
    left.push_back(makeLeftSides(slab));
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
  loadQuery();
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  if (key)
    e.branch(e.less(lower, upper),
             [&]() { key->store(key->fetch(e.toI32(lower)), 0); });
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

FailureOr<SweepState> Sweep::visit(Value position, Value next,
                                   SweepState state) {
  Values fetched;
  matrices.workgroupBarrier();
  if (value)
    fetched = value->fetch(e.toI32(position));
  SmallVector<Fragments> scores = multiplyQueryKey();
  if (value)
    value->store(fetched, valueAt());
  matrices.workgroupBarrier();
  // Behind the last block it is fetched once more, and not read.
  if (key)
    fetched = key->fetch(e.toI32(next));

  IRMapping block = scalars;
  block.map(form.sweep.getInductionVar(), position);
  cloneScalars(e, *form.sweep.getBody(), block);
  SmallVector<Fragments> probabilities;
  for (size_t number = 0; number < slabs.size(); ++number) {
    slabs[number].scalars = block;
    FailureOr<Fragments> finished =
        softmax[number].finishScores(scores[number]);
    if (failed(finished))
      return failure();
    FailureOr<Fragments> p = softmax[number].update(
        *finished, state.rows[number], state.acc[number]);
    if (failed(p))
      return failure();
    probabilities.push_back(*p);
  }
  if (value)
    multiplyProbabilitiesValue(probabilities, state);
  if (key)
    key->store(fetched, 0);
  return state;
}

LogicalResult Sweep::run() {
  Value lower = scalars.lookup(form.sweep.getLowerBound());
  Value upper = scalars.lookup(form.sweep.getUpperBound());
  Value step = e.index(form.blockKey);
  FailureOr<SweepState> state = start();
  if (failed(state))
    return failure();
  bool valid = true;
  Values results =
      e.loop(lower, upper, step, state->values(),
             [&](Value position, ValueRange carried) {
               Value following = e.add(position, step);
               Value next =
                   e.select(e.less(following, upper), following, position);
               SweepState inner = state->with(carried);
               FailureOr<SweepState> after = visit(position, next, inner);
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
