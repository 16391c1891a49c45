//===- Exp2Approximation.cpp - exp2 by a polynomial -----------------------===//
//
//   x = n + f, n = round(x), |f| <= 1/2;  exp2(x) = 2^n * P(f)
//
// n is found by adding 1.5 * 2^(mantissa bits): the sum's low bits are n, so
// the power of two is an integer addition to the exponent of P(f). P is the
// minimax polynomial of the relative error on [-1/2, 1/2], found by a Remez
// iteration in extended precision; its error is below the rounding of the type.
//
// Results below the smallest normal number are zero. -inf gives 0, NaN gives
// NaN, and arguments above the range give +inf.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

namespace {

/// The format-dependent constants of the approximation.
struct Exp2Format {
  ArrayRef<double> coefficients; // of f^0, f^1, ...
  double smallest;               // exponents below are flushed to zero
  double largest;                // from here on the result is +inf
  double roundingShift;          // 1.5 * 2^mantissaBits
  unsigned mantissaBits;
};

// Degree 5, relative error 7.5e-8.
const double kCoefficients32[] = {
    1.0000000716546416382,
    0.69314696706526492761,
    0.24022119723969178047,
    0.05550713272875391178,
    0.0096755413310213911451,
    0.0013276472167819943329,
};
// Degree 11, relative error 3.1e-18.
const double kCoefficients64[] = {
    0.9999999999999999971,
    0.69314718055994533046,
    0.24022650695910156205,
    0.055504108664819921483,
    0.0096181291075883350833,
    0.0013333558146789950323,
    0.00015403530462514613026,
    0.0000152527334899608046,
    1.3215433089594629037e-6,
    1.0178198033328527662e-7,
    7.0741056262456593708e-9,
    4.4352809446103361611e-10,
};

struct Exp2Pattern : OpRewritePattern<math::Exp2Op> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::Exp2Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    Type element = getElementTypeOrSelf(type);
    if (!element.isF32() && !element.isF64())
      return rewriter.notifyMatchFailure(op, "only f32 and f64 have a "
                                             "polynomial here");
    Exp2Format format =
        element.isF32()
            ? Exp2Format{kCoefficients32, -126.0, 128.0, 12582912.0, 23}
            : Exp2Format{kCoefficients64, -1022.0, 1024.0, 6755399441055744.0,
                         52};
    Location loc = op.getLoc();
    Emitter e{rewriter, loc};
    Value x = op.getOperand();

    Value smallest = e.constant(type, format.smallest);
    Value largest = e.constant(type, format.largest);
    auto compare = [&](arith::CmpFPredicate predicate, Value a, Value b) {
      return arith::CmpFOp::create(rewriter, loc, predicate, a, b);
    };
    auto select = [&](Value condition, Value a, Value b) {
      return arith::SelectOp::create(rewriter, loc, condition, a, b);
    };
    Value isTiny = compare(arith::CmpFPredicate::OLT, x, smallest);
    Value isHuge = compare(arith::CmpFPredicate::OGE, x, largest);
    Value clamped = select(isTiny, smallest, x);
    clamped = select(isHuge, smallest, clamped);

    // The sum holds n in its low bits; the difference is n as a float.
    Value shift = e.constant(type, format.roundingShift);
    Value shifted = arith::AddFOp::create(rewriter, loc, clamped, shift);
    Value n = arith::SubFOp::create(rewriter, loc, shifted, shift);
    Value f = arith::SubFOp::create(rewriter, loc, clamped, n);

    Value p = e.constant(type, format.coefficients.back());
    for (double c : llvm::reverse(format.coefficients.drop_back()))
      p = math::FmaOp::create(rewriter, loc, p, f, e.constant(type, c));

    Type bits = rewriter.getIntegerType(element.getIntOrFloatBitWidth());
    if (auto vectorType = dyn_cast<VectorType>(type))
      bits = vectorType.clone(bits);
    TypedAttr mantissa = rewriter.getIntegerAttr(getElementTypeOrSelf(bits),
                                                 format.mantissaBits);
    if (auto vectorType = dyn_cast<VectorType>(bits))
      mantissa = DenseElementsAttr::get(vectorType, Attribute(mantissa));
    Value exponent = arith::ShLIOp::create(
        rewriter, loc, arith::BitcastOp::create(rewriter, loc, bits, shifted),
        arith::ConstantOp::create(rewriter, loc, mantissa));
    Value scaled = arith::AddIOp::create(
        rewriter, loc, arith::BitcastOp::create(rewriter, loc, bits, p),
        exponent);
    Value result = arith::BitcastOp::create(rewriter, loc, type, scaled);
    result = select(isTiny, e.constant(type, 0.0), result);
    result = select(isHuge,
                    e.constant(type, std::numeric_limits<double>::infinity()),
                    result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

} // namespace

void cpu::populateExp2ApproximationPatterns(RewritePatternSet &patterns) {
  patterns.add<Exp2Pattern>(patterns.getContext());
}
