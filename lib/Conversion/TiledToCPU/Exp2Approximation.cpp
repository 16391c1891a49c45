//===- Exp2Approximation.cpp - exp2 by a polynomial -----------------------===//
//
//   x = n + f;  exp2(x) = 2^n P(f)
//
// P is the minimax polynomial of the relative error on an interval of length
// one, found by a Remez iteration in extended precision. Its degree follows
// the type of the result, whose own rounding must hide it: the element type,
// or the accumulator's when an lse is asked for.
//
//   f64: degree 11, 3.1e-18      f32: degree 5, 7.5e-8
//   f16: degree 4, 2.6e-6        bf16: degree 3, 7.5e-5
//
// Two ways to split x and to scale by 2^n:
//
// - AVX-512: f = x - floor(x) by vreduceps and 2^floor(x) by vscalefps, which
//   also give 0 for -inf and NaN for NaN.
// - Anywhere: n = round(x) is found by adding 1.5 * 2^(mantissa bits); the
//   sum's low bits are n, so the scaling is an integer addition to the
//   exponent of P(f). Results below the smallest normal number are zero, and
//   the ends of the range are selects.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

namespace {
/// P(f) = sum c_k f^k on [-1/2, 1/2], and the same polynomial on [0, 1).
struct Polynomial {
  std::vector<double> centred, fromZero;
};
} // namespace

static Polynomial polynomialFor(Type element) {
  if (element.isBF16())
    return {{0.999928073535159659, 0.693260985454245729, 0.242611122223753236,
             0.0551716690926116623},
            {0.999925218565914263, 0.695833540479291791, 0.226067155397090548,
             0.0780245226895319235}};
  if (element.isF16())
    return {{0.999999261446931155, 0.693121814742986684, 0.24024744824991691,
             0.0559178603063256519, 0.00957010201462932562},
            {1.00000259336926463, 0.693003834432498817, 0.24144275709800027,
             0.0520114602993241434, 0.0135341680623828724}};
  if (element.isF32())
    return {{1.00000007165464164, 0.693146967065264928, 0.24022119723969178,
             0.0555071327287539118, 0.00967554133102139115,
             0.00132764721678199433},
            {0.999999925063587772, 0.693153073202626053, 0.240153617021126324,
             0.0558263181162334998, 0.00898934002358190677,
             0.00187757670001998899}};
  return {
      {0.999999999999999997, 0.69314718055994533, 0.240226506959101562,
       0.0555041086648199215, 0.00961812910758833508, 0.00133335581467899503,
       0.00015403530462514613, 0.0000152527334899608046, 1.3215433089594629e-6,
       1.01781980333285277e-7, 7.07410562624565937e-9, 4.43528094461033616e-10},
      {}};
}

namespace {

/// Emits one approximation in place of one op.
struct Exp2Emitter {
  Emitter e;
  const Polynomial &coefficients;
  bool hasScalef;

  Value polynomial(Value f, ArrayRef<double> coefficients) {
    Value p = e.constant(f.getType(), coefficients.back());
    for (double c : llvm::reverse(coefficients.drop_back()))
      p = math::FmaOp::create(e.b, e.loc, p, f, e.constant(f.getType(), c));
    return p;
  }
  Value avx512(Value x);
  Value portable(Value x);
  Value emit(Value x) {
    auto type = dyn_cast<VectorType>(x.getType());
    bool isRegister = type && type.getRank() == 1 && type.getDimSize(0) == 16 &&
                      type.getElementType().isF32();
    return hasScalef && isRegister ? avx512(x) : portable(x);
  }
};

} // namespace

Value Exp2Emitter::avx512(Value x) {
  auto integer = [&](unsigned bits, int64_t value) -> Value {
    return arith::ConstantOp::create(
        e.b, e.loc, e.b.getIntegerAttr(e.b.getIntegerType(bits), value));
  };
  auto call = [&](StringRef name, ValueRange arguments) -> Value {
    return LLVM::CallIntrinsicOp::create(e.b, e.loc, x.getType(),
                                         e.b.getStringAttr(name), arguments)
        .getResult(0);
  };
  Value everyLane = integer(16, -1);
  Value currentRounding = integer(32, 4);
  // x - floor(x): no fraction bits kept, rounded down.
  Value f = call("llvm.x86.avx512.mask.reduce.ps.512",
                 {x, integer(32, 1), x, everyLane, currentRounding});
  // vscalefps takes the floor of its second operand itself.
  return call(
      "llvm.x86.avx512.mask.scalef.ps.512",
      {polynomial(f, coefficients.fromZero), x, x, everyLane, currentRounding});
}

Value Exp2Emitter::portable(Value x) {
  Type type = x.getType();
  Type element = getElementTypeOrSelf(type);
  bool isSingle = element.isF32();
  double lowest = isSingle ? -126.0 : -1022.0;
  double highest = isSingle ? 128.0 : 1024.0;
  double roundingShift = isSingle ? 12582912.0 : 6755399441055744.0;
  int64_t mantissaBits = isSingle ? 23 : 52;

  auto compare = [&](arith::CmpFPredicate predicate, double bound) -> Value {
    return arith::CmpFOp::create(e.b, e.loc, predicate, x,
                                 e.constant(type, bound));
  };
  auto select = [&](Value condition, Value a, Value b) -> Value {
    return arith::SelectOp::create(e.b, e.loc, condition, a, b);
  };
  Value isTiny = compare(arith::CmpFPredicate::OLT, lowest);
  Value isHuge = compare(arith::CmpFPredicate::OGE, highest);
  Value inRange = select(isTiny, e.constant(type, lowest), x);
  inRange = select(isHuge, e.constant(type, lowest), inRange);

  // The sum holds n in its low bits; the difference is n as a float.
  Value shift = e.constant(type, roundingShift);
  Value shifted = arith::AddFOp::create(e.b, e.loc, inRange, shift);
  Value n = arith::SubFOp::create(e.b, e.loc, shifted, shift);
  Value p = polynomial(arith::SubFOp::create(e.b, e.loc, inRange, n),
                       coefficients.centred);

  Type integer = e.b.getIntegerType(element.getIntOrFloatBitWidth());
  TypedAttr bits = e.b.getIntegerAttr(integer, mantissaBits);
  Type integers = integer;
  if (auto vectorType = dyn_cast<VectorType>(type)) {
    integers = vectorType.clone(integer);
    bits = DenseElementsAttr::get(cast<ShapedType>(integers), Attribute(bits));
  }
  auto asBits = [&](Value value) -> Value {
    return arith::BitcastOp::create(e.b, e.loc, integers, value);
  };
  Value exponent = arith::ShLIOp::create(
      e.b, e.loc, asBits(shifted), arith::ConstantOp::create(e.b, e.loc, bits));
  Value scaled = arith::AddIOp::create(e.b, e.loc, asBits(p), exponent);
  Value result = arith::BitcastOp::create(e.b, e.loc, type, scaled);
  result = select(isTiny, e.constant(type, 0.0), result);
  double infinity = std::numeric_limits<double>::infinity();
  return select(isHuge, e.constant(type, infinity), result);
}

void cpu::approximateExp2(Operation *root, const CpuKernel &kernel) {
  // The lse is not rounded to the element type.
  Type precision =
      kernel.form.lse ? Type(kernel.type) : Type(kernel.form.elementType);
  Polynomial coefficients = polynomialFor(precision);
  bool hasScalef = StringRef(kernel.form.target.features).contains("+avx512dq");
  SmallVector<math::Exp2Op> ops;
  root->walk([&](math::Exp2Op op) { ops.push_back(op); });
  for (math::Exp2Op op : ops) {
    OpBuilder builder(op);
    Exp2Emitter emitter{{builder, op.getLoc()}, coefficients, hasScalef};
    op.replaceAllUsesWith(emitter.emit(op.getOperand()));
    op.erase();
  }
}
