//===- Sweep.cpp - The sweep of a workgroup -------------------------------===//
//
// All threads of a workgroup visit the same blocks, so that barriers stand in
// uniform control flow. Keys, then values, pass through one buffer, and come to
// registers while a product runs:
//
//   copy Q; load K of the first block
//   for each key/value block that the masks reach:
//     barrier; store K
//     barrier; load V; S = Q K; score region, masks; greatest of own rows
//     barrier; greatest of the rows; store V
//     softmax; store P
//     barrier; load K of the next block; acc += P V
//
// Values of keys that no row of the task sees are left out: which those are is
// known behind the scores, and the values are copied then. Keys are copied at
// the start of a block where the next one may be hidden whole.
//
//===----------------------------------------------------------------------===//

#include "LaneScalars.h"
#include "LaneSoftmax.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

namespace {
class Sweep {
public:
  Sweep(Thread &thread, IRMapping &scalars, LaneLayout &layout)
      : thread(thread), kernel(thread.kernel), form(kernel.form), e(thread.e),
        scalars(scalars), layout(layout), softmax(thread, layout, scalars) {
    if (form.key)
      key.emplace(thread, thread.block, form.blockKey, kernel.tiles.pitch,
                  form.key, scalars);
    if (form.value)
      value.emplace(thread, thread.block, form.blockKey, kernel.tiles.width,
                    form.value, scalars);
  }

  LogicalResult run();

private:
  bool loadsKeysAhead() const {
    return key && kernel.tiles.ahead > 0 && !form.reach;
  }
  bool loadsValuesAhead() const {
    return value && kernel.tiles.ahead > 0 && !kernel.dropsUnseen();
  }
  /// Keys of the block at `position`, if there is one.
  Registers loadKeys(Value position);
  /// The scalars of the block; then, if it may be hidden whole, whether it is
  /// reached.
  LogicalResult enterBlock(Value position);
  FailureOr<SoftmaxState> visit(Value position, SoftmaxState state,
                                Registers &keys);
  FailureOr<Value> voteSeen();
  LogicalResult noteSeen();
  FailureOr<Value> isSeen(Value key);
  void storeProbabilities(const Registers &probabilities);

  Thread &thread;
  const LaneKernel &kernel;
  TiledForm &form;
  GpuEmitter &e;
  IRMapping &scalars;
  LaneLayout &layout;
  LaneSoftmax softmax;
  std::optional<TileCopy> key, value;
};
} // namespace

//===----------------------------------------------------------------------===//
// Seen keys
//===----------------------------------------------------------------------===//

/// Whether some row sees some key of the block.
FailureOr<Value> Sweep::voteSeen() {
  FailureOr<Registers> visible = layout.scores(form.seen.getSource());
  if (failed(visible))
    return failure();
  Value any;
  for (Value element : *visible)
    any = any ? e.bitOr(any, element) : element;
  return thread.voteAny(any);
}

/// Which keys the rows of a row of threads see: a line of words for each such
/// row, so that nobody writes what another does.
LogicalResult Sweep::noteSeen() {
  if (!kernel.dropsUnseen() || !form.seen)
    return success();
  FailureOr<Registers> visible = layout.scores(form.seen.getSource());
  if (failed(visible))
    return failure();
  ArrayRef<Value> keys = layout.keyNumbers();
  Value line = e.mul(thread.row, form.blockKey);
  for (auto [j, key] : llvm::enumerate(keys)) {
    Value any;
    for (size_t i = j; i < visible->size(); i += keys.size())
      any = any ? e.bitOr(any, (*visible)[i]) : (*visible)[i];
    Value word = e.select(any, e.i32(1), e.i32(0));
    Value at = e.add(line, key);
    auto store = [&]() { thread.seen.store(e, word, at); };
    if (kernel.hasPaddedKeys())
      e.branch(e.less(key, e.index(form.blockKey)), store);
    else
      store();
  }
  return success();
}

FailureOr<Value> Sweep::isSeen(Value key) {
  if (!form.seen)
    return layout.element(form.seenKeys, key);
  auto ask = [&]() {
    Value any;
    for (int64_t row = 0; row < kernel.tiles.rowThreads; ++row) {
      Value word = thread.seen.load(e, e.add(key, row * form.blockKey));
      any = any ? e.bitOr(any, word) : word;
    }
    return Registers{e.equals(any, 1)};
  };
  // Where the masks were not tested, every key is seen.
  if (form.masked && form.masked->isAncestor(form.seen)) {
    Value tested = scalars.lookup(form.masked.getCondition());
    Value yes = e.like(e.zero(e.b.getI1Type()), 1);
    return e.branch(tested, yes, ask)[0];
  }
  return ask()[0];
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

LogicalResult Sweep::enterBlock(Value position) {
  scalars.map(form.sweep.getInductionVar(), position);
  LaneScalars lane(e, scalars);
  if (!form.reach)
    return lane.clone(*form.sweep.getBody());
  return lane.clone(*form.sweep.getBody(),
                    [&](vector::MultiDimReductionOp op) -> FailureOr<Value> {
                      Operation *seen = form.seen;
                      if (seen && op.getSource().getDefiningOp() == seen)
                        return voteSeen();
                      return lane.reduce(op);
                    });
}

/// A thread's rows for one key lie side by side.
void Sweep::storeProbabilities(const Registers &probabilities) {
  const LaneTiles &tiles = kernel.tiles;
  int64_t size = tiles.rowVector(), vectors = tiles.rows / size;
  Value firstRows = e.mul(thread.row, vectors);
  for (int64_t j = 0; j < tiles.keys; ++j) {
    Value key = layout.keyNumbers()[j];
    Value line = e.add(e.mul(key, tiles.rowThreads * vectors), firstRows);
    auto store = [&]() {
      for (int64_t v = 0; v < vectors; ++v) {
        Registers elements;
        for (int64_t i = v * size; i < (v + 1) * size; ++i)
          elements.push_back(probabilities[i * tiles.keys + j]);
        Value vector = vector::FromElementsOp::create(
            e.b, e.loc, cast<VectorType>(thread.probabilities.type()),
            elements);
        thread.probabilities.store(e, vector, e.add(line, v));
      }
    };
    if (kernel.hasPaddedKeys())
      e.branch(e.less(key, e.index(form.blockKey)), store);
    else
      store();
  }
}

Registers Sweep::loadKeys(Value position) {
  if (!loadsKeysAhead())
    return {};
  int64_t count = llvm::divideCeil(key->size(), kernel.tiles.threads);
  Registers zeros(count, e.zero(kernel.quadType()));
  Value end = scalars.lookup(form.sweep.getUpperBound());
  return e.branch(e.less(position, end), zeros,
                  [&]() { return key->load(position); });
}

/// `keys` are those of this block, and then of the next.
FailureOr<SoftmaxState> Sweep::visit(Value position, SoftmaxState state,
                                     Registers &keys) {
  if (form.reach) {
    LaneScalars lane(e, scalars);
    if (failed(lane.clone(*form.reach.thenBlock())))
      return failure();
  }
  thread.barrier();
  if (loadsKeysAhead())
    key->store(keys);
  else if (key && failed(key->copy(position)))
    return failure();
  thread.barrier();
  Registers values;
  if (loadsValuesAhead())
    values = value->load(position);
  FailureOr<Registers> scores = softmax.finishScores(
      multiplyQueryKey(thread), [&]() { return noteSeen(); });
  if (failed(scores))
    return failure();
  Registers max = softmax.newMaximum(*scores, state);
  auto seen = [&](Value row) { return isSeen(row); };
  if (loadsValuesAhead())
    value->store(values);
  else if (value && failed(kernel.dropsUnseen() ? value->copy(position, seen)
                                                : value->copy(position)))
    return failure();
  FailureOr<Registers> probabilities =
      softmax.update(*scores, std::move(max), state);
  if (failed(probabilities))
    return failure();
  if (value) {
    storeProbabilities(*probabilities);
    thread.barrier();
  }
  keys = loadKeys(e.add(position, form.blockKey));
  if (value)
    state.acc = multiplyProbabilitiesValue(thread, state.acc);
  return state;
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

LogicalResult Sweep::run() {
  if (form.query) {
    TileCopy query(thread, thread.query, form.blockQuery, kernel.tiles.pitch,
                   form.query, scalars);
    if (failed(query.copy(scalars.lookup(form.query.getIndices()[0]))))
      return failure();
  }
  FailureOr<SoftmaxState> state = softmax.initial();
  if (failed(state))
    return failure();
  IRMapping task = scalars;
  Value first = scalars.lookup(form.sweep.getLowerBound());
  Registers inits = state->values();
  size_t stateSize = inits.size();
  llvm::append_range(inits, loadKeys(first));
  bool valid = true;
  Registers last = e.loop(
      first, scalars.lookup(form.sweep.getUpperBound()), e.index(form.blockKey),
      inits, [&](Value position, ValueRange carried) {
        SoftmaxState inner = state->with(carried.take_front(stateSize));
        auto visitBlock = [&]() {
          Registers keys(carried.drop_front(stateSize));
          FailureOr<SoftmaxState> next = visit(position, inner, keys);
          valid &= succeeded(next);
          Registers values = (valid ? *next : inner).values();
          llvm::append_range(values, keys);
          return values;
        };
        valid = succeeded(enterBlock(position));
        if (!valid || !form.reach)
          return valid ? visitBlock() : Registers(carried);
        Value isReached = scalars.lookup(form.reach.getCondition());
        return e.branch(isReached, carried, visitBlock);
      });
  scalars = task;
  if (!valid)
    return failure();
  last.truncate(stateSize);
  softmax.finish(state->with(last));
  return success();
}

LogicalResult spv::emitSweep(Thread &thread, IRMapping &scalars,
                             LaneLayout &layout) {
  return Sweep(thread, scalars, layout).run();
}
