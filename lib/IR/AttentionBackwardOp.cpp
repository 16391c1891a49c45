//===- AttentionBackwardOp.cpp - attn.attention_backward ------------------===//

#include "AttentionOpInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace attn;

SmallVector<Value> AttentionBackwardOp::getDifferentiated() {
  SmallVector<Value> operands = {getQuery(), getKey(), getValue()};
  if (getBiasGradient())
    operands.push_back(getBias());
  if (getSinksGradient())
    operands.push_back(getSinks());
  for (int64_t number : getCaptureGradients())
    operands.push_back(getCaptures()[number]);
  return operands;
}

void AttentionBackwardOp::getEffects(SmallVectorImpl<MemoryEffect> &effects) {
  getAttentionEffects(*this, effects);
}

LogicalResult
AttentionBackwardOp::reifyResultShapes(OpBuilder &b,
                                       ReifiedRankedShapedTypeDims &reified) {
  if (isMemRefForm())
    return failure();
  for (Value operand : getDifferentiated())
    reified.push_back(tensor::getMixedSizes(b, getLoc(), operand));
  preferStaticSizes(getResults(), reified);
  return success();
}
