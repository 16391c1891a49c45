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
#include "SeenKeys.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

namespace {
class Sweep {
public:
  Sweep(Thread &thread, IRMapping &scalars, LaneLayout &layout)
      : thread(thread), kernel(thread.kernel), form(kernel.form), e(thread.e),
        scalars(scalars), softmax(thread, layout, scalars),
        seen(thread, layout, scalars, thread.seen,
             {form.seen, form.masked, form.seenKeys, form.blockKey,
              kernel.tiles.rowThreads, kernel.hasPaddedKeys()},
             thread.row) {
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

  Thread &thread;
  const LaneKernel &kernel;
  TiledForm &form;
  GpuEmitter &e;
  IRMapping &scalars;
  LaneSoftmax softmax;
  SeenKeys seen;
  std::optional<TileCopy> key, value;
};
} // namespace

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
                      Operation *flags = form.seen;
                      if (flags && op.getSource().getDefiningOp() == flags)
                        return seen.voteAny();
                      return lane.reduce(op);
                    });
}

Registers Sweep::loadKeys(Value position) {
  if (!loadsKeysAhead())
    return {};
  int64_t count = llvm::divideCeil(key->size(), kernel.tiles.threads);
  Registers zeros(count, e.zero(thread.quadType()));
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
  Registers zeros(kernel.tiles.scores(), e.zero(kernel.type()));
  FailureOr<Registers> scores =
      softmax.finishScores(multiplyQueryKey(thread, zeros), [&]() {
        return kernel.dropsUnseen() ? seen.note() : success();
      });
  if (failed(scores))
    return failure();
  Registers max = softmax.newMaximum(*scores, state);
  auto isSeen = [&](Value key) { return seen.isSeen(key); };
  if (loadsValuesAhead())
    value->store(values);
  else if (value && failed(kernel.dropsUnseen() ? value->copy(position, isSeen)
                                                : value->copy(position)))
    return failure();
  FailureOr<Registers> probabilities =
      softmax.update(*scores, std::move(max), state);
  if (failed(probabilities))
    return failure();
  if (value) {
    storeProbabilities(thread, *probabilities, 0, kernel.tiles.keys);
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
  if (thread.kernel.tiles.streams)
    return emitStreamedSweep(thread, scalars, layout);
  return Sweep(thread, scalars, layout).run();
}
