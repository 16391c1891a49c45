//===- Sweep.cpp - The sweep of a workgroup -------------------------------===//
//
// All threads of a workgroup visit the same blocks, so that barriers stand in
// uniform control flow. Keys, then values, pass through one buffer:
//
//   copy Q
//   for each key/value block that the masks reach:
//     barrier; copy K
//     barrier; S = Q K; score region, masks; greatest of a thread's rows
//     barrier; greatest of the rows; copy V
//     softmax; store P
//     barrier; acc += P V
//
// Values of keys that no row of the task sees are left out of the copy.
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
        scalars(scalars), layout(layout), softmax(thread, layout, scalars) {}

  LogicalResult run();

private:
  /// The scalars of the block; then, if it may be hidden whole, whether it is
  /// reached.
  LogicalResult enterBlock(Value position);
  FailureOr<SoftmaxState> visit(Value position, SoftmaxState state);
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

FailureOr<SoftmaxState> Sweep::visit(Value position, SoftmaxState state) {
  const LaneTiles &tiles = kernel.tiles;
  if (form.reach) {
    LaneScalars lane(e, scalars);
    if (failed(lane.clone(*form.reach.thenBlock())))
      return failure();
  }
  thread.barrier();
  if (form.key && failed(copyTile(thread, thread.block, form.blockKey,
                                  tiles.pitch, form.key, scalars, position)))
    return failure();
  thread.barrier();
  FailureOr<Registers> scores = softmax.finishScores(
      multiplyQueryKey(thread), [&]() { return noteSeen(); });
  if (failed(scores))
    return failure();
  Registers max = softmax.newMaximum(*scores, state);
  auto seen = [&](Value row) { return isSeen(row); };
  function_ref<FailureOr<Value>(Value)> drop;
  if (kernel.dropsUnseen())
    drop = seen;
  if (form.value &&
      failed(copyTile(thread, thread.block, form.blockKey, tiles.width,
                      form.value, scalars, position, drop)))
    return failure();
  FailureOr<Registers> probabilities =
      softmax.update(*scores, std::move(max), state);
  if (failed(probabilities))
    return failure();
  if (form.value) {
    storeProbabilities(*probabilities);
    thread.barrier();
    state.acc = multiplyProbabilitiesValue(thread, state.acc);
  }
  return state;
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

LogicalResult Sweep::run() {
  if (form.query &&
      failed(copyTile(thread, thread.query, form.blockQuery, kernel.tiles.pitch,
                      form.query, scalars,
                      scalars.lookup(form.query.getIndices()[0]))))
    return failure();
  FailureOr<SoftmaxState> state = softmax.initial();
  if (failed(state))
    return failure();
  IRMapping task = scalars;
  bool valid = true;
  Registers last =
      e.loop(scalars.lookup(form.sweep.getLowerBound()),
             scalars.lookup(form.sweep.getUpperBound()), e.index(form.blockKey),
             state->values(), [&](Value position, ValueRange carried) {
               SoftmaxState inner = state->with(carried);
               auto visitBlock = [&]() {
                 FailureOr<SoftmaxState> next = visit(position, inner);
                 valid &= succeeded(next);
                 return (valid ? *next : inner).values();
               };
               valid = succeeded(enterBlock(position));
               if (!valid || !form.reach)
                 return valid ? visitBlock() : inner.values();
               Value isReached = scalars.lookup(form.reach.getCondition());
               return e.branch(isReached, inner.values(), visitBlock);
             });
  scalars = task;
  if (!valid)
    return failure();
  softmax.finish(state->with(last));
  return success();
}

LogicalResult spv::emitSweep(Thread &thread, IRMapping &scalars,
                             LaneLayout &layout) {
  return Sweep(thread, scalars, layout).run();
}
