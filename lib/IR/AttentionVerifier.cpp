//===- AttentionVerifier.cpp - The constraints of both attention ops ------===//
//
// Checks the numbered constraints of the op's documentation, each in a function
// named after what it checks and tagged with its number. Every message says
// what was expected, what was given and, where it is not plain, how to mend it.
//
//===----------------------------------------------------------------------===//

#include "AttentionVerifier.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace attn;

std::string attn::sizesText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      shape, os,
      [&](int64_t size) {
        if (ShapedType::isDynamic(size))
          os << '?';
        else
          os << size;
      },
      "x");
  return text.empty() ? "scalar" : text;
}

bool attn::sizesAgree(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || a == b;
}

namespace {
struct AttentionVerifier {
  AttentionOpInterface op;
  AttentionShape shape;

  LogicalResult verify();
  LogicalResult verifyOneForm();
  LogicalResult verifyElementTypes();
  LogicalResult verifySizes();
  LogicalResult verifyHeadRatio();
  LogicalResult verifyNumbers();
  LogicalResult verifyBroadcasts();
  LogicalResult verifyVectors();
  LogicalResult verifyStrides();

  LogicalResult verifySize(StringRef operand, StringRef dimension,
                           int64_t given, int64_t expected);
  LogicalResult verifyVector(StringRef name, Value vector,
                             ArrayRef<int64_t> expected, StringRef meaning);
  LogicalResult verifyBroadcast(StringRef name, Value operand);
};
} // namespace

/// C13: all tensors or all memrefs; a destination is what its result will be.
LogicalResult AttentionVerifier::verifyOneForm() {
  bool memrefs = op.isMemRefForm();
  for (Value operand : op->getOperands())
    if (isa<MemRefType>(operand.getType()) != memrefs)
      return op.emitOpError("expects all operands to be tensors or all to be "
                            "memrefs, got query ")
             << op.getQuery().getType() << " beside " << operand.getType();
  if (memrefs) {
    if (op->getNumResults() != 0)
      return op.emitOpError("on memrefs has no results; name the destinations "
                            "in outs(...)");
    return success();
  }
  if (!op.getOuts().empty() && op.getOuts().size() != op->getNumResults())
    return op.emitOpError("expects one destination per result in outs(...), "
                          "got ")
           << op.getOuts().size() << " for " << op->getNumResults()
           << " results";
  for (auto [destination, result] : llvm::zip(op.getOuts(), op->getResults()))
    if (destination.getType() != result.getType())
      return op.emitOpError("expects a destination of the result's type ")
             << result.getType() << ", got " << destination.getType();
  return success();
}

/// C3.
LogicalResult AttentionVerifier::verifyElementTypes() {
  Type element = cast<ShapedType>(op.getQuery().getType()).getElementType();
  if (!element.isF16() && !element.isBF16() && !element.isF32() &&
      !element.isF64())
    return op.emitOpError("expects a query of f16, bf16, f32 or f64, got ")
           << element;
  for (auto [name, operand] : {std::pair<StringRef, Value>{"key", op.getKey()},
                               {"value", op.getValue()}}) {
    Type given = cast<ShapedType>(operand.getType()).getElementType();
    if (given != element)
      return op.emitOpError("expects the element type of ")
             << name << " to be the query's " << element << ", got " << given
             << "; cast it first";
  }
  if (!isa<FloatType>(op.getOutputType().getElementType()))
    return op.emitOpError("expects a float output, got ")
           << op.getOutputType().getElementType();
  Type accumulator = op.getAccumulatorType();
  if (ShapedType lse = op.getLseType())
    if (lse.getElementType() != accumulator)
      return op.emitOpError("expects an lse of ")
             << accumulator << ", got " << lse.getElementType();
  return success();
}

LogicalResult AttentionVerifier::verifySize(StringRef operand,
                                            StringRef dimension, int64_t given,
                                            int64_t expected) {
  if (sizesAgree(given, expected))
    return success();
  return op.emitOpError("expects ") << operand << " to have " << dimension
                                    << " " << expected << ", got " << given;
}

/// C1.
LogicalResult AttentionVerifier::verifySizes() {
  struct Operand {
    StringRef name;
    ShapedType type;
    Layout layout;
    bool isKeyValue;
  };
  auto shaped = [](Value value) { return cast<ShapedType>(value.getType()); };
  Operand operands[] = {
      {"query", shaped(op.getQuery()), op.getQueryLayout(), false},
      {"key", shaped(op.getKey()), op.getKeyLayout(), true},
      {"value", shaped(op.getValue()), op.getValueLayout(), true},
      {"output", op.getOutputType(), op.getOutputLayout(), false}};
  for (const Operand &o : operands)
    if (o.type.getRank() != 4)
      return op.emitOpError("expects ")
             << o.name << " of rank 4, "
             << (o.layout == Layout::bhsd
                     ? "[batch, heads, sequence, head dimension]"
                     : "[batch, sequence, heads, head dimension]")
             << ", got rank " << o.type.getRank() << " (" << o.type << ")";
  shape = op.getShape();
  for (const Operand &o : operands) {
    int64_t heads = o.isKeyValue ? shape.kvHeads : shape.queryHeads;
    int64_t length = o.isKeyValue ? shape.kvLength : shape.queryLength;
    bool isScored = o.name == "query" || o.name == "key";
    if (failed(verifySize(o.name, "batch size", o.type.getDimSize(0),
                          shape.batch)) ||
        failed(verifySize(o.name, "head count",
                          o.type.getDimSize(headDimension(o.layout)), heads)) ||
        failed(verifySize(o.name, "sequence length",
                          o.type.getDimSize(sequenceDimension(o.layout)),
                          length)) ||
        failed(verifySize(o.name, "head dimension", o.type.getDimSize(3),
                          isScored ? shape.headDim : shape.valueDim)))
      return failure();
  }
  if (ShapedType lse = op.getLseType()) {
    int64_t expected[] = {shape.batch, shape.queryHeads, shape.queryLength};
    if (lse.getRank() != 3 ||
        !llvm::all_of(llvm::zip(lse.getShape(), expected), [](auto pair) {
          return sizesAgree(std::get<0>(pair), std::get<1>(pair));
        }))
      return op.emitOpError("expects an lse of [batch, query heads, query "
                            "length] = ")
             << sizesText(expected) << ", got " << sizesText(lse.getShape());
  }
  return success();
}

/// C2.
LogicalResult AttentionVerifier::verifyHeadRatio() {
  if (ShapedType::isDynamic(shape.queryHeads) ||
      ShapedType::isDynamic(shape.kvHeads))
    return success();
  bool whole = shape.kvHeads == 0 ? shape.queryHeads == 0
                                  : shape.queryHeads % shape.kvHeads == 0;
  if (!whole)
    return op.emitOpError("expects the query heads to be a whole multiple of "
                          "the key/value heads, got ")
           << shape.queryHeads << " and " << shape.kvHeads;
  return success();
}

/// C4, C5, C6.
LogicalResult AttentionVerifier::verifyNumbers() {
  if (std::optional<APFloat> scale = op.getScale())
    if (!scale->isFinite())
      return op.emitOpError("expects a finite scale, got ")
             << scale->convertToDouble();
  if (std::optional<APFloat> softcap = op.getSoftcap())
    if (!softcap->isFinite() || softcap->isNegative() || softcap->isZero())
      return op.emitOpError("expects a positive finite softcap, got ")
             << softcap->convertToDouble() << "; leave it out for no cap";
  for (auto [name, bound] :
       {std::pair<StringRef, int64_t>{"left", op.getWindowLeft()},
        {"right", op.getWindowRight()}})
    if (bound < -1)
      return op.emitOpError("expects a ")
             << name << " window bound of 0 or more, or -1 for unbounded, got "
             << bound;
  if (op.getQueryOffset() && op.getAlignment() == Alignment::bottom_right)
    return op.emitOpError("takes the diagonal from query_offset or from "
                          "bottom_right, not from both; drop one");
  return success();
}

LogicalResult AttentionVerifier::verifyBroadcast(StringRef name,
                                                 Value operand) {
  if (!operand)
    return success();
  auto type = cast<ShapedType>(operand.getType());
  int64_t full[] = {shape.batch, shape.queryHeads, shape.queryLength,
                    shape.kvLength};
  ArrayRef<int64_t> tail =
      ArrayRef(full).take_back(std::min<int64_t>(type.getRank(), 4));
  bool fits = type.getRank() <= 4;
  if (fits)
    for (auto [given, size] : llvm::zip(type.getShape(), tail))
      fits &= given == 1 || sizesAgree(given, size);
  if (!fits)
    return op.emitOpError("expects ")
           << name << " to broadcast to [batch, query heads, query length, "
           << "key length] = " << sizesText(full) << ", got "
           << sizesText(type.getShape());
  return success();
}

/// C7.
LogicalResult AttentionVerifier::verifyBroadcasts() {
  if (failed(verifyBroadcast("bias", op.getBias())) ||
      failed(verifyBroadcast("mask", op.getMask())))
    return failure();
  auto elementOf = [](Value v) {
    return cast<ShapedType>(v.getType()).getElementType();
  };
  if (Value bias = op.getBias(); bias && !isa<FloatType>(elementOf(bias)))
    return op.emitOpError("expects a float bias, got ")
           << elementOf(bias) << "; a boolean belongs in mask(...)";
  if (Value mask = op.getMask(); mask && !elementOf(mask).isInteger(1))
    return op.emitOpError("expects a mask of i1 (true is visible), got ")
           << elementOf(mask) << "; added numbers belong in bias(...)";
  return success();
}

LogicalResult AttentionVerifier::verifyVector(StringRef name, Value vector,
                                              ArrayRef<int64_t> expected,
                                              StringRef meaning) {
  if (!vector)
    return success();
  auto type = cast<ShapedType>(vector.getType());
  bool fits = type.getRank() == static_cast<int64_t>(expected.size());
  if (fits)
    for (auto [given, size] : llvm::zip(type.getShape(), expected))
      fits &= sizesAgree(given, size);
  if (!fits)
    return op.emitOpError("expects ")
           << name << " of " << meaning << " = " << sizesText(expected)
           << ", got " << sizesText(type.getShape());
  Type element = type.getElementType();
  bool isSink = name == "sinks";
  if (isSink && element != op.getAccumulatorType())
    return op.emitOpError("expects sinks of ")
           << op.getAccumulatorType() << ", got " << element;
  if (!isSink && !element.isInteger(32) && !element.isInteger(64))
    return op.emitOpError("expects ")
           << name << " of i32 or i64, got " << element;
  return success();
}

/// C8, C9, C11 and the offset of C6.
LogicalResult AttentionVerifier::verifyVectors() {
  if (bool(op.getQuerySegments()) != bool(op.getKvSegments()))
    return op.emitOpError("expects query and key/value segments together, got "
                          "only ")
           << (op.getQuerySegments() ? "query" : "key/value") << " segments";
  int64_t batch = shape.batch;
  if (Value offset = op.getQueryOffset()) {
    auto type = cast<ShapedType>(offset.getType());
    if (type.getRank() == 1 && type.getDimSize(0) == 1)
      batch = 1;
  }
  return success(succeeded(verifyVector("query_offset", op.getQueryOffset(),
                                        {batch}, "[batch] or [1]")) &&
                 succeeded(verifyVector("kv_lengths", op.getKvLengths(),
                                        {shape.batch}, "[batch]")) &&
                 succeeded(verifyVector("query segments", op.getQuerySegments(),
                                        {shape.batch, shape.queryLength},
                                        "[batch, query length]")) &&
                 succeeded(verifyVector(
                     "key/value segments", op.getKvSegments(),
                     {shape.batch, shape.kvLength}, "[batch, key length]")) &&
                 succeeded(verifyVector("sinks", op.getSinks(),
                                        {shape.queryHeads}, "[query heads]")));
}

/// C13: the innermost stride is one.
LogicalResult AttentionVerifier::verifyStrides() {
  if (!op.isMemRefForm())
    return success();
  for (Value operand : op->getOperands()) {
    auto type = cast<MemRefType>(operand.getType());
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(type.getStridesAndOffset(strides, offset)))
      return op.emitOpError("expects memrefs with a strided layout, got ")
             << type;
    if (!strides.empty() && strides.back() != 1)
      return op.emitOpError("expects a unit innermost stride, got ")
             << type << "; copy the operand or transpose its layout";
  }
  return success();
}

LogicalResult AttentionVerifier::verify() {
  return success(succeeded(verifyElementTypes()) && succeeded(verifySizes()) &&
                 succeeded(verifyHeadRatio()) && succeeded(verifyNumbers()) &&
                 succeeded(verifyBroadcasts()) && succeeded(verifyVectors()) &&
                 succeeded(verifyStrides()));
}

LogicalResult attn::verifyForm(AttentionOpInterface op) {
  return AttentionVerifier{op, {}}.verifyOneForm();
}

LogicalResult attn::verifyClauses(AttentionOpInterface op) {
  return AttentionVerifier{op, {}}.verify();
}

/// C13: the output, or the output and the lse.
static LogicalResult verifyResults(AttentionOp op) {
  if (op.isMemRefForm()) {
    if (op.getOuts().empty() || op.getOuts().size() > 2)
      return op.emitOpError("on memrefs expects one destination (output) or "
                            "two (output, lse) in outs(...), got ")
             << op.getOuts().size();
    return success();
  }
  if (op.getNumResults() < 1 || op.getNumResults() > 2)
    return op.emitOpError("expects one result (output) or two (output, lse), "
                          "got ")
           << op.getNumResults();
  return success();
}

LogicalResult AttentionOp::verify() {
  // The generic form states any sizes, and only those of optional operands have
  // been checked: three queries and no key would pass till here.
  ArrayRef<int32_t> sizes = getProperties().operandSegmentSizes;
  if (sizes[0] != 1 || sizes[1] != 1 || sizes[2] != 1)
    return emitOpError("expects one query, one key and one value, got ")
           << sizes[0] << ", " << sizes[1] << " and " << sizes[2];
  return success(succeeded(verifyForm(*this)) &&
                 succeeded(verifyResults(*this)) &&
                 succeeded(verifyClauses(*this)));
}

/// C12, for one region: its arguments, its yield, its body.
static LogicalResult verifyRegion(AttentionOpInterface op, Region &region,
                                  StringRef name, bool isScore) {
  if (region.empty())
    return success();
  SmallVector<Type> expected;
  Builder b(op.getContext());
  if (isScore)
    expected.push_back(op.getAccumulatorType());
  expected.append(kMaskModArguments, b.getIndexType());
  llvm::append_range(expected, op.getCaptures().getTypes());
  if (region.front().getArgumentTypes() != TypeRange(expected))
    return op.emitOpError("expects ")
           << name << " to take (" << expected << "), got ("
           << region.front().getArgumentTypes() << ")";

  Type yielded = isScore ? Type(op.getAccumulatorType()) : b.getI1Type();
  auto yield = dyn_cast<YieldOp>(region.front().getTerminator());
  if (!yield || yield->getOperandTypes() != TypeRange(yielded))
    return op.emitOpError("expects ")
           << name << " to end in attn.yield of one " << yielded;

  // What is read is a capture: the region is isolated, and no op that it may
  // hold makes a tensor or a memref.
  for (Operation &inner : region.front().without_terminator()) {
    bool isRead = isa<tensor::ExtractOp, memref::LoadOp>(inner);
    bool isScalarMath = isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
                            inner.getDialect()) &&
                        llvm::all_of(inner.getResultTypes(), [](Type t) {
                          return t.isIntOrIndexOrFloat();
                        });
    if (!isRead && !isScalarMath)
      return inner.emitOpError("is not allowed in ")
             << name << "; expected scalar arith and math ops and reads of "
             << "captures";
  }
  return success();
}

/// C12.
LogicalResult attn::verifyRegionsOf(AttentionOpInterface op) {
  for (Value capture : op.getCaptures()) {
    Type element = cast<ShapedType>(capture.getType()).getElementType();
    if (!element.isIntOrIndexOrFloat())
      return op.emitOpError(
                 "expects captures of integers, indices or floats, got ")
             << element;
  }
  return success(
      succeeded(verifyRegion(op, op.getScoreMod(), "score_mod", true)) &&
      succeeded(verifyRegion(op, op.getMaskMod(), "mask_mod", false)));
}

LogicalResult AttentionOp::verifyRegions() { return verifyRegionsOf(*this); }
