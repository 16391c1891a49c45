//===- DoubleMath.cpp - Functions of mathematics in f64 -------------------===//
//
// A GPU has units for f32 alone. Two functions are made of arithmetic, the
// others of those two, each to a few units in the last place:
//
//   2^x     2^n 2^f with n = round(x): the Taylor polynomial of e^(f ln 2),
//           |f| <= 1/2, to degree 13, whose rest is below 5e-18
//   log2 x  e + log2 m, x = m 2^e with m between sqrt(1/2) and sqrt 2:
//           the series of 2 atanh((m - 1) / (m + 1)) to degree 21
//
//===----------------------------------------------------------------------===//

#include "DoubleMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

namespace {
/// Arithmetic on f64 and i64 of one shape.
class DoubleBuilder {
public:
  DoubleBuilder(OpBuilder &b, Operation *op)
      : b(b), loc(op->getLoc()), type(op->getResult(0).getType()) {}

  Value exp2(Value x);
  Value log2(Value x);
  Value exp(Value x);
  Value tanh(Value x);

  Value constant(double value) { return splat(b.getF64FloatAttr(value), type); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }

private:
  Value splat(TypedAttr element, Type of) {
    if (auto vectorType = dyn_cast<VectorType>(of))
      element = DenseElementsAttr::get(vectorType, Attribute(element));
    return arith::ConstantOp::create(b, loc, element);
  }
  Type bitsType() {
    if (auto vectorType = dyn_cast<VectorType>(type))
      return vectorType.clone(b.getI64Type());
    return b.getI64Type();
  }
  Value integer(int64_t value) {
    return splat(b.getI64IntegerAttr(value), bitsType());
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value toBits(Value x) {
    return arith::BitcastOp::create(b, loc, bitsType(), x);
  }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, loc, type, x); }
  Value addBits(Value x, Value y) {
    return arith::AddIOp::create(b, loc, x, y);
  }
  Value shiftLeft(Value x, int64_t by) {
    return arith::ShLIOp::create(b, loc, x, integer(by));
  }
  Value shiftRight(Value x, int64_t by) {
    return arith::ShRSIOp::create(b, loc, x, integer(by));
  }
  Value compare(arith::CmpFPredicate predicate, Value x, double y) {
    return arith::CmpFOp::create(b, loc, predicate, x, constant(y));
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// 2^n of an integer within the exponents of normal numbers.
  Value powerOf2(Value n) {
    return fromBits(shiftLeft(addBits(n, integer(1023)), 52));
  }
  /// Adding it leaves the nearest integer in the low bits.
  static constexpr double kRound = 0x1.8p52;

  OpBuilder &b;
  Location loc;
  Type type;
};
} // namespace

/// Comparisons that a NaN fails let it through.
Value DoubleBuilder::exp2(Value x) {
  x = select(compare(arith::CmpFPredicate::OLT, x, -1080), constant(-1080), x);
  x = select(compare(arith::CmpFPredicate::OGT, x, 1026), constant(1026), x);
  Value shifted = add(x, constant(kRound));
  Value n =
      arith::SubIOp::create(b, loc, toBits(shifted), toBits(constant(kRound)));
  Value f =
      mul(sub(x, sub(shifted, constant(kRound))), constant(llvm::numbers::ln2));
  double factorial = 6227020800; // 13!
  Value sum = constant(1 / factorial);
  for (int64_t k = 13; k > 0; --k) {
    factorial /= k;
    sum = fma(sum, f, constant(1 / factorial));
  }
  // In two steps: 2^n itself may be no normal number.
  Value half = shiftRight(n, 1);
  Value rest = arith::SubIOp::create(b, loc, n, half);
  return mul(mul(sum, powerOf2(half)), powerOf2(rest));
}

Value DoubleBuilder::log2(Value x) {
  Value isTiny = compare(arith::CmpFPredicate::OLT, x, 0x1p-1022);
  Value normal = select(isTiny, mul(x, constant(0x1p54)), x);
  Value bits = toBits(normal);
  // The exponent of m 2^e with m from sqrt(1/2) on.
  int64_t sqrtHalf = llvm::bit_cast<int64_t>(llvm::numbers::sqrt2 / 2);
  Value e =
      shiftRight(arith::SubIOp::create(b, loc, bits, integer(sqrtHalf)), 52);
  Value m = fromBits(arith::SubIOp::create(b, loc, bits, shiftLeft(e, 52)));
  Value s = div(sub(m, constant(1)), add(m, constant(1)));
  Value square = mul(s, s);
  Value sum = constant(2.0 / 21);
  for (int64_t k = 19; k > 0; k -= 2)
    sum = fma(sum, square, constant(2.0 / k));
  Value exponent = arith::SIToFPOp::create(b, loc, type, e);
  exponent = select(isTiny, add(exponent, constant(-54)), exponent);
  Value result = fma(mul(sum, s), constant(llvm::numbers::log2e), exponent);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result = select(compare(arith::CmpFPredicate::OEQ, x, kInfinity), x, result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, 0),
                  constant(-kInfinity), result);
  Value isNumber = compare(arith::CmpFPredicate::OGE, x, 0);
  return select(isNumber, result,
                constant(std::numeric_limits<double>::quiet_NaN()));
}

/// What the product with log2 e loses is put back.
Value DoubleBuilder::exp(Value x) {
  Value low = compare(arith::CmpFPredicate::OLT, x, -760);
  x = select(low, constant(-760), x);
  x = select(compare(arith::CmpFPredicate::OGT, x, 720), constant(720), x);
  Value exponent = mul(x, constant(llvm::numbers::log2e));
  Value lost =
      fma(x, constant(llvm::numbers::log2e), mul(exponent, constant(-1)));
  return mul(exp2(exponent),
             fma(lost, constant(llvm::numbers::ln2), constant(1)));
}

/// (e^2x - 1) / (e^2x + 1); near 0 with the series of e^2x - 1.
Value DoubleBuilder::tanh(Value x) {
  Value twice = add(x, x);
  Value series = constant(0);
  double factorial = 355687428096000; // 17!
  for (int64_t k = 17; k > 0; --k) {
    series = fma(series, twice, constant(1 / factorial));
    factorial /= k;
  }
  series = mul(series, twice);
  Value small = div(series, add(series, constant(2)));
  Value magnitude = math::AbsFOp::create(b, loc, x);
  Value power = exp(add(magnitude, magnitude));
  Value large = sub(constant(1), div(constant(2), add(power, constant(1))));
  large = math::CopySignOp::create(b, loc, large, x);
  return select(compare(arith::CmpFPredicate::OLT, magnitude, 0.25), small,
                large);
}

Value attn::buildDoubleMath(OpBuilder &builder, Operation *op) {
  if (!getElementTypeOrSelf(op->getResult(0).getType()).isF64())
    return {};
  DoubleBuilder b(builder, op);
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::Exp2Op) { return b.exp2(x); })
      .Case([&](math::ExpOp) { return b.exp(x); })
      .Case([&](math::Log2Op) { return b.log2(x); })
      .Case([&](math::LogOp) {
        return b.mul(b.log2(x), b.constant(llvm::numbers::ln2));
      })
      .Case([&](math::TanhOp) { return b.tanh(x); })
      .Case([&](math::RsqrtOp) { return b.div(b.constant(1), b.sqrt(x)); })
      .Default([](Operation *) { return Value(); });
}
