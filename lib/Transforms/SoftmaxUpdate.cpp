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

SoftmaxUpdate::SoftmaxUpdate(TileBuilder &b, FloatType type, Exponent exponent)
    : b(b), type(type), rowType(b.typeOf(Extent::PerRow, type)),
      exponent(exponent), c(exponent.factor * llvm::numbers::log2e),
      zeroRow(b.constant(rowType, 0)), noneRow(b.negativeInfinity(rowType)) {}

Value SoftmaxUpdate::equals(Value value, Value constant) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, constant);
}

Value SoftmaxUpdate::multiply(Value value, double factor) {
  if (factor == 1)
    return value;
  return arith::MulFOp::create(b, value, b.constant(value.getType(), factor));
}

Value SoftmaxUpdate::exponents(Value scores, const Reference &reference) {
  bool isTile = cast<VectorType>(scores.getType()).getRank() == 2;
  auto spread = [&](Value row) {
    return isTile ? b.toTile({row, Extent::PerRow}) : row;
  };
  if (exponent.mayOverflow)
    return multiply(arith::SubFOp::create(b, scores, spread(reference.value)),
                    c);
  if (isTile)
    return math::FmaOp::create(
        b, scores, b.constant(scores.getType(), c),
        spread(arith::NegFOp::create(b, reference.scaled)));
  // Rounded as the tiles of either block saw the references, so that the
  // corrections of a row multiply to exactly its change of reference.
  return arith::SubFOp::create(b, multiply(scores, c), reference.scaled);
}

SoftmaxState SoftmaxUpdate::initial(int64_t valueDim, Value sink) {
  SoftmaxState state = {noneRow, zeroRow, {}};
  if (valueDim != 0)
    state.acc = b.constant(VectorType::get({b.rows, valueDim}, type), 0);
  if (!sink)
    return state;
  // A score m with factor * m = sink, counted once. A sink of -inf counts for
  // nothing.
  Value score = multiply(sink, 1 / exponent.factor);
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
  Reference reference;
  reference.value =
      arith::SelectOp::create(b, equals(rowMax, noneRow), zeroRow, rowMax);
  if (!exponent.mayOverflow)
    reference.scaled = multiply(reference.value, c);
  Value probabilities = math::Exp2Op::create(b, exponents(scores, reference));
  setRole(probabilities.getDefiningOp(), role::kProbabilities);

  Value correction =
      math::Exp2Op::create(b, exponents(state.rowMax, reference));
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
  Value log2 = math::Log2Op::create(b, state.rowSum);
  Value natural =
      arith::AddFOp::create(b, multiply(state.rowMax, exponent.factor),
                            multiply(log2, llvm::numbers::ln2));
  return arith::SelectOp::create(b, equals(state.rowSum, zeroRow), noneRow,
                                 natural);
}
