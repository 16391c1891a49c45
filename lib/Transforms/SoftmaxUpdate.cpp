//===- SoftmaxUpdate.cpp - Online softmax ---------------------------------===//

#include "SoftmaxUpdate.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

SmallVector<Value> SoftmaxState::values() const {
  SmallVector<Value> values = {rowMax, rowSum};
  if (acc)
    values.push_back(acc);
  return values;
}

SoftmaxState SoftmaxState::from(ValueRange values) {
  return {values[0], values[1], values.size() > 2 ? values[2] : Value()};
}

SoftmaxUpdate::SoftmaxUpdate(TileBuilder &b, FloatType type, double c)
    : b(b), type(type), rowType(b.typeOf(Extent::PerRow, type)), c(c),
      zeroRow(b.constant(rowType, 0)), noneRow(b.negativeInfinity(rowType)),
      cRow(b.constant(rowType, c)) {}

Value SoftmaxUpdate::equals(Value value, Value constant) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, constant);
}

SoftmaxState SoftmaxUpdate::initial(int64_t valueDim, Value sink) {
  SoftmaxState state = {noneRow, zeroRow, {}};
  if (valueDim != 0)
    state.acc = b.constant(VectorType::get({b.rows, valueDim}, type), 0);
  if (!sink)
    return state;
  // exp(sink) = exp2(c * m) with m = sink * log2(e) / c, counted once. A sink
  // of -inf counts for nothing.
  Value score = arith::MulFOp::create(
      b, sink, b.constant(type, llvm::numbers::log2e / c));
  Value isNone = equals(sink, b.negativeInfinity(type));
  Value count = arith::SelectOp::create(b, isNone, b.constant(type, 0),
                                        b.constant(type, 1));
  state.rowMax = b.broadcast({score, Extent::Uniform}, Extent::PerRow);
  state.rowSum = b.broadcast({count, Extent::Uniform}, Extent::PerRow);
  return state;
}

SoftmaxState SoftmaxUpdate::update(
    const SoftmaxState &state, Value scores,
    function_ref<Value(Value probabilities, Value acc)> accumulate) {
  SoftmaxState next;
  // maxnumf passes over a NaN score; it reaches the row through the sum.
  auto rowMax = vector::MultiDimReductionOp::create(
      b, scores, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  setRole(rowMax, role::kRowMax);
  next.rowMax = rowMax;

  // A row that has seen no key has no reference to subtract: with 0 its
  // exponents are -inf, with -inf they would be NaN.
  Value reference =
      arith::SelectOp::create(b, equals(rowMax, noneRow), zeroRow, rowMax);
  Value scaledReference = arith::MulFOp::create(b, reference, cRow);
  Value negated = arith::NegFOp::create(b, scaledReference);
  Value exponents =
      math::FmaOp::create(b, scores, b.constant(scores.getType(), c),
                          b.toTile({negated, Extent::PerRow}));
  Value probabilities = math::Exp2Op::create(b, exponents);
  setRole(probabilities.getDefiningOp(), role::kProbabilities);

  // Both products are rounded as the exponents above saw them, so the
  // corrections of a row multiply to exactly its change of reference.
  Value change = arith::SubFOp::create(
      b, arith::MulFOp::create(b, state.rowMax, cRow), scaledReference);
  Value correction = math::Exp2Op::create(b, change);
  setRole(correction.getDefiningOp(), role::kCorrection);

  Value corrected = arith::MulFOp::create(b, state.rowSum, correction);
  auto rowSum = vector::MultiDimReductionOp::create(b, probabilities, corrected,
                                                    ArrayRef<bool>{false, true},
                                                    vector::CombiningKind::ADD);
  setRole(rowSum, role::kRowSum);
  next.rowSum = rowSum;

  if (state.acc) {
    int64_t width = cast<VectorType>(state.acc.getType()).getDimSize(1);
    Value acc =
        arith::MulFOp::create(b, state.acc, b.broadcastRows(correction, width));
    next.acc = accumulate(probabilities, acc);
  }
  return next;
}

Value SoftmaxUpdate::output(const SoftmaxState &state) {
  Value inverse =
      arith::DivFOp::create(b, b.constant(rowType, 1), state.rowSum);
  Value factor = arith::SelectOp::create(b, equals(state.rowSum, zeroRow),
                                         zeroRow, inverse);
  int64_t width = cast<VectorType>(state.acc.getType()).getDimSize(1);
  return arith::MulFOp::create(b, state.acc, b.broadcastRows(factor, width));
}

Value SoftmaxUpdate::logSumExp(const SoftmaxState &state) {
  Value exponent = arith::MulFOp::create(b, state.rowMax, cRow);
  Value log2 = math::Log2Op::create(b, state.rowSum);
  Value natural =
      arith::MulFOp::create(b, arith::AddFOp::create(b, exponent, log2),
                            b.constant(rowType, llvm::numbers::ln2));
  return arith::SelectOp::create(b, equals(state.rowSum, zeroRow), noneRow,
                                 natural);
}
