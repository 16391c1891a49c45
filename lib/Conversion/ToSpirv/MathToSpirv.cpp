//===- MathToSpirv.cpp - Functions of mathematics on a Vulkan device ------===//
//
// Vulkan lets exp2 of GLSL.std.450 be wrong by 3 + 2 |x| units in the last
// place, and tanh and log as wrong; what a row of a softmax adds up may not be.
// So functions are made of multiply-adds, and the same on every device:
//
//   exp2        2^n P(f), x = n + f, |f| <= 1/2
//   exp         2^(x log2 e), with what the product loses put back
//   tanh        1 - 2 / (e^2x + 1), and x times a polynomial in x^2 near 0,
//               where that cancels
//   rsqrt       1 / sqrt x
//   exp2 afn    the device's own, where 16 bits are all that is kept of it
//   the others  upstream's expansions and polynomials, as on PTX
//
// P is the minimax polynomial of the relative error, 2e-9, with P(0) = 1: a
// correction of exp2(0) must be exactly one, or it would add up over the key
// blocks.
//
//===----------------------------------------------------------------------===//

#include "../Common/DoubleMath.h"
#include "../Common/MathExpansion.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attn {
#define GEN_PASS_DEF_MATHTOSPIRV
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

namespace {
/// Builds what replaces a function of f32.
struct FloatBuilder {
  OpBuilder &b;
  Location loc;

  Value constant(double value) {
    return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
  }
  Value integer(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  /// A NaN passes through. Told in floats, a driver would make a minimum and a
  /// maximum of it, which lose one: the numbers from behind a bound to the
  /// infinity on its side are a range of bits.
  Value clamp(Value x, float low, float high) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), x);
    for (float bound : {low, high}) {
      auto first = llvm::bit_cast<uint32_t>(bound) + 1;
      auto last = llvm::bit_cast<uint32_t>(bound < 0 ? -kInfinity : kInfinity);
      Value distance =
          arith::SubIOp::create(b, loc, bits, integer(int32_t(first)));
      Value isBeyond =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, distance,
                                integer(int32_t(last - first)));
      x = arith::SelectOp::create(b, loc, isBeyond, constant(bound), x);
    }
    return x;
  }
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double c : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(c));
    return sum;
  }

  Value exp2(Value x);
  Value exp(Value x);
  Value tanh(Value x);
};
} // namespace

/// Adding 1.5 * 2^23 leaves n = round(x) in the low bits. The scale is 2^(n-1),
/// and twice that is all that there is: 0 below the smallest normal numbers,
/// infinity beyond the largest.
Value FloatBuilder::exp2(Value x) {
  x = clamp(x, -126, 129);
  Value shift = constant(12582912);
  Value shifted = add(x, shift);
  Value f = sub(x, sub(shifted, shift));
  Value p =
      polynomial(f, {1.0, 0.693147202855, 0.240226479136, 0.05550332471,
                     0.00961843735765, 0.0013398874471, 0.00015353362041});
  Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), shifted);
  bits = arith::ShLIOp::create(b, loc, bits, integer(23));
  bits = arith::AddIOp::create(b, loc, bits, integer(126 << 23));
  Value scale = arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
  return mul(mul(p, scale), constant(2));
}

Value FloatBuilder::exp(Value x) {
  constexpr double kLog2E = llvm::numbers::log2ef;
  constexpr double kRest = llvm::numbers::log2e - kLog2E;
  x = clamp(x, -104, 90);
  Value exponent = mul(x, constant(kLog2E));
  Value lost = fma(x, constant(kLog2E), mul(exponent, constant(-1)));
  lost = fma(x, constant(kRest), lost);
  Value correction = fma(lost, constant(llvm::numbers::ln2), constant(1));
  return mul(exp2(exponent), correction);
}

/// Near 0 the odd Taylor polynomial to x^11, whose rest is below 6e-8 of x for
/// |x| < 0.4.
Value FloatBuilder::tanh(Value x) {
  Value square = mul(x, x);
  Value series = polynomial(
      square, {-1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835, -1382.0 / 155925});
  Value small = fma(mul(series, square), x, x);
  Value magnitude = math::AbsFOp::create(b, loc, x);
  Value power = exp2(mul(magnitude, constant(2 * llvm::numbers::log2e)));
  Value large = sub(constant(1), div(constant(2), add(power, constant(1))));
  large = math::CopySignOp::create(b, loc, large, x);
  Value isSmall = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT,
                                        magnitude, constant(0.4));
  return arith::SelectOp::create(b, loc, isSmall, small, large);
}

namespace {
/// Before upstream's patterns for the same op.
struct BuildFunction : public RewritePattern {
  explicit BuildFunction(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/3, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
        op->getNumResults() != 1)
      return failure();
    Value result;
    if (op->getResult(0).getType().isF32()) {
      FloatBuilder b{rewriter, op->getLoc()};
      Value x = op->getOperand(0);
      result =
          llvm::TypeSwitch<Operation *, Value>(op)
              .Case([&](math::Exp2Op) { return b.exp2(x); })
              .Case([&](math::ExpOp) { return b.exp(x); })
              .Case([&](math::TanhOp) { return b.tanh(x); })
              .Case([&](math::RsqrtOp) {
                return b.div(b.constant(1),
                             math::SqrtOp::create(rewriter, op->getLoc(), x));
              })
              .Case([&](math::Log10Op) {
                Value log2 = math::Log2Op::create(rewriter, op->getLoc(), x);
                return b.mul(log2, b.constant(0.30102999566398120));
              })
              .Case([&](math::TruncOp) {
                Value magnitude =
                    math::AbsFOp::create(rewriter, op->getLoc(), x);
                magnitude =
                    math::FloorOp::create(rewriter, op->getLoc(), magnitude);
                return math::CopySignOp::create(rewriter, op->getLoc(),
                                                magnitude, x)
                    .getResult();
              })
              .Default([](Operation *) { return Value(); });
    } else {
      result = attn::buildDoubleMath(rewriter, op);
    }
    if (!result)
      return failure();
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// What upstream's conversion makes an instruction of.
static bool isInstruction(Operation *op) {
  if (auto exp2 = dyn_cast<math::Exp2Op>(op))
    return exp2.getType().isF32() &&
           bitEnumContainsAll(exp2.getFastmath(), arith::FastMathFlags::afn);
  return isa<math::AbsFOp, math::CeilOp, math::CopySignOp, math::FloorOp,
             math::FmaOp, math::RoundEvenOp, math::RoundOp, math::SqrtOp,
             math::CtPopOp, math::CountLeadingZerosOp>(op);
}

struct MathToSpirv : attn::impl::MathToSpirvBase<MathToSpirv> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<BuildFunction>(&getContext());
    auto isFunction = [](Operation *op) {
      return isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
             !isInstruction(op);
    };
    if (failed(attn::expandMath(getOperation(), std::move(patterns), isFunction,
                                "SPIR-V")))
      signalPassFailure();
  }
};
} // namespace
