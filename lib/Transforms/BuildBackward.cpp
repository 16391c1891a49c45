//===- BuildBackward.cpp - The backward op of a forward op ----------------===//

#include "DifferentiateRegion.h"
#include "attn/Transforms/Differentiate.h"

using namespace mlir;
using namespace attn;

AttentionOp attn::withLse(RewriterBase &rewriter, AttentionOp forward) {
  if (forward.returnsLse() || forward.isMemRefForm())
    return forward;
  auto output = cast<RankedTensorType>(forward.getOutputType());
  AttentionShape shape = forward.getShape();
  auto lse =
      RankedTensorType::get({shape.batch, shape.queryHeads, shape.queryLength},
                            forward.getAccumulatorType());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(forward);
  OperationState state(forward.getLoc(), forward->getName());
  // A destination for the output alone would be one for half the results.
  SmallVector<Value> operands(forward->getOperands());
  operands.truncate(operands.size() - forward.getOuts().size());
  state.addOperands(operands);
  state.addTypes({output, lse});
  state.addAttributes(forward->getDiscardableAttrDictionary().getValue());
  auto &properties = state.getOrAddProperties<AttentionOp::Properties>();
  properties = forward.getProperties();
  properties.operandSegmentSizes.back() = 0;
  state.addRegion()->takeBody(forward.getScoreMod());
  state.addRegion()->takeBody(forward.getMaskMod());
  auto replacement = cast<AttentionOp>(rewriter.create(state));
  rewriter.replaceAllUsesWith(forward.getResult(0), replacement.getResult(0));
  rewriter.eraseOp(forward);
  return replacement;
}

/// The clauses that both ops have.
static void copyClauses(AttentionOp from, AttentionBackwardOp::Properties &to) {
  const AttentionOp::Properties &p = from.getProperties();
  to.scale = p.scale;
  to.softcap = p.softcap;
  to.causal = p.causal;
  to.alignment = p.alignment;
  to.window_left = p.window_left;
  to.window_right = p.window_right;
  to.query_layout = p.query_layout;
  to.key_layout = p.key_layout;
  to.value_layout = p.value_layout;
  to.output_layout = p.output_layout;
  to.target = p.target;
}

FailureOr<AttentionBackwardOp> attn::buildAttentionBackward(
    OpBuilder &builder, AttentionOp forward, const BackwardOperands &given,
    const GradientRequests &requests, const IRMapping &mapping) {
  if (forward.isMemRefForm())
    return forward.emitOpError("expects the tensor form to differentiate, got "
                               "memrefs; differentiate before bufferization");
  if (forward.hasScoreMod() &&
      failed(differentiateScoreMod(forward, requests.captures)))
    return failure();

  OperationState state(forward.getLoc(),
                       AttentionBackwardOp::getOperationName());
  unsigned inputs = forward->getNumOperands() - forward.getOuts().size();
  for (Value operand : forward->getOperands().take_front(inputs))
    state.addOperands(mapping.lookupOrDefault(operand));
  state.addOperands({given.output, given.lse, given.outputGradient});
  if (given.lseGradient)
    state.addOperands(given.lseGradient);

  auto &properties =
      state.getOrAddProperties<AttentionBackwardOp::Properties>();
  copyClauses(forward, properties);
  // The groups of the forward without its destinations, then its own.
  ArrayRef<int32_t> groups =
      ArrayRef(forward.getProperties().operandSegmentSizes).drop_back();
  int32_t *next = llvm::copy(groups, properties.operandSegmentSizes.begin());
  for (int32_t size : {1, 1, 1, given.lseGradient ? 1 : 0, 0})
    *next++ = size;
  UnitAttr unit = builder.getUnitAttr();
  if (requests.bias)
    properties.bias_gradient = unit;
  if (requests.sinks)
    properties.sinks_gradient = unit;
  if (requests.deterministic)
    properties.deterministic = unit;
  properties.capture_gradients =
      builder.getDenseI64ArrayAttr(requests.captures);

  auto addResult = [&](Value operand, bool isSum) {
    auto type = cast<RankedTensorType>(operand.getType());
    state.addTypes(isSum ? type.clone(forward.getAccumulatorType()) : type);
  };
  for (Value operand :
       {forward.getQuery(), forward.getKey(), forward.getValue()})
    addResult(operand, /*isSum=*/false);
  if (requests.bias)
    addResult(forward.getBias(), /*isSum=*/true);
  if (requests.sinks)
    addResult(forward.getSinks(), /*isSum=*/true);
  for (int64_t number : requests.captures)
    addResult(forward.getCaptures()[number], /*isSum=*/true);

  IRMapping copies;
  forward.getScoreMod().cloneInto(state.addRegion(), copies);
  forward.getMaskMod().cloneInto(state.addRegion(), copies);
  return cast<AttentionBackwardOp>(builder.create(state));
}
