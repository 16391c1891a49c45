//===- FragmentSoftmax.cpp - The online softmax over fragments ------------===//

#include "FragmentSoftmax.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace attn;

void attn::cloneScalars(GpuEmitter &e, Block &block, IRMapping &scalars) {
  auto isScalar = [](Type type) { return !isa<VectorType>(type); };
  auto isThere = [&](Value operand) { return scalars.contains(operand); };
  for (Operation &op : block)
    if (op.getNumRegions() == 0 && !op.hasTrait<OpTrait::IsTerminator>() &&
        op.getNumResults() > 0 && llvm::all_of(op.getResultTypes(), isScalar) &&
        llvm::all_of(op.getOperands(), isThere))
      e.b.clone(op, scalars)->removeAttr(kRoleAttrName);
}

FailureOr<SoftmaxRows> FragmentSoftmax::initial(Value isFirst) {
  FailureOr<RowPair> max = layout.rows(form.sweep.getInitArgs()[0]);
  FailureOr<RowPair> sum = layout.rows(form.sweep.getInitArgs()[1]);
  if (failed(max) || failed(sum))
    return failure();
  for (Value &part : *sum)
    part = sumsInProduct ? e.zero(part.getType())
                         : e.select(isFirst, part, e.zero(part.getType()));
  return SoftmaxRows{*max, *sum};
}

FailureOr<Fragment>
FragmentSoftmax::finishScores(Fragment raw,
                              function_ref<LogicalResult()> whenTested) {
  if (form.scores)
    layout.bind(form.scores->getResult(0), raw);
  FailureOr<Fragment> result = failure();
  auto make = [&](Value tile) {
    layout.withOwnPositions(
        [&]() { result = layout.tile(tile, form.blockKey); });
    return succeeded(result);
  };
  Value score = form.finished;
  scf::IfOp masked = form.masked;
  if (!masked || score != masked->getResult(0)) {
    if (whenTested && failed(whenTested()))
      return failure();
    make(score);
    return result;
  }
  Value plain = masked.elseYield().getOperand(0);
  if (!make(plain))
    return failure();
  layout.bind(plain, *result);
  llvm::scope_exit unbind([&]() { layout.unbind(plain); });
  SmallVector<Value> unmasked = result->elements;
  bool valid = true;
  SmallVector<Value> elements =
      e.branch(scalars.lookup(masked.getCondition()), unmasked, [&]() {
        cloneScalars(e, *masked.thenBlock(), scalars);
        valid = make(masked.thenYield().getOperand(0)) &&
                (!whenTested || succeeded(whenTested()));
        return valid ? result->elements : unmasked;
      });
  if (!valid)
    return failure();
  return Fragment{elements};
}

FailureOr<RowPair> FragmentSoftmax::newMaximum(Fragment finished) {
  FailureOr<Fragment> scores = finished;
  if (Value tile = form.rowMax->getOperand(0); tile != form.finished)
    scores = layout.tile(tile, form.blockKey);
  FailureOr<RowPair> start = layout.rows(form.rowMax.getAcc());
  if (failed(scores) || failed(start))
    return failure();
  RowPair max = layout.maximumOverLanes(layout.maximum(*scores, *start));
  layout.bind(form.rowMax->getResult(0), max);
  return max;
}

/// m, l and acc in one list, and back; what follows them is returned.
static SmallVector<Value> pack(const SoftmaxRows &rows, const Fragment &acc) {
  SmallVector<Value> values(rows.max.begin(), rows.max.end());
  llvm::append_range(values, rows.sum);
  llvm::append_range(values, acc.elements);
  return values;
}
static ArrayRef<Value> unpack(ArrayRef<Value> values, SoftmaxRows &rows,
                              Fragment &acc) {
  rows.max = {values[0], values[1]};
  rows.sum = {values[2], values[3]};
  values = values.drop_front(4);
  llvm::copy(values.take_front(acc.elements.size()), acc.elements.begin());
  return values.drop_front(acc.elements.size());
}

LogicalResult FragmentSoftmax::correct(SoftmaxRows &rows, Fragment &acc,
                                       RowPair max, bool isFirst) {
  FailureOr<RowPair> correction = layout.rows(form.correction->getResult(0));
  if (failed(correction))
    return failure();
  auto scale = [&](Value &x, int64_t half) {
    x = arith::MulFOp::create(e.b, e.loc, x, (*correction)[half]);
  };
  rows.max = max;
  if (!sumsInProduct)
    for (int64_t half : {0, 1})
      scale(rows.sum[half], half);
  if (!isFirst)
    for (int64_t group = 0; group < acc.groups(); ++group)
      for (int64_t half : {0, 1})
        for (int64_t i : {0, 1})
          scale(acc.at(group, half, i), half);
  return success();
}

/// Whether any row of the warp votes for a new reference.
FailureOr<Value> FragmentSoftmax::vote() {
  FailureOr<RowPair> votes = layout.rows(form.vote.getSource());
  if (failed(votes))
    return failure();
  Value either = arith::OrIOp::create(e.b, e.loc, (*votes)[0], (*votes)[1]);
  return Value(NVVM::VoteSyncOp::create(e.b, e.loc, e.b.getI1Type(), e.i32(-1),
                                        either, NVVM::VoteSyncKind::any));
}

/// Where values are wide, the tensor cores leave time to sum the rounded
/// probabilities: what a great one lost, the sum lost with it. Measured on an
/// H200, it costs 9 to 15 % at narrower ones. An lse wants the sum itself.
static bool sumsRounded(TiledForm &form) {
  return form.isRaised() || (form.elementType.getWidth() <= 16 &&
                             form.valueDim > 128 && !form.lse);
}

Registers FragmentSoftmax::finishProbabilities(Fragment &tile, RowPair &sum) {
  Registers packed = packLeftSide(e, tile, form.elementType);
  if (sumsInProduct)
    return packed;
  Fragment summed =
      sumsRounded(form) ? unpackLeftSide(e, packed, form.elementType) : tile;
  sum = layout.sum(summed, sum);
  return packed;
}

/// exact and conditional. The exponentials run beside the product that the
/// accumulator waits for.
FailureOr<Registers>
FragmentSoftmax::followMaximum(Fragment &scores, SoftmaxRows &rows,
                               Fragment &acc, bool isFirst,
                               function_ref<void()> waitForAccumulator) {
  FailureOr<RowPair> newMax = newMaximum(scores);
  if (failed(newMax))
    return failure();
  RowPair max = *newMax, next = max;
  Value grew;
  if (form.rescale && !isFirst) {
    FailureOr<Value> any = vote();
    if (failed(any))
      return failure();
    grew = *any;
    for (int64_t half : {0, 1})
      next[half] = e.select(grew, max[half], rows.max[half]);
  }
  if (form.rescale)
    layout.bind(form.rescale.getResult(0), next);
  FailureOr<Fragment> tile =
      layout.tile(form.probabilities->getResult(0), form.blockKey);
  if (failed(tile))
    return failure();
  waitForAccumulator();
  if (!grew) {
    if (failed(correct(rows, acc, max, isFirst)))
      return failure();
    return finishProbabilities(*tile, rows.sum);
  }
  bool valid = true;
  SmallVector<Value> values = e.branch(grew, pack(rows, acc), [&]() {
    SoftmaxRows newRows = rows;
    Fragment newAcc = acc;
    valid = succeeded(correct(newRows, newAcc, max, isFirst));
    return pack(newRows, newAcc);
  });
  if (!valid)
    return failure();
  (void)unpack(values, rows, acc);
  return finishProbabilities(*tile, rows.sum);
}

/// Those of the branch that changes the reference, with rows and `acc`
/// corrected to it.
FailureOr<Fragment> FragmentSoftmax::exactProbabilities(Fragment &scores,
                                                        SoftmaxRows &rows,
                                                        Fragment &acc,
                                                        bool isFirst) {
  if (failed(newMaximum(scores)))
    return failure();
  scf::YieldOp results = form.rescale.thenYield();
  FailureOr<RowPair> reference = layout.rows(results.getOperand(0));
  if (failed(reference) || failed(correct(rows, acc, *reference, isFirst)))
    return failure();
  return layout.tile(results.getOperand(1), form.blockKey);
}

/// stale. The scores stay where they are until the vote is counted; that
/// leaves no registers for exponentials beside a running product.
FailureOr<Registers>
FragmentSoftmax::keepReference(Fragment &scores, SoftmaxRows &rows,
                               Fragment &acc, bool isFirst,
                               function_ref<void()> waitForAccumulator) {
  if (isFirst) {
    FailureOr<Fragment> tile = exactProbabilities(scores, rows, acc, isFirst);
    if (failed(tile))
      return failure();
    waitForAccumulator();
    return finishProbabilities(*tile, rows.sum);
  }
  waitForAccumulator();
  FailureOr<Fragment> tile = failure();
  layout.withOwnPositions([&]() {
    tile = layout.tile(form.probabilities->getResult(0), form.blockKey);
  });
  if (failed(tile))
    return failure();
  SoftmaxRows kept = rows;
  Registers p = finishProbabilities(*tile, kept.sum);
  if (form.peak)
    layout.bind(form.peak->getResult(0), joinExponents(e, p));
  else
    layout.bind(form.rowSum->getResult(0), kept.sum);
  FailureOr<Value> isBad = vote();
  if (failed(isBad))
    return failure();
  SmallVector<Value> values = pack(kept, acc);
  llvm::append_range(values, p);
  bool valid = true;
  values = e.branch(*isBad, values, [&]() {
    SoftmaxRows exactRows = rows;
    Fragment exactAcc = acc;
    FailureOr<Fragment> exact =
        exactProbabilities(scores, exactRows, exactAcc, /*isFirst=*/false);
    valid &= succeeded(exact);
    Registers exactP = valid ? finishProbabilities(*exact, exactRows.sum) : p;
    SmallVector<Value> results = pack(exactRows, exactAcc);
    llvm::append_range(results, exactP);
    return results;
  });
  if (!valid)
    return failure();
  return llvm::to_vector(unpack(values, rows, acc));
}

FailureOr<Registers>
FragmentSoftmax::update(Fragment scores, SoftmaxRows &rows, Fragment &acc,
                        bool isFirst, function_ref<void()> waitForAccumulator) {
  scf::ForOp sweep = form.sweep;
  layout.bind(sweep.getRegionIterArg(0), rows.max);
  layout.bind(sweep.getRegionIterArg(1), rows.sum);
  layout.bind(form.finished, scores);
  return form.isStale()
             ? keepReference(scores, rows, acc, isFirst, waitForAccumulator)
             : followMaximum(scores, rows, acc, isFirst, waitForAccumulator);
}

void FragmentSoftmax::finish(SoftmaxRows rows, Fragment acc) {
  layout.bind(form.sweep.getResult(0), rows.max);
  RowPair sum;
  if (sumsInProduct) {
    int64_t last = acc.groups() - 1;
    sum = {acc.at(last, 0, 0), acc.at(last, 1, 0)};
    acc.elements.truncate(4 * last);
  } else {
    sum = layout.sumOverLanes(rows.sum);
  }
  layout.bind(form.sweep.getResult(1), sum);
  if (form.sweep.getNumResults() > 2)
    layout.bind(form.sweep.getResult(2), acc);
}
