//===- SoftmaxUpdate.cpp - Online softmax ---------------------------------===//

#include "SoftmaxUpdate.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

SmallVector<Value> SoftmaxState::values() const {
  SmallVector<Value> values = {rowMax, rowSum};
  if (acc)
    values.push_back(acc);
  return values;
}

SoftmaxState SoftmaxState::from(ValueRange values) {
  return {values[0], values[1], values.size() > 2 ? values[2] : Value()};
}

ReferenceRange ReferenceRange::of(FloatType type) {
  constexpr double kGrowth = 8;
  if (type.isF16())
    return {kGrowth, 0x1p15};
  if (type.isBF16())
    return {kGrowth, 0x1p30};
  return {kGrowth, 0x1p4};
}

/// Units whose results stay in the registers of those who ask for them. Others
/// write scores to memory, finished.
static bool leavesScores(llvm::StringRef product) {
  return product == "wgmma" || product == "mma";
}

SoftmaxUpdate::SoftmaxUpdate(TileBuilder &b, AttentionOp op)
    : b(b), type(op.getAccumulatorType()), elementType(op.getElementType()),
      rowType(b.typeOf(Extent::PerRow, type)),
      exponent(TileScore::exponent(op)),
      c(exponent.factor * llvm::numbers::log2e),
      isConditional(op.getTilingAttr().getValue().softmax == "conditional"),
      isRaised(op.getTilingAttr().getValue().softmax == "raised"),
      isStale(op.getTilingAttr().getValue().softmax == "stale" || isRaised),
      keepsScores(leavesScores(op.getTilingAttr().getValue().product)),
      isRounded(op.getElementType().getWidth() <= 16),
      range(ReferenceRange::of(op.getElementType())),
      zeroRow(b.constant(rowType, 0)) {}

Value SoftmaxUpdate::equals(Value value, Value constant) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, constant);
}

Value SoftmaxUpdate::multiply(Value value, double factor) {
  if (factor == 1)
    return value;
  return arith::MulFOp::create(b, value, b.constant(value.getType(), factor));
}

Value SoftmaxUpdate::exponents(Value scores, const Reference &reference) {
  bool isTile = cast<VectorType>(scores.getType()).getRank() == 2;
  auto spread = [&](Value row) {
    return isTile ? b.toTile({row, Extent::PerRow}) : row;
  };
  if (!reference.scaled)
    return multiply(arith::SubFOp::create(b, scores, spread(reference.value)),
                    c);
  if (isTile)
    return math::FmaOp::create(
        b, scores, b.constant(scores.getType(), c),
        spread(arith::NegFOp::create(b, reference.scaled)));
  // Rounded as the tiles of either block saw the references, so that the
  // corrections of a row multiply to exactly its change of reference.
  return arith::SubFOp::create(b, multiply(scores, c), reference.scaled);
}

Value SoftmaxUpdate::exponents(const AffineScores &scores,
                               const Reference &reference) {
  if (scores.isBase())
    return exponents(scores.base, reference);
  Type type = scores.base.getType();
  Value term =
      b.toTile({arith::NegFOp::create(b, reference.scaled), Extent::PerRow});
  if (scores.term)
    term = math::FmaOp::create(b, scores.term, b.constant(type, c), term);
  return math::FmaOp::create(b, scores.base,
                             b.constant(type, c * scores.factor), term);
}

/// What a stale reference is before any key. So low that c times its distance
/// to the first score is beyond exp2: the vote finds a row's first key without
/// a test of its own. Finite, so that hidden scores are still -inf after the
/// subtraction, and with a finite product with c.
double SoftmaxUpdate::scoreOfNoKey() const {
  APFloat lowest = APFloat::getLargest(type.getFloatSemantics(), true);
  if (exponent.mayOverflow)
    return lowest.convertToDouble();
  return lowest.convertToDouble() / (2 * std::max(1.0, c));
}

SoftmaxState SoftmaxUpdate::initial(int64_t valueDim) {
  Value none =
      isStale ? b.constant(type, scoreOfNoKey()) : b.negativeInfinity(type);
  SoftmaxState state = {
      b.broadcast({none, Extent::Uniform}, Extent::PerRow), zeroRow, {}};
  if (valueDim != 0)
    state.acc = b.constant(VectorType::get({b.rows, valueDim}, type), 0);
  return state;
}

//===----------------------------------------------------------------------===//
// Parts of an update
//===----------------------------------------------------------------------===//

Value SoftmaxUpdate::greatest(Value rowMax, Value scores) {
  // maxnumf passes over a NaN score; it reaches the row through the sum.
  auto greatest = vector::MultiDimReductionOp::create(
      b, scores, rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  setRole(greatest, role::kRowMax);
  return greatest;
}

Value SoftmaxUpdate::newReference(Value old, Value scores) {
  if (!isRaised)
    return greatest(old, scores);
  Value none =
      b.broadcast({b.negativeInfinity(type), Extent::Uniform}, Extent::PerRow);
  Value raised =
      arith::AddFOp::create(b, greatest(none, scores),
                            b.constant(rowType, ReferenceRange::headroom / c));
  return arith::MaxNumFOp::create(b, old, raised);
}

SoftmaxUpdate::Reference SoftmaxUpdate::referenceOf(Value rowMax) {
  Reference reference = {rowMax, {}};
  // A row that has seen no key has no reference to subtract: with 0 its
  // exponents are -inf, with -inf they would be NaN.
  if (!isStale)
    reference.value = arith::SelectOp::create(
        b, equals(rowMax, b.negativeInfinity(rowType)), zeroRow, rowMax);
  if (!exponent.mayOverflow)
    reference.scaled = multiply(reference.value, c);
  return reference;
}

Value SoftmaxUpdate::sum(Value probabilities, Value rowSum) {
  return vector::MultiDimReductionOp::create(b, probabilities, rowSum,
                                             ArrayRef<bool>{false, true},
                                             vector::CombiningKind::ADD);
}

Value SoftmaxUpdate::scaleRows(Value acc, Value factors) {
  int64_t width = cast<VectorType>(acc.getType()).getDimSize(1);
  return arith::MulFOp::create(b, acc, b.broadcastRows(factors, width));
}

SoftmaxState SoftmaxUpdate::correct(const SoftmaxState &state, Value rowMax,
                                    const Reference &reference) {
  Value correction =
      math::Exp2Op::create(b, exponents(state.rowMax, reference));
  setRole(correction.getDefiningOp(), role::kCorrection);
  SoftmaxState next = {rowMax, {}, {}};
  next.rowSum = arith::MulFOp::create(b, state.rowSum, correction);
  if (state.acc)
    next.acc = scaleRows(state.acc, correction);
  return next;
}

Value SoftmaxUpdate::vote(Value rows) {
  auto vote = vector::MultiDimReductionOp::create(
      b, rows, b.constantInt(b.getI1Type(), 0), ArrayRef<bool>{true},
      vector::CombiningKind::OR);
  setRole(vote, role::kVote);
  return vote;
}

SmallVector<Value>
SoftmaxUpdate::rescaleIf(Value condition,
                         function_ref<SmallVector<Value>()> rescaled,
                         function_ref<SmallVector<Value>()> kept) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> values = kept();
  auto branch = scf::IfOp::create(b, TypeRange(ValueRange(values)), condition,
                                  /*withElseRegion=*/true);
  setRole(branch, role::kRescale);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, values);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, rescaled());
  return SmallVector<Value>(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// exact and conditional: the greatest score first, then the probabilities.
SoftmaxUpdate::Block SoftmaxUpdate::followMaximum(const SoftmaxState &state,
                                                  Value scores) {
  Value rowMax = greatest(state.rowMax, scores);
  SoftmaxState followed;
  Reference reference;
  if (isConditional) {
    // The difference and not m + growth, which could round to m. -inf - -inf
    // is NaN and no growth; a first key grows by inf.
    Value growth = arith::SubFOp::create(b, rowMax, state.rowMax);
    Value grew =
        vote(arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, growth,
                                   b.constant(rowType, range.growth / c)));
    followed = SoftmaxState::from(rescaleIf(
        grew,
        [&] { return correct(state, rowMax, referenceOf(rowMax)).values(); },
        [&] { return state.values(); }));
    reference = referenceOf(followed.rowMax);
  } else {
    reference = referenceOf(rowMax);
    followed = correct(state, rowMax, reference);
  }
  Value probabilities = math::Exp2Op::create(b, exponents(scores, reference));
  setRole(probabilities.getDefiningOp(), role::kProbabilities);
  followed.rowSum = sum(probabilities, followed.rowSum);
  setRole(followed.rowSum.getDefiningOp(), role::kRowSum);
  return {followed, probabilities};
}

/// What the block may add, and not what the row may hold: a long row is no
/// reason to look for a reference. A NaN is out of range: it may come from an
/// infinite score.
Value SoftmaxUpdate::addedMuch(Value before, Value after) {
  Value most = arith::AddFOp::create(b, before, b.constant(rowType, range.sum));
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, after, most);
}

/// From 2 on, which is a matter of the exponent alone; a NaN too.
Value SoftmaxUpdate::exceedsOne(Value probabilities) {
  auto peak = vector::MultiDimReductionOp::create(
      b, probabilities, zeroRow, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXIMUMF);
  setRole(peak, role::kPeak);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, peak,
                               b.constant(rowType, 2));
}

/// Rows whose reference is too far from 0 to be multiplied by c.
Value SoftmaxUpdate::isFar(Value reference) {
  APFloat largest = APFloat::getLargest(type.getFloatSemantics());
  double most = largest.convertToDouble() / (2 * std::max(1.0, c));
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                               math::AbsFOp::create(b, reference),
                               b.constant(rowType, most));
}

bool SoftmaxUpdate::takesApart() const {
  return isStale && isRounded && exponent.mayOverflow && keepsScores;
}

Value SoftmaxUpdate::rebuild(const AffineScores &scores) {
  if (scores.isBase())
    return scores.base;
  Type type = scores.base.getType();
  Value factor = b.constant(type, scores.factor);
  Value whole =
      scores.term
          ? math::FmaOp::create(b, scores.base, factor, scores.term).getResult()
          : arith::MulFOp::create(b, scores.base, factor);
  Value hidden = b.negativeInfinity(type);
  whole =
      arith::SelectOp::create(b, equals(scores.base, hidden), hidden, whole);
  setRole(whole.getDefiningOp(), role::kRebuilt);
  return whole;
}

/// stale: the probabilities first; the greatest score only when they are out
/// of range. Where probabilities are rounded, scores that may overflow are
/// trusted not to, which saves an operation each, in rows whose reference did
/// not. An unrounded one would show the rounding of c * reference. So are terms
/// trusted to be finite: a hidden pair with another one has a NaN as its
/// probability, and votes.
SoftmaxUpdate::Block SoftmaxUpdate::keepReference(const SoftmaxState &state,
                                                  const AffineScores &affine) {
  Reference kept = referenceOf(state.rowMax);
  bool trustsRange = exponent.mayOverflow && isRounded;
  if (trustsRange)
    kept.scaled = multiply(kept.value, c);
  Value probabilities = math::Exp2Op::create(b, exponents(affine, kept));
  setRole(probabilities.getDefiningOp(), role::kProbabilities);
  Value scores = rebuild(affine);
  SoftmaxState same = state;
  Value isBad;
  if (isRaised) {
    isBad = exceedsOne(probabilities);
  } else {
    same.rowSum = sum(probabilities, state.rowSum);
    setRole(same.rowSum.getDefiningOp(), role::kRowSum);
    isBad = addedMuch(state.rowSum, same.rowSum);
  }
  if (trustsRange)
    isBad = arith::OrIOp::create(b, isBad, isFar(state.rowMax));
  isBad = vote(isBad);
  auto values = [](const SoftmaxState &state, Value probabilities) {
    SmallVector<Value> values = state.values();
    values.insert(values.begin() + 1, probabilities);
    return values;
  };
  SmallVector<Value> results = rescaleIf(
      isBad,
      [&] {
        Value rowMax = newReference(state.rowMax, scores);
        Reference reference = referenceOf(rowMax);
        Value exact = math::Exp2Op::create(b, exponents(scores, reference));
        SoftmaxState next = correct(state, rowMax, reference);
        if (!isRaised)
          next.rowSum = sum(exact, next.rowSum);
        return values(next, exact);
      },
      [&] { return values(same, probabilities); });
  Block block;
  block.probabilities = results[1];
  results.erase(results.begin() + 1);
  block.state = SoftmaxState::from(results);
  if (isRaised) {
    Value rounded =
        b.castFloat(b.castFloat(block.probabilities, elementType), type);
    block.state.rowSum = sum(rounded, block.state.rowSum);
    setRole(block.state.rowSum.getDefiningOp(), role::kRowSum);
  }
  return block;
}

SoftmaxState SoftmaxUpdate::update(
    const SoftmaxState &state, const AffineScores &scores,
    function_ref<Value(Value probabilities, Value acc)> accumulate) {
  auto [next, probabilities] = isStale ? keepReference(state, scores)
                                       : followMaximum(state, rebuild(scores));
  if (next.acc)
    next.acc = accumulate(probabilities, next.acc);
  return next;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// log2 of how far the keys' reference, as the probabilities saw it, is above
/// the sink.
Value SoftmaxUpdate::aboveSink(Value rowMax, Value sinks) {
  Value infinity = arith::NegFOp::create(b, b.negativeInfinity(rowType));
  Value above;
  if (exponent.mayOverflow) {
    above = multiply(arith::SubFOp::create(b, rowMax, sinks), c);
  } else {
    // log2 e as the sum of two numbers of the type, the second as a double has
    // it.
    double high = llvm::numbers::log2e, low = 2.0355273740931033e-17;
    if (type.isF32()) {
      high = llvm::numbers::log2ef;
      low = llvm::numbers::log2e - high;
    }
    auto constant = [&](double number) { return b.constant(rowType, number); };
    Value scaled = multiply(sinks, high);
    Value rest = math::FmaOp::create(b, sinks, constant(high),
                                     arith::NegFOp::create(b, scaled));
    rest = math::FmaOp::create(b, sinks, constant(low), rest);
    Value isInfinite = equals(math::AbsFOp::create(b, sinks), infinity);
    rest = arith::SelectOp::create(b, isInfinite, zeroRow, rest);
    above = arith::SubFOp::create(
        b, arith::SubFOp::create(b, multiply(rowMax, c), scaled), rest);
  }
  // A sink of -inf is infinitely far below, also below a row without keys.
  Value isNone = equals(sinks, b.negativeInfinity(rowType));
  return arith::SelectOp::create(b, isNone, infinity, above);
}

SoftmaxState SoftmaxUpdate::addSink(const SoftmaxState &state, Value sink) {
  Value above = aboveSink(state.rowMax,
                          b.broadcast({sink, Extent::Uniform}, Extent::PerRow));
  // Of what is the less of the two, 0 when it is that much less.
  auto share = [&](Value distance) -> Value {
    distance =
        arith::MaximumFOp::create(b, distance, b.constant(rowType, -2e3));
    return math::Exp2Op::create(
        b, arith::MinimumFOp::create(b, distance, zeroRow));
  };
  Value ofKeys = share(above), ofSink = share(arith::NegFOp::create(b, above));
  SoftmaxState next = {state.rowMax, {}, {}};
  next.rowSum = math::FmaOp::create(b, state.rowSum, ofKeys, ofSink);
  if (state.acc)
    next.acc = scaleRows(state.acc, ofKeys);
  return next;
}

Value SoftmaxUpdate::output(const SoftmaxState &state) {
  Value inverse =
      arith::DivFOp::create(b, b.constant(rowType, 1), state.rowSum);
  Value factor = arith::SelectOp::create(b, equals(state.rowSum, zeroRow),
                                         zeroRow, inverse);
  return scaleRows(state.acc, factor);
}

Value SoftmaxUpdate::logSumExp(const SoftmaxState &state, Value sink) {
  Value log2 = math::Log2Op::create(b, state.rowSum);
  Value reference = multiply(state.rowMax, exponent.factor);
  if (sink)
    reference = arith::MaximumFOp::create(
        b, reference, b.broadcast({sink, Extent::Uniform}, Extent::PerRow));
  Value natural =
      arith::AddFOp::create(b, reference, multiply(log2, llvm::numbers::ln2));
  return arith::SelectOp::create(b, equals(state.rowSum, zeroRow),
                                 b.negativeInfinity(rowType), natural);
}
