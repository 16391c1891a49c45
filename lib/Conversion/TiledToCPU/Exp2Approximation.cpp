//===- Exp2Approximation.cpp - exp2 by a polynomial -----------------------===//
//
//   x = n + f;  exp2(x) = 2^n P(f)
//
// P is the minimax polynomial of the relative error on an interval of length
// one, among those with P(0) = 1: a correction of exp2(0) must be exactly one,
// or it would add up over the key blocks. The degree follows the type of the
// result, whose own rounding must hide the error: the element type, or the
// accumulator's when an lse is asked for.
//
//   f64: degree 11, 3.1e-18      f32: degree 5, 9.2e-8
//   f16: degree 4, 2.9e-6        bf16: degree 3, 1.1e-4
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
    return {{1.0, 0.693282927105, 0.242210959287, 0.0550089310862},
            {1.0, 0.695116786437, 0.22764499115, 0.0770670420241}};
  if (element.isF16())
    return {
        {1.0, 0.693124193417, 0.2402409861, 0.0559064246015, 0.00958285309207},
        {1.0, 0.693044844901, 0.24128020476, 0.0522424742111, 0.0134266842772}};
  if (element.isF32())
    return {{1.0, 0.693146977599, 0.240222420854, 0.0555073374326,
             0.00967151263994, 0.00132647271936},
            {1.0, 0.693151311805, 0.240164450154, 0.0557999131055,
             0.00901703032062, 0.00186713007053}};
  return {
      {1.0, 0.69314718055994533, 0.240226506959101562, 0.0555041086648199215,
       0.00961812910758833508, 0.00133335581467899503, 0.00015403530462514613,
       0.0000152527334899608046, 1.3215433089594629e-6, 1.01781980333285277e-7,
       7.07410562624565937e-9, 4.43528094461033616e-10},
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
  bool hasScalef = kernel.form.target.has("avx512dq");
  SmallVector<math::Exp2Op> ops;
  root->walk([&](math::Exp2Op op) { ops.push_back(op); });
  for (math::Exp2Op op : ops) {
    OpBuilder builder(op);
    Exp2Emitter emitter{{builder, op.getLoc()}, coefficients, hasScalef};
    op.replaceAllUsesWith(emitter.emit(op.getOperand()));
    op.erase();
  }
}
