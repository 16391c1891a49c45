//===- TileScore.cpp - From a product to scores ---------------------------===//

#include "TileScore.h"
#include "VectorizeRegion.h"
#include "mlir/Dialect/Math/IR/Math.h"
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
