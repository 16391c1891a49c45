//===- LaneOp.cpp - Elementwise arith and math on one lane ----------------===//

#include "LaneOp.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn::reference;

namespace {
using Function = LaneOp::Function;

// x is the array of operand lanes.
#define FLOAT(expression)                                                      \
  [](const LaneOp &op, const Scalar *x, bool &undefined) -> Scalar {           \
    return scalarOf(static_cast<double>(expression));                          \
  }
#define INTEGER(expression)                                                    \
  [](const LaneOp &op, const Scalar *x, bool &undefined) -> Scalar {           \
    return scalarOf(static_cast<int64_t>(expression));                         \
  }
// Two's complement without the undefined overflow of C++.
#define WRAPPING(operation)                                                    \
  INTEGER(static_cast<uint64_t>(x[0].i) operation static_cast<uint64_t>(x[1].i))

uint64_t unsignedOperand(const LaneOp &op, Scalar x) {
  return asUnsigned(x.i, op.operandWidth);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

/// maximumf and minimumf: NaN wins, and -0 is less than +0.
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
double minimum(double a, double b) { return -maximum(-a, -b); }

/// A fused multiply-add of two f32 numbers must round once.
double fusedMultiplyAdd(const LaneOp &op, const Scalar *x) {
  if (op.precision == Precision::f32)
    return std::fmaf(static_cast<float>(x[0].f), static_cast<float>(x[1].f),
                     static_cast<float>(x[2].f));
  return std::fma(x[0].f, x[1].f, x[2].f);
}

bool compareFloats(const LaneOp &op, const Scalar *x) {
  double a = x[0].f, b = x[1].f;
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (static_cast<arith::CmpFPredicate>(op.predicate)) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  }
  return false;
}

/// Saturates where the conversion has no result (that is poison, not a trap).
int64_t toInteger(double x, double low, double high) {
  if (std::isnan(x))
    return 0;
  x = std::trunc(std::min(std::max(x, low), high));
  return x >= 0x1p63 ? static_cast<int64_t>(static_cast<uint64_t>(
                           std::min(x, 0x1.fffffffffffffp63)))
                     : static_cast<int64_t>(x);
}
int64_t toSigned(const LaneOp &op, double x) {
  double limit = std::ldexp(1.0, op.width - 1);
  return toInteger(x, -limit, op.width > 53 ? 0x1.fffffffffffffp62 : limit - 1);
}
int64_t toUnsigned(const LaneOp &op, double x) {
  double limit = std::ldexp(1.0, op.width);
  return toInteger(x, 0, op.width > 53 ? 0x1.fffffffffffffp63 : limit - 1);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

bool compareIntegers(const LaneOp &op, const Scalar *x) {
  int64_t a = x[0].i, b = x[1].i;
  uint64_t ua = unsignedOperand(op, x[0]), ub = unsignedOperand(op, x[1]);
  switch (static_cast<arith::CmpIPredicate>(op.predicate)) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  return false;
}

enum class Division { truncated, floored, ceiled, remainder };

template <Division kind>
int64_t divideSigned(const Scalar *x, bool &undefined) {
  int64_t a = x[0].i, b = x[1].i;
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) {
    undefined = true;
    return 0;
  }
  int64_t quotient = a / b, remainder = a % b;
  if (kind == Division::remainder)
    return remainder;
  if (kind == Division::floored && remainder != 0 && (remainder < 0) != (b < 0))
    --quotient;
  if (kind == Division::ceiled && remainder != 0 && (remainder < 0) == (b < 0))
    ++quotient;
  return quotient;
}

template <Division kind>
int64_t divideUnsigned(const LaneOp &op, const Scalar *x, bool &undefined) {
  uint64_t a = unsignedOperand(op, x[0]), b = unsignedOperand(op, x[1]);
  if (b == 0) {
    undefined = true;
    return 0;
  }
  if (kind == Division::remainder)
    return a % b;
  return kind == Division::ceiled && a % b != 0 ? a / b + 1 : a / b;
}

enum class Shift { left, rightSigned, rightUnsigned };

template <Shift kind> int64_t shift(const LaneOp &op, const Scalar *x) {
  uint64_t count = unsignedOperand(op, x[1]);
  if (count >= op.width)
    return 0;
  if (kind == Shift::rightSigned)
    return x[0].i >> count;
  uint64_t bits = unsignedOperand(op, x[0]);
  return kind == Shift::left ? bits << count : bits >> count;
}

int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  uint64_t result = 1, factor = base;
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return result;
}

Scalar reinterpret(const LaneOp &op, Scalar x) {
  uint64_t word;
  auto asF32 = [](uint32_t bits) {
    float single;
    std::memcpy(&single, &bits, sizeof(single));
    return single;
  };
  if (!op.isFloatOperand) {
    word = unsignedOperand(op, x);
  } else if (op.operandPrecision == Precision::f64) {
    std::memcpy(&word, &x.f, sizeof(word));
  } else if (op.operandPrecision == Precision::f16) {
    APFloat half(x.f);
    bool losesInfo;
    half.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &losesInfo);
    word = half.bitcastToAPInt().getZExtValue();
  } else {
    float single = static_cast<float>(roundTo(x.f, op.operandPrecision));
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    word = op.operandPrecision == Precision::bf16 ? bits >> 16 : bits;
  }
  if (!op.isFloatResult)
    return scalarOf(static_cast<int64_t>(word));
  switch (op.width) {
  case 64: {
    double value;
    std::memcpy(&value, &word, sizeof(value));
    return scalarOf(value);
  }
  case 32:
    return scalarOf(static_cast<double>(asF32(static_cast<uint32_t>(word))));
  default:
    if (op.precision == Precision::bf16)
      return scalarOf(
          static_cast<double>(asF32(static_cast<uint32_t>(word) << 16)));
    return scalarOf(static_cast<double>(
        APFloat(APFloat::IEEEhalf(), APInt(16, word)).convertToFloat()));
  }
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

const llvm::StringMap<Function> &laneFunctions() {
  static const llvm::StringMap<Function> table = {
      // arith, floats.
      {"arith.addf", FLOAT(x[0].f + x[1].f)},
      {"arith.subf", FLOAT(x[0].f - x[1].f)},
      {"arith.mulf", FLOAT(x[0].f * x[1].f)},
      {"arith.divf", FLOAT(x[0].f / x[1].f)},
      {"arith.remf", FLOAT(std::fmod(x[0].f, x[1].f))},
      {"arith.negf", FLOAT(-x[0].f)},
      {"arith.maximumf", FLOAT(maximum(x[0].f, x[1].f))},
      {"arith.minimumf", FLOAT(minimum(x[0].f, x[1].f))},
      {"arith.maxnumf", FLOAT(std::fmax(x[0].f, x[1].f))},
      {"arith.minnumf", FLOAT(std::fmin(x[0].f, x[1].f))},
      {"arith.cmpf", INTEGER(-compareFloats(op, x))},
      // arith, integers.
      {"arith.addi", WRAPPING(+)},
      {"arith.subi", WRAPPING(-)},
      {"arith.muli", WRAPPING(*)},
      {"arith.andi", WRAPPING(&)},
      {"arith.ori", WRAPPING(|)},
      {"arith.xori", WRAPPING(^)},
      {"arith.divsi", INTEGER(divideSigned<Division::truncated>(x, undefined))},
      {"arith.floordivsi",
       INTEGER(divideSigned<Division::floored>(x, undefined))},
      {"arith.ceildivsi",
       INTEGER(divideSigned<Division::ceiled>(x, undefined))},
      {"arith.remsi", INTEGER(divideSigned<Division::remainder>(x, undefined))},
      {"arith.divui",
       INTEGER(divideUnsigned<Division::truncated>(op, x, undefined))},
      {"arith.ceildivui",
       INTEGER(divideUnsigned<Division::ceiled>(op, x, undefined))},
      {"arith.remui",
       INTEGER(divideUnsigned<Division::remainder>(op, x, undefined))},
      {"arith.shli", INTEGER(shift<Shift::left>(op, x))},
      {"arith.shrsi", INTEGER(shift<Shift::rightSigned>(op, x))},
      {"arith.shrui", INTEGER(shift<Shift::rightUnsigned>(op, x))},
      {"arith.maxsi", INTEGER(std::max(x[0].i, x[1].i))},
      {"arith.minsi", INTEGER(std::min(x[0].i, x[1].i))},
      {"arith.maxui",
       INTEGER(std::max(unsignedOperand(op, x[0]), unsignedOperand(op, x[1])))},
      {"arith.minui",
       INTEGER(std::min(unsignedOperand(op, x[0]), unsignedOperand(op, x[1])))},
      {"arith.cmpi", INTEGER(-compareIntegers(op, x))},
      // A select of any type copies the lane.
      {"arith.select", INTEGER(x[0].i & 1 ? x[1].i : x[2].i)},
      // arith, casts.
      {"arith.extf", FLOAT(x[0].f)},
      {"arith.truncf", FLOAT(x[0].f)},
      {"arith.sitofp", FLOAT(x[0].i)},
      {"arith.uitofp", FLOAT(unsignedOperand(op, x[0]))},
      {"arith.fptosi", INTEGER(toSigned(op, x[0].f))},
      {"arith.fptoui", INTEGER(toUnsigned(op, x[0].f))},
      {"arith.extsi", INTEGER(x[0].i)},
      {"arith.extui", INTEGER(unsignedOperand(op, x[0]))},
      {"arith.trunci", INTEGER(x[0].i)},
      {"arith.index_cast", INTEGER(x[0].i)},
      {"arith.index_castui", INTEGER(unsignedOperand(op, x[0]))},
      {"arith.bitcast", [](const LaneOp &op, const Scalar *x,
                           bool &) { return reinterpret(op, x[0]); }},
      // math, floats.
      {"math.absf", FLOAT(std::fabs(x[0].f))},
      {"math.acos", FLOAT(std::acos(x[0].f))},
      {"math.acosh", FLOAT(std::acosh(x[0].f))},
      {"math.asin", FLOAT(std::asin(x[0].f))},
      {"math.asinh", FLOAT(std::asinh(x[0].f))},
      {"math.atan", FLOAT(std::atan(x[0].f))},
      {"math.atan2", FLOAT(std::atan2(x[0].f, x[1].f))},
      {"math.atanh", FLOAT(std::atanh(x[0].f))},
      {"math.cbrt", FLOAT(std::cbrt(x[0].f))},
      {"math.ceil", FLOAT(std::ceil(x[0].f))},
      {"math.clampf", FLOAT(minimum(maximum(x[0].f, x[1].f), x[2].f))},
      {"math.copysign", FLOAT(std::copysign(x[0].f, x[1].f))},
      {"math.cos", FLOAT(std::cos(x[0].f))},
      {"math.cosh", FLOAT(std::cosh(x[0].f))},
      {"math.erf", FLOAT(std::erf(x[0].f))},
      {"math.erfc", FLOAT(std::erfc(x[0].f))},
      {"math.exp", FLOAT(std::exp(x[0].f))},
      {"math.exp2", FLOAT(std::exp2(x[0].f))},
      {"math.expm1", FLOAT(std::expm1(x[0].f))},
      {"math.floor", FLOAT(std::floor(x[0].f))},
      {"math.fma", FLOAT(fusedMultiplyAdd(op, x))},
      {"vector.fma", FLOAT(fusedMultiplyAdd(op, x))},
      {"math.fpowi", FLOAT(std::pow(x[0].f, static_cast<double>(x[1].i)))},
      {"math.log", FLOAT(std::log(x[0].f))},
      {"math.log10", FLOAT(std::log10(x[0].f))},
      {"math.log1p", FLOAT(std::log1p(x[0].f))},
      {"math.log2", FLOAT(std::log2(x[0].f))},
      {"math.powf", FLOAT(std::pow(x[0].f, x[1].f))},
      {"math.round", FLOAT(std::round(x[0].f))},
      {"math.roundeven", FLOAT(std::nearbyint(x[0].f))},
      {"math.rsqrt", FLOAT(1 / std::sqrt(x[0].f))},
      {"math.sin", FLOAT(std::sin(x[0].f))},
      {"math.sinh", FLOAT(std::sinh(x[0].f))},
      {"math.sqrt", FLOAT(std::sqrt(x[0].f))},
      {"math.tan", FLOAT(std::tan(x[0].f))},
      {"math.tanh", FLOAT(std::tanh(x[0].f))},
      {"math.trunc", FLOAT(std::trunc(x[0].f))},
      {"math.isfinite", INTEGER(-std::isfinite(x[0].f))},
      {"math.isinf", INTEGER(-std::isinf(x[0].f))},
      {"math.isnan", INTEGER(-std::isnan(x[0].f))},
      {"math.isnormal", INTEGER(-std::isnormal(x[0].f))},
      // math, integers.
      {"math.absi", INTEGER(x[0].i < 0 ? -static_cast<uint64_t>(x[0].i)
                                       : static_cast<uint64_t>(x[0].i))},
      {"math.ipowi", INTEGER(integerPower(x[0].i, x[1].i))},
      {"math.ctlz", INTEGER(llvm::countl_zero(unsignedOperand(op, x[0])) -
                            (64 - static_cast<int>(op.operandWidth)))},
      {"math.cttz",
       INTEGER(std::min<int>(llvm::countr_zero(unsignedOperand(op, x[0])),
                             op.operandWidth))},
      {"math.ctpop", INTEGER(llvm::popcount(unsignedOperand(op, x[0])))},
  };
  return table;
}

#undef FLOAT
#undef INTEGER
#undef WRAPPING
} // namespace

LaneOp attn::reference::lookUpLaneOp(StringRef name, Type operand, Type result,
                                     Rounding rounding) {
  LaneOp lane;
  lane.function = laneFunctions().lookup(name);
  if (!lane.function)
    return lane;
  operand = getElementTypeOrSelf(operand);
  result = getElementTypeOrSelf(result);
  lane.width = widthOf(result);
  lane.operandWidth = widthOf(operand);
  lane.isFloatOperand = isa<FloatType>(operand);
  lane.isFloatResult = isa<FloatType>(result);
  lane.operandPrecision = precisionOf(operand);
  if (rounding == Rounding::typed || name == "arith.truncf" ||
      name == "arith.bitcast")
    lane.precision = precisionOf(result);
  // The lane of a select is copied whole, whatever it holds.
  if (name == "arith.select" && lane.isFloatResult) {
    lane.isFloatResult = false;
    lane.width = 64;
  }
  return lane;
}

LaneOp attn::reference::lookUpLaneOp(Operation *op, Rounding rounding) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getNumOperands() > 3)
    return {};
  LaneOp lane =
      lookUpLaneOp(op->getName().getStringRef(), op->getOperand(0).getType(),
                   op->getResult(0).getType(), rounding);
  lane.numOperands = op->getNumOperands();
  if (auto predicate = op->getAttrOfType<IntegerAttr>("predicate"))
    lane.predicate = predicate.getInt();
  return lane;
}
