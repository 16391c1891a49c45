//===- Exp2Approximation.cpp - exp2 by a polynomial -----------------------===//
//
//   x = n + f, n = floor(x);  exp2(x) = 2^n P(f)
//
// P is the minimax polynomial of the relative error on [0, 1) among those with
// P(0) = 1: a correction of exp2(0) must be exactly one, or it would add up
// over the key blocks. The degree follows the type of the result, whose own
// rounding must hide the error: the element type, or the accumulator's when an
// lse is asked for.
//
//   f64: degree 11, 3.2e-18      f32: degree 5, 8.2e-8
//   f16: degree 4, 2.9e-6        bf16: degree 3, 8.6e-5
//
// Two ways to split x and to scale by 2^n; both give 0 for -inf and NaN for
// NaN:
//
// - AVX-512: f by vreduceps and 2^floor(x) by vscalefps.
// - Anywhere: x is clamped to where 2^n becomes 0, which is below the smallest
//   normal number, and inf. Adding n to 1.5 * 2^(mantissa bits) + bias leaves
//   the exponent of 2^n in the sum's low bits. The scaling is a product and no
//   sum of integers, which would add to the payload of a NaN.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// The coefficients of P, the constant first.
static std::vector<double> polynomialFor(Type element) {
  if (element.isBF16())
    return {1.0, 0.695116786437, 0.22764499115, 0.0770670420241};
  if (element.isF16())
    return {1.0, 0.693044844901, 0.24128020476, 0.0522424742111,
            0.0134266842772};
  if (element.isF32())
    return {1.0,
            0.693151311805,
            0.240164450154,
            0.0557999131055,
            0.00901703032062,
            0.00186713007053};
  return {1.0,
          0.693147180559945928,
          0.240226506959063304,
          0.055504108665602232,
          0.00961812909955094584,
          0.00133335586295604706,
          0.000154035123097949387,
          0.0000152531750527036652,
          1.32083673208426317e-6,
          1.02532122130197472e-7,
          6.55953020779537868e-9,
          6.26346461418901702e-10};
}

namespace {

/// Emits one approximation in place of one op.
struct Exp2Emitter {
  Emitter e;
  ArrayRef<double> coefficients;
  bool hasScalef;

  Value polynomial(Value f) {
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
  return call("llvm.x86.avx512.mask.scalef.ps.512",
              {polynomial(f), x, x, everyLane, currentRounding});
}

Value Exp2Emitter::portable(Value x) {
  Type type = x.getType();
  Type element = getElementTypeOrSelf(type);
  bool isSingle = element.isF32();
  int64_t mantissaBits = isSingle ? 23 : 52, bias = isSingle ? 127 : 1023;

  // Both comparisons are false for NaN, which stays.
  auto replaceIf = [&](arith::CmpFPredicate predicate, double bound) {
    Value limit = e.constant(type, bound);
    Value isBeyond = arith::CmpFOp::create(e.b, e.loc, predicate, limit, x);
    x = arith::SelectOp::create(e.b, e.loc, isBeyond, limit, x);
  };
  replaceIf(arith::CmpFPredicate::OGT, -bias);
  replaceIf(arith::CmpFPredicate::OLT, bias + 1);

  Value n = math::FloorOp::create(e.b, e.loc, x);
  Value p = polynomial(arith::SubFOp::create(e.b, e.loc, x, n));
  double shift = 1.5 * static_cast<double>(int64_t(1) << mantissaBits) + bias;
  Value shifted = arith::AddFOp::create(e.b, e.loc, n, e.constant(type, shift));

  Type integers = e.b.getIntegerType(element.getIntOrFloatBitWidth());
  TypedAttr bits = e.b.getIntegerAttr(integers, mantissaBits);
  if (auto vectorType = dyn_cast<VectorType>(type)) {
    integers = vectorType.clone(integers);
    bits = DenseElementsAttr::get(cast<ShapedType>(integers), Attribute(bits));
  }
  Value exponent = arith::ShLIOp::create(
      e.b, e.loc, arith::BitcastOp::create(e.b, e.loc, integers, shifted),
      arith::ConstantOp::create(e.b, e.loc, bits));
  Value scale = arith::BitcastOp::create(e.b, e.loc, type, exponent);
  return arith::MulFOp::create(e.b, e.loc, p, scale);
}

void cpu::approximateExp2(Operation *root, Type precision,
                          const TargetDescription &target) {
  std::vector<double> coefficients = polynomialFor(precision);
  bool hasScalef = target.has("avx512dq");
  SmallVector<math::Exp2Op> ops;
  root->walk([&](math::Exp2Op op) { ops.push_back(op); });
  for (math::Exp2Op op : ops) {
    OpBuilder builder(op);
    Exp2Emitter emitter{{builder, op.getLoc()}, coefficients, hasScalef};
    op.replaceAllUsesWith(emitter.emit(op.getOperand()));
    op.erase();
  }
}
