//===- MathToPtx.cpp - Functions of mathematics on NVIDIA GPUs ------------===//
//
// PTX has a unit for 2^x, log2 x, 1/x, 1/sqrt x and tanh x, all approximate and
// all f32. Upstream's way to the others is a call of CUDA's libdevice, which is
// not there without CUDA. Here every function becomes arithmetic around those
// five, or a polynomial:
//
//   exp2, rsqrt        the unit itself: 2 units in the last place
//   exp                2^(x log2 e); unless the op is `afn`, what the product
//                      loses is put back, else it costs |x| roundings
//   log2, log          upstream's polynomials; with `afn` the unit, 2^-22
//                      absolute or relative, which an lse would show
//   log10              the unit times a constant
//   tanh               1 - 2 / (2^(2 x log2 e) + 1), and x times a polynomial
//                      in x^2 near 0, where that cancels; with `afn` the unit
//   sin, cos           upstream's polynomials; with `afn` the unit, which loses
//                      accuracy beyond a few periods
//   powf               with `afn` 2^(y log2 x); else upstream's expansion
//   the others         upstream's expansions and polynomials
//
// absf, sqrt, fma, floor and the like have instructions, of any float type; the
// others are computed in f32 for f16 and bf16. All end as intrinsics of LLVM,
// because convert-gpu-to-nvvm turns every op of math that it meets into a call,
// and the maxima and minima of arith, too.
//
// Of f64 there are exp2, exp, log2, log, tanh and rsqrt, by arithmetic alone
// (DoubleMath.cpp).
//
// A function that none of this covers is an error here: further down it would
// be a call that nothing resolves.
//
//===----------------------------------------------------------------------===//

#include "../Common/DoubleMath.h"
#include "../Common/MathExpansion.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attn {
#define GEN_PASS_DEF_MATHTOPTX
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

static constexpr float kLog2E = 1.44269504f;
/// log2 e less its f32, as an f32.
static constexpr float kLog2ELow = 1.92596299e-8f;
static constexpr float kLn2 = 0.693147181f;
static constexpr float kLog10Of2 = 0.301029996f;

static constexpr StringLiteral kExp2 = "llvm.nvvm.ex2.approx.ftz.f";
static constexpr StringLiteral kLog2 = "llvm.nvvm.lg2.approx.f";
static constexpr StringLiteral kReciprocal = "llvm.nvvm.rcp.approx.ftz.f";
static constexpr StringLiteral kRsqrt = "llvm.nvvm.rsqrt.approx.f";
/// LLVM's own, which become the unit on calls that are `afn`.
static constexpr StringLiteral kTanh = "llvm.tanh", kSin = "llvm.sin",
                               kCos = "llvm.cos";

//===----------------------------------------------------------------------===//
// Arithmetic on a float or a vector of them
//===----------------------------------------------------------------------===//

static bool isApproximate(Operation *op) {
  auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
  return flags && bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(),
                                     arith::FastMathFlags::afn);
}

namespace {
/// Builds what replaces `op`, whose operands and result have one type.
class LaneBuilder {
public:
  LaneBuilder(OpBuilder &b, Operation *op)
      : b(b), loc(op->getLoc()), type(op->getResult(0).getType()),
        approximate(isApproximate(op)) {}

  Value constant(float value) {
    FloatAttr element = b.getF32FloatAttr(value);
    if (auto shaped = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, loc,
                                       DenseElementsAttr::get(shaped, element));
    return arith::ConstantOp::create(b, loc, element);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return instruction("llvm.fma", {x, y, z});
  }
  Value clamp(Value x, float low, float high) {
    Value raised = arith::MaximumFOp::create(b, loc, x, constant(low));
    return arith::MinimumFOp::create(b, loc, raised, constant(high));
  }
  Value selectBelow(Value x, float bound, Value ifBelow, Value otherwise) {
    Value isBelow = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x,
                                          constant(bound));
    return arith::SelectOp::create(b, loc, isBelow, ifBelow, otherwise);
  }

  /// LLVM's intrinsic of a row of numbers.
  Value instruction(StringRef intrinsic, ValueRange operands) {
    SmallVector<Value> flat;
    for (Value operand : operands)
      flat.push_back(reshape(operand, flatten(operand.getType())));
    return reshape(call(intrinsic, flat), type);
  }

  /// A unit of the chip works on single numbers.
  Value unit(StringRef intrinsic, Value x) {
    auto flatType = dyn_cast<VectorType>(flatten(type));
    if (!flatType)
      return call(intrinsic, x);
    Value flat = reshape(x, flatType);
    SmallVector<Value> lanes;
    for (int64_t i = 0; i < flatType.getNumElements(); ++i)
      lanes.push_back(
          call(intrinsic, {vector::ExtractOp::create(b, loc, flat, i)}));
    return reshape(vector::FromElementsOp::create(b, loc, flatType, lanes),
                   type);
  }

private:
  static Type flatten(Type type) {
    auto vectorType = dyn_cast<VectorType>(type);
    return vectorType ? VectorType::get({vectorType.getNumElements()},
                                        vectorType.getElementType())
                      : type;
  }
  Value reshape(Value x, Type to) {
    return x.getType() == to
               ? x
               : vector::ShapeCastOp::create(b, loc, to, x).getResult();
  }
  Value call(StringRef intrinsic, ValueRange operands) {
    auto call = LLVM::CallIntrinsicOp::create(
        b, loc, operands[0].getType(), b.getStringAttr(intrinsic), operands);
    if (approximate)
      call.setFastmathFlags(LLVM::FastmathFlags::afn);
    return call.getResult(0);
  }

  OpBuilder &b;
  Location loc;
  Type type;
  bool approximate;
};
} // namespace

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

/// Beyond the bounds the result is infinity or, flushed, 0; within them nothing
/// below becomes infinity minus infinity.
static Value buildExp(LaneBuilder &b, Value x) {
  Value bounded = b.clamp(x, -104.0f, 90.0f);
  Value exponent = b.mul(bounded, b.constant(kLog2E));
  Value negated = b.mul(exponent, b.constant(-1.0f));
  Value lost = b.fma(bounded, b.constant(kLog2E), negated);
  lost = b.fma(bounded, b.constant(kLog2ELow), lost);
  Value correction = b.fma(lost, b.constant(kLn2), b.constant(1.0f));
  return b.mul(b.unit(kExp2, exponent), correction);
}

/// Near 0 the odd Taylor polynomial to x^11, whose rest is below 6e-8 of x for
/// |x| < 0.4.
static Value buildTanh(LaneBuilder &b, Value x) {
  Value square = b.mul(x, x);
  Value series = b.constant(-1382.0f / 155925);
  for (float term : {62.0f / 2835, -17.0f / 315, 2.0f / 15, -1.0f / 3})
    series = b.fma(series, square, b.constant(term));
  Value small = b.fma(b.mul(series, square), x, x);

  Value magnitude = b.instruction("llvm.fabs", x);
  Value power = b.unit(kExp2, b.mul(magnitude, b.constant(2 * kLog2E)));
  Value inverse = b.unit(kReciprocal, b.add(power, b.constant(1.0f)));
  Value large = b.fma(inverse, b.constant(-2.0f), b.constant(1.0f));
  return b.selectBelow(magnitude, 0.4f, small,
                       b.instruction("llvm.copysign", {large, x}));
}

/// The result of `op`, or null where upstream's patterns are to expand it.
static Value buildByUnits(LaneBuilder &b, Operation *op) {
  Value x = op->getOperand(0);
  bool approximate = isApproximate(op);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Exp2Op) { return b.unit(kExp2, x); })
      .Case([&](math::ExpOp) {
        return approximate ? b.unit(kExp2, b.mul(x, b.constant(kLog2E)))
                           : buildExp(b, x);
      })
      .Case([&](math::Log2Op) {
        return approximate ? b.unit(kLog2, x) : Value();
      })
      .Case([&](math::LogOp) {
        return approximate ? b.mul(b.unit(kLog2, x), b.constant(kLn2))
                           : Value();
      })
      .Case([&](math::Log10Op) {
        return b.mul(b.unit(kLog2, x), b.constant(kLog10Of2));
      })
      .Case([&](math::RsqrtOp) { return b.unit(kRsqrt, x); })
      .Case([&](math::TanhOp) {
        return approximate ? b.unit(kTanh, x) : buildTanh(b, x);
      })
      .Case(
          [&](math::SinOp) { return approximate ? b.unit(kSin, x) : Value(); })
      .Case(
          [&](math::CosOp) { return approximate ? b.unit(kCos, x) : Value(); })
      .Case([&](math::PowFOp) {
        return approximate
                   ? b.unit(kExp2, b.mul(op->getOperand(1), b.unit(kLog2, x)))
                   : Value();
      })
      .Default([](Operation *) { return Value(); });
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// The intrinsic of what has an instruction, or a short expansion that LLVM
/// knows; empty for other ops.
static StringRef instructionOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](arith::MaxNumFOp) { return "llvm.maxnum"; })
      .Case([](arith::MaximumFOp) { return "llvm.maximum"; })
      .Case([](arith::MinNumFOp) { return "llvm.minnum"; })
      .Case([](arith::MinimumFOp) { return "llvm.minimum"; })
      .Case([](math::AbsFOp) { return "llvm.fabs"; })
      .Case([](math::CeilOp) { return "llvm.ceil"; })
      .Case([](math::CopySignOp) { return "llvm.copysign"; })
      .Case([](math::CtPopOp) { return "llvm.ctpop"; })
      .Case([](math::FloorOp) { return "llvm.floor"; })
      .Case([](math::FmaOp) { return "llvm.fma"; })
      .Case([](math::RoundEvenOp) { return "llvm.roundeven"; })
      .Case([](math::RoundOp) { return "llvm.round"; })
      .Case([](math::SqrtOp) { return "llvm.sqrt"; })
      .Case([](math::TruncOp) { return "llvm.trunc"; })
      .Default([](Operation *) { return ""; });
}

static bool isFunction(Operation *op) {
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         !instructionOf(op).empty();
}

namespace {
struct LowerToIntrinsics : public RewritePattern {
  // Before upstream's patterns for the same op.
  explicit LowerToIntrinsics(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isFunction(op) || op->getNumResults() != 1)
      return failure();
    LaneBuilder lanes(rewriter, op);
    Value result;
    if (StringRef intrinsic = instructionOf(op); !intrinsic.empty())
      result = lanes.instruction(intrinsic, op->getOperands());
    else if (getElementTypeOrSelf(op->getResult(0).getType()).isF32())
      result = buildByUnits(lanes, op);
    else
      result = attn::buildDoubleMath(rewriter, op);
    if (!result)
      return failure();
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ComputeInF32 : public RewritePattern {
  explicit ComputeInF32(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/3, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    auto isSmall = [](Type type) {
      auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
      return element && element.getWidth() < 32;
    };
    if (!isFunction(op) || !instructionOf(op).empty() ||
        !llvm::all_of(op->getResultTypes(), isSmall))
      return failure();
    auto widen = [&](Type type) -> Type {
      Type f32 = rewriter.getF32Type();
      if (auto vectorType = dyn_cast<VectorType>(type))
        return vectorType.clone(f32);
      return f32;
    };
    Operation *wide = rewriter.clone(*op);
    rewriter.setInsertionPoint(wide);
    for (OpOperand &operand : wide->getOpOperands())
      if (isSmall(operand.get().getType()))
        operand.set(arith::ExtFOp::create(rewriter, op->getLoc(),
                                          widen(operand.get().getType()),
                                          operand.get()));
    rewriter.setInsertionPoint(op);
    SmallVector<Value> results;
    for (OpResult result : wide->getResults()) {
      Type type = result.getType();
      result.setType(widen(type));
      results.push_back(
          arith::TruncFOp::create(rewriter, op->getLoc(), type, result));
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct MathToPtx : attn::impl::MathToPtxBase<MathToPtx> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LowerToIntrinsics, ComputeInF32>(&getContext());
    if (failed(attn::expandMath(getOperation(), std::move(patterns), isFunction,
                                "PTX")))
      signalPassFailure();
  }
};
} // namespace
