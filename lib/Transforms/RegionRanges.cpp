//===- RegionRanges.cpp - What integers of a region can be ----------------===//

#include "RegionRanges.h"

using namespace mlir;
using namespace attn;

static APInt indexOf(int64_t value) {
  return APInt(IndexType::kInternalStorageBitWidth, value, /*isSigned=*/true);
}

RegionRanges::RegionRanges(ValueRange positions, ArrayRef<Index> counts) {
  for (auto [position, count] : llvm::zip_equal(positions, counts)) {
    // Without any there is no pair to run on.
    int64_t most = std::numeric_limits<int64_t>::max();
    if (std::optional<int64_t> size = getConstantIntValue(count))
      most = std::max<int64_t>(*size - 1, 0);
    known.try_emplace(position,
                      ConstantIntRanges::fromSigned(indexOf(0), indexOf(most)));
  }
}

void RegionRanges::visit(Operation &op) {
  auto isInteger = [](Type type) { return type.isIntOrIndex(); };
  auto infer = dyn_cast<InferIntRangeInterface>(op);
  if (!infer || !llvm::all_of(op.getOperandTypes(), isInteger) ||
      !llvm::all_of(op.getResultTypes(), isInteger))
    return;
  SmallVector<ConstantIntRanges> operands;
  for (Value operand : op.getOperands())
    operands.push_back(of(operand));
  infer.inferResultRanges(operands,
                          [&](Value result, const ConstantIntRanges &range) {
                            known.try_emplace(result, range);
                          });
}

ConstantIntRanges RegionRanges::of(Value value) const {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  return ConstantIntRanges::maxRange(
      ConstantIntRanges::getStorageBitwidth(value.getType()));
}

bool RegionRanges::isNonNegative(Value value) const {
  return of(value).smin().isNonNegative();
}

bool RegionRanges::isBelow(Value value, int64_t size) const {
  return !ShapedType::isDynamic(size) && of(value).smax().slt(size);
}
