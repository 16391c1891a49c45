//===- LaneSoftmax.cpp - The online softmax on what a thread holds --------===//

#include "LaneSoftmax.h"
#include "MaskedScores.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

Registers SoftmaxState::values() const {
  Registers all(max);
  llvm::append_range(all, sum);
  llvm::append_range(all, acc);
  return all;
}

SoftmaxState SoftmaxState::with(ValueRange values) const {
  SoftmaxState state;
  auto take = [&](Registers &target, size_t count) {
    llvm::append_range(target, values.take_front(count));
    values = values.drop_front(count);
  };
  take(state.max, max.size());
  take(state.sum, sum.size());
  take(state.acc, acc.size());
  return state;
}

FailureOr<SoftmaxState> LaneSoftmax::initial() {
  FailureOr<Registers> max = layout.rows(form.sweep.getInitArgs()[0]);
  FailureOr<Registers> sum = layout.rows(form.sweep.getInitArgs()[1]);
  if (failed(max) || failed(sum))
    return failure();
  // The first of the threads that share a row holds what it starts with.
  Value zero = e.zero(kernel.type()), isFirst = e.equals(thread.column, 0);
  for (Value &part : *sum)
    part = e.select(isFirst, part, zero);
  return SoftmaxState{
      *max, *sum, Registers(form.value ? kernel.tiles.accumulator() : 0, zero)};
}

/// -inf in what lies behind the block.
Registers LaneSoftmax::hidePadding(Registers scores) {
  if (!kernel.hasPaddedKeys())
    return scores;
  double infinity = std::numeric_limits<double>::infinity();
  Value hidden = arith::ConstantOp::create(
      e.b, e.loc, e.b.getFloatAttr(kernel.type(), -infinity));
  ArrayRef<Value> keys = layout.keyNumbers();
  Value end = e.index(form.blockKey);
  for (auto [i, score] : llvm::enumerate(scores))
    score = e.select(e.less(keys[i % keys.size()], end), score, hidden);
  return scores;
}

FailureOr<Registers>
LaneSoftmax::finishScores(Registers raw,
                          function_ref<LogicalResult()> whenTested) {
  if (form.scores)
    layout.bindTile(form.scores->getResult(0), raw);
  FailureOr<Registers> scores = maskScores(
      e, layout, scalars, form.rowMax->getOperand(0), form.masked, whenTested);
  if (failed(scores))
    return failure();
  return hidePadding(*scores);
}

Registers LaneSoftmax::newMaximum(const Registers &scores,
                                  const SoftmaxState &state) {
  // maxnum passes over a NaN: it reaches the row through its probability.
  auto greater = [&](Value x, Value y) -> Value {
    return arith::MaxNumFOp::create(e.b, e.loc, x, y);
  };
  Registers max(state.max);
  size_t keys = scores.size() / max.size();
  for (auto [i, score] : llvm::enumerate(scores))
    max[i / keys] = greater(max[i / keys], score);
  return thread.combineRows(max, greater);
}

/// m', l and acc by the factor of the change of reference.
LogicalResult LaneSoftmax::correct(SoftmaxState &state, const Registers &max) {
  FailureOr<Registers> correction = layout.rows(form.correction->getResult(0));
  if (failed(correction))
    return failure();
  state.max = max;
  auto scale = [&](Registers &values) {
    size_t columns = values.size() / max.size();
    for (auto [i, x] : llvm::enumerate(values))
      x = arith::MulFOp::create(e.b, e.loc, x, (*correction)[i / columns]);
  };
  scale(state.sum);
  if (!state.acc.empty())
    scale(state.acc);
  return success();
}

/// Whether any row of the thread asks for a new reference.
FailureOr<Value> LaneSoftmax::vote() {
  FailureOr<Registers> votes = layout.rows(form.vote.getSource());
  if (failed(votes))
    return failure();
  Value any;
  for (Value vote : *votes)
    any = any ? e.bitOr(any, vote) : vote;
  return any;
}

FailureOr<Registers> LaneSoftmax::update(const Registers &scores, Registers max,
                                         SoftmaxState &state) {
  layout.bindRows(form.sweep.getRegionIterArg(0), state.max);
  layout.bindRows(form.sweep.getRegionIterArg(1), state.sum);
  layout.bindTile(form.rowMax->getOperand(0), scores);
  layout.bindRows(form.rowMax->getResult(0), max);
  if (!form.rescale) {
    if (failed(correct(state, max)))
      return failure();
  } else {
    FailureOr<Value> grew = vote();
    if (failed(grew))
      return failure();
    bool valid = true;
    Registers values = e.branch(*grew, state.values(), [&]() {
      SoftmaxState corrected = state;
      valid = succeeded(correct(corrected, max));
      return corrected.values();
    });
    if (!valid)
      return failure();
    state = state.with(values);
    layout.bindRows(form.rescale.getResult(0), state.max);
  }
  // The result is rounded to 16 bits: the device's own function will do.
  if (form.elementType.getWidth() == 16 &&
      StringRef(form.target.arch).starts_with("vulkan"))
    form.probabilities.setFastmath(arith::FastMathFlags::afn);
  FailureOr<Registers> tile = layout.scores(form.probabilities->getResult(0));
  if (failed(tile))
    return failure();
  size_t keys = tile->size() / max.size();
  for (auto [i, p] : llvm::enumerate(*tile)) {
    Value &sum = state.sum[i / keys];
    sum = arith::AddFOp::create(e.b, e.loc, sum, p);
  }
  return tile;
}

void LaneSoftmax::finish(SoftmaxState state) {
  // Without values nobody has waited since the last maximum was read.
  if (!form.value)
    thread.barrier();
  layout.bindRows(form.sweep.getResult(0), state.max);
  layout.bindRows(form.sweep.getResult(1),
                  thread.combineRows(state.sum, [&](Value x, Value y) -> Value {
                    return arith::AddFOp::create(e.b, e.loc, x, y);
                  }));
  if (form.sweep.getNumResults() > 2)
    layout.bindTile(form.sweep.getResult(2), state.acc);
}
