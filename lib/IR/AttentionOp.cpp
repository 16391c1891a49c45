//===- AttentionOp.cpp - attn.attention: results and interfaces -----------===//

#include "AttentionOpInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attn;

#define GET_OP_CLASSES
#include "attn/IR/AttnOps.cpp.inc"

/// Results in the tensor form, destinations in the memref form.
static ShapedType resultType(AttentionOp op, unsigned index) {
  if (op.getNumResults() > 0)
    return index < op.getNumResults()
               ? cast<ShapedType>(op.getResult(index).getType())
               : ShapedType();
  return index < op.getOuts().size()
             ? cast<ShapedType>(op.getOuts()[index].getType())
             : ShapedType();
}

ShapedType AttentionOp::getOutputType() { return resultType(*this, 0); }
ShapedType AttentionOp::getLseType() { return resultType(*this, 1); }

void AttentionOp::getEffects(SmallVectorImpl<MemoryEffect> &effects) {
  getAttentionEffects(*this, effects);
}

LogicalResult
AttentionOp::reifyResultShapes(OpBuilder &b,
                               ReifiedRankedShapedTypeDims &reified) {
  if (isMemRefForm())
    return failure();
  Location loc = getLoc();
  auto size = [&](Value operand, unsigned dimension) {
    return tensor::getMixedSize(b, loc, operand, dimension);
  };
  OpFoldResult batch = size(getQuery(), 0);
  OpFoldResult heads = size(getQuery(), headDimension(getQueryLayout()));
  OpFoldResult length = size(getQuery(), sequenceDimension(getQueryLayout()));
  OpFoldResult valueDim = size(getValue(), 3);
  if (getOutputLayout() == Layout::bhsd)
    reified.push_back({batch, heads, length, valueDim});
  else
    reified.push_back({batch, length, heads, valueDim});
  if (returnsLse())
    reified.push_back({batch, heads, length});
  preferStaticSizes(getResults(), reified);
  return success();
}
