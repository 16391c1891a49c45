//===- TileScore.cpp - From a product to scores ---------------------------===//

#include "TileScore.h"
#include "VectorizeRegion.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

/// With no head dimension there is no 1/sqrt(D), and every score is 0.
static double scaleOf(AttentionOpInterface op) {
  return op.getScaleValue().value_or(1);
}

/// Nothing follows the multiplication by scale and softcap.
static bool endsInScale(AttentionOpInterface op) {
  return !op.hasScoreMod() && !op.getBias();
}

/// Factors that the exponent can take: positive, so that the greatest product
/// is the greatest score, and far from where f32 would flush or overflow.
static bool fitsExponent(double factor) {
  return factor > 1e-15 && factor < 1e15;
}

static double softcapOf(AttentionOpInterface op) {
  return op.getSoftcap()->convertToDouble();
}

/// The last multiplication, when it can be left to the exponent, or 1.
static double exponentShare(AttentionOpInterface op) {
  double last = op.getSoftcap() ? softcapOf(op) : scaleOf(op);
  return endsInScale(op) && fitsExponent(last) ? last : 1;
}

Exponent TileScore::exponent(AttentionOpInterface op) {
  return {exponentShare(op), !endsInScale(op)};
}

TileScore::TileScore(TileBuilder &b, const Task &task)
    : b(b), task(task), op(task.op) {
  if (op.getBias())
    bias.emplace(b, task, op.getBias());
}

/// b, h, i and j, as the regions take them.
SmallVector<TileValue> TileScore::positions(Value firstKey) {
  return {{task.batch, Extent::Uniform},
          {task.head, Extent::Uniform},
          queryPositions(b, task),
          keyPositions(b, task, firstKey,
                       readsByPosition(op.getScoreMod(), op.getCaptures()))};
}

Value TileScore::apply(Value score, Value firstKey) {
  Type type = score.getType();
  product = score;
  auto multiply = [&](double factor) {
    if (factor != 1)
      score = arith::MulFOp::create(b, score, b.constant(type, factor),
                                    arith::FastMathFlags::contract);
  };
  if (op.getSoftcap()) {
    multiply(scaleOf(op) / softcapOf(op));
    auto capped = math::TanhOp::create(b, score);
    // bf16 probabilities round by more than a chip's tanh errs; an lse is f32.
    if (op.getElementType().isBF16() && !op.getLseType())
      capped.setFastmath(arith::FastMathFlags::afn);
    score = tanh = capped;
    multiply(softcapOf(op) / exponentShare(op));
  } else {
    multiply(scaleOf(op) / exponentShare(op));
  }
  if (op.hasScoreMod()) {
    unmodified = score;
    SmallVector<TileValue> arguments = {{score, Extent::Tile}};
    llvm::append_range(arguments, positions(firstKey));
    score = b.toTile(vectorizeRegion(b, op.getScoreMod(), arguments,
                                     task.counts(), op.getCaptures())
                         .front());
  }
  if (bias) {
    TileValue term = bias->read(b, task, firstKey);
    term.value = b.castFloat(term.value, op.getAccumulatorType());
    score = arith::AddFOp::create(b, score, b.toTile(term),
                                  arith::FastMathFlags::contract);
  }
  return score;
}

/// The number that a tile holds everywhere.
static std::optional<double> splatOf(Value tile) {
  while (auto broadcast = tile.getDefiningOp<vector::BroadcastOp>())
    tile = broadcast.getSource();
  auto constant = tile.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return std::nullopt;
  if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
    return number.getValueAsDouble();
  if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
    return splat.getSplatValue<APFloat>().convertToDouble();
  return std::nullopt;
}

AffineScores TileScore::separate(Value scores) {
  // Which operand of a sum goes back to the product.
  llvm::SetVector<Operation *> users;
  getForwardSlice(product, &users);
  auto isTerm = [&](Value value) {
    return value != product && !users.contains(value.getDefiningOp());
  };
  auto mayFuse = [](Operation *step) {
    auto arithmetic = dyn_cast_or_null<arith::ArithFastMathInterface>(step);
    arith::FastMathFlagsAttr flags =
        arithmetic ? arithmetic.getFastMathFlagsAttr() : nullptr;
    return flags &&
           bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::contract);
  };
  auto times = [&](Value value, double factor) -> Value {
    if (factor == 1)
      return value;
    return arith::MulFOp::create(b, value, b.constant(value.getType(), factor),
                                 arith::FastMathFlags::contract);
  };
  AffineScores affine = {scores};
  auto addTerm = [&](Value term) {
    term = times(term, affine.factor);
    affine.term = affine.term
                      ? arith::AddFOp::create(b, affine.term, term,
                                              arith::FastMathFlags::contract)
                      : term;
  };
  SmallVector<Operation *> steps;
  for (Operation *step = scores.getDefiningOp(); mayFuse(step);
       step = affine.base.getDefiningOp()) {
    Value x = step->getOperand(0);
    Value y = step->getNumOperands() == 2 ? step->getOperand(1) : Value();
    if (isa<arith::AddFOp, arith::MulFOp>(step) && isTerm(x))
      std::swap(x, y);
    if (!y || isTerm(x) || !isTerm(y))
      break;
    if (isa<arith::AddFOp>(step)) {
      addTerm(y);
    } else if (isa<arith::SubFOp>(step)) {
      addTerm(arith::NegFOp::create(b, y, arith::FastMathFlags::contract));
    } else if (isa<arith::MulFOp>(step)) {
      std::optional<double> factor = splatOf(y);
      if (!factor || !fitsExponent(affine.factor * *factor))
        break;
      affine.factor *= *factor;
    } else {
      break;
    }
    affine.base = x;
    steps.push_back(step);
  }
  for (Operation *step : steps)
    if (step->use_empty())
      step->erase();
  return affine;
}

Value TileScore::differentiate(Value gradient, Value firstKey,
                               const ScoreDerivative &derivative,
                               SmallVectorImpl<CaptureGradient> &captures) {
  if (op.hasScoreMod()) {
    SmallVector<TileValue> arguments = {{gradient, Extent::Tile},
                                        {unmodified, Extent::Tile}};
    llvm::append_range(arguments, positions(firstKey));
    SmallVector<TileValue> results = vectorizeRegion(
        b, *derivative.region, arguments, task.counts(), op.getCaptures());
    gradient = b.toTile(results.front());
    ArrayRef<TileValue> rest = ArrayRef(results).drop_front();
    for (ScoreDerivative::Read read : derivative.reads) {
      captures.push_back(
          {read.capture, rest.front(),
           SmallVector<TileValue>(rest.slice(1, read.numIndices))});
      rest = rest.drop_front(1 + read.numIndices);
    }
  }
  if (op.getSoftcap()) {
    // 1 - tanh^2, the derivative of softcap * tanh(x / softcap).
    Value slope = math::FmaOp::create(b, arith::NegFOp::create(b, tanh), tanh,
                                      b.constant(tanh.getType(), 1));
    gradient = arith::MulFOp::create(b, gradient, slope);
  }
  return gradient;
}
