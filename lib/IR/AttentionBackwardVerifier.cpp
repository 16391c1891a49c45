//===- AttentionBackwardVerifier.cpp - Constraints of the backward op -----===//
//
// Those of its own, C14 to C16. It shares the others with the forward op.
//
//===----------------------------------------------------------------------===//

#include "AttentionVerifier.h"

using namespace mlir;
using namespace attn;

LogicalResult AttentionBackwardOp::verifyRegions() {
  return verifyRegionsOf(*this);
}

static LogicalResult verifyShape(AttentionBackwardOp op, const Twine &name,
                                 ShapedType given, ShapedType expected) {
  if (given.getRank() == expected.getRank() &&
      llvm::all_of_zip(given.getShape(), expected.getShape(), sizesAgree))
    return success();
  return op.emitOpError("expects ")
         << name << " of " << sizesText(expected.getShape()) << ", got "
         << sizesText(given.getShape());
}

/// C14.
static LogicalResult verifyGivenGradients(AttentionBackwardOp op) {
  auto given = cast<ShapedType>(op.getOutputGradient().getType());
  if (failed(verifyShape(op, "an output gradient", given, op.getOutputType())))
    return failure();
  if (!isa<FloatType>(given.getElementType()))
    return op.emitOpError("expects a float output gradient, got ")
           << given.getElementType();
  Value gradient = op.getLseGradient();
  if (!gradient)
    return success();
  given = cast<ShapedType>(gradient.getType());
  if (failed(verifyShape(op, "an lse gradient", given, op.getLseType())))
    return failure();
  if (given.getElementType() != op.getAccumulatorType())
    return op.emitOpError("expects an lse gradient of ")
           << op.getAccumulatorType() << ", got " << given.getElementType();
  return success();
}

/// C16.
static LogicalResult verifyRequests(AttentionBackwardOp op) {
  auto missing = [&](StringRef name) {
    return op.emitOpError("expects ")
           << name << "(...) beside gradients(" << name << "); add the operand "
           << "or drop the request";
  };
  if (op.getBiasGradient() && !op.getBias())
    return missing("bias");
  if (op.getSinksGradient() && !op.getSinks())
    return missing("sinks");
  int64_t previous = -1, count = op.getCaptures().size();
  for (int64_t number : op.getCaptureGradients()) {
    if (number <= previous || number >= count)
      return op.emitOpError("expects ascending numbers of captures below ")
             << count << " in gradients(captures[...]), got " << number;
    previous = number;
    Type element =
        cast<ShapedType>(op.getCaptures()[number].getType()).getElementType();
    if (!isa<FloatType>(element))
      return op.emitOpError("expects a float capture in gradients(...), got "
                            "capture ")
             << number << " of " << element;
  }
  return success();
}

/// C15.
static LogicalResult verifyGradients(AttentionBackwardOp op) {
  SmallVector<Value> operands = op.getDifferentiated();
  TypeRange types = op->getResultTypes();
  if (op.isMemRefForm())
    types = op.getOuts().getTypes();
  if (types.size() != operands.size())
    return op.emitOpError("expects one ")
           << (op.isMemRefForm() ? "destination" : "result")
           << " a gradient (query, key, value, then those of gradients(...)) = "
           << operands.size() << ", got " << types.size();
  for (auto [number, operand] : llvm::enumerate(operands)) {
    auto type = cast<ShapedType>(types[number]);
    std::string name = ("gradient #" + Twine(number)).str();
    if (failed(
            verifyShape(op, name, type, cast<ShapedType>(operand.getType()))))
      return failure();
    Type element = type.getElementType();
    if (number < 3 ? !isa<FloatType>(element)
                   : element != op.getAccumulatorType())
      return op.emitOpError("expects ")
             << name << " of "
             << (number < 3 ? "a float type" : "the type of the accumulators")
             << ", got " << element;
  }
  return success();
}

LogicalResult AttentionBackwardOp::verify() {
  ArrayRef<int32_t> sizes = getProperties().operandSegmentSizes;
  constexpr unsigned kOutput = 11, kLse = 12, kOutputGradient = 13;
  for (unsigned group : {0u, 1u, 2u, kOutput, kLse, kOutputGradient})
    if (sizes[group] != 1)
      return emitOpError("expects one query, key, value, output, lse and "
                         "output gradient each, got operand groups of ")
             << sizes;
  return success(
      succeeded(verifyForm(*this)) && succeeded(verifyClauses(*this)) &&
      succeeded(verifyGivenGradients(*this)) &&
      succeeded(verifyRequests(*this)) && succeeded(verifyGradients(*this)));
}
