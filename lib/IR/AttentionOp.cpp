//===- AttentionOp.cpp - attn.attention: sizes, types, interfaces ---------===//

#include "attn/IR/Attn.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace attn;

#define GET_OP_CLASSES
#include "attn/IR/AttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Sizes and types by name
//===----------------------------------------------------------------------===//

/// The static one of two sizes that must agree.
static int64_t merge(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) ? b : a;
}

static int64_t sizeOf(ShapedType type, unsigned dimension) {
  return type && type.getRank() == 4 ? type.getDimSize(dimension)
                                     : ShapedType::kDynamic;
}

/// Takes over the sizes that an operand states for the named dimensions, its
/// last ones when it broadcasts.
static void learnSizes(Type operand, ArrayRef<int64_t *> names,
                       bool broadcasts = false) {
  auto type = dyn_cast_or_null<ShapedType>(operand);
  int64_t rank = type ? type.getRank() : 0, named = names.size();
  if (rank == 0 || rank > named || (rank < named && !broadcasts))
    return;
  for (auto [size, name] :
       llvm::zip_equal(type.getShape(), names.take_back(rank)))
    if (!broadcasts || size != 1)
      *name = merge(*name, size);
}

AttentionShape AttentionOp::getShape() {
  auto query = cast<ShapedType>(getQuery().getType());
  auto key = cast<ShapedType>(getKey().getType());
  auto value = cast<ShapedType>(getValue().getType());
  ShapedType output = getOutputType();
  Layout ql = getQueryLayout(), kl = getKeyLayout(), vl = getValueLayout(),
         ol = getOutputLayout();

  AttentionShape shape;
  shape.batch = merge(merge(sizeOf(query, 0), sizeOf(key, 0)),
                      merge(sizeOf(value, 0), sizeOf(output, 0)));
  shape.queryHeads = merge(sizeOf(query, headDimension(ql)),
                           sizeOf(output, headDimension(ol)));
  shape.kvHeads =
      merge(sizeOf(key, headDimension(kl)), sizeOf(value, headDimension(vl)));
  shape.queryLength = merge(sizeOf(query, sequenceDimension(ql)),
                            sizeOf(output, sequenceDimension(ol)));
  shape.kvLength = merge(sizeOf(key, sequenceDimension(kl)),
                         sizeOf(value, sequenceDimension(vl)));
  shape.headDim = merge(sizeOf(query, 3), sizeOf(key, 3));
  shape.valueDim = merge(sizeOf(value, 3), sizeOf(output, 3));

  auto typeOf = [](Value operand) {
    return operand ? operand.getType() : Type();
  };
  int64_t *batch = &shape.batch, *heads = &shape.queryHeads,
          *queries = &shape.queryLength, *keys = &shape.kvLength;
  learnSizes(getLseType(), {batch, heads, queries});
  for (Value operand : {getBias(), getMask()})
    learnSizes(typeOf(operand), {batch, heads, queries, keys}, true);
  learnSizes(typeOf(getKvLengths()), {batch});
  learnSizes(typeOf(getQuerySegments()), {batch, queries});
  learnSizes(typeOf(getKvSegments()), {batch, keys});
  learnSizes(typeOf(getSinks()), {heads});
  return shape;
}

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

FloatType AttentionOp::getElementType() {
  return cast<FloatType>(
      cast<ShapedType>(getQuery().getType()).getElementType());
}

FloatType AttentionOp::getAccumulatorType() {
  Builder b(getContext());
  return getElementType().isF64() ? FloatType(b.getF64Type())
                                  : FloatType(b.getF32Type());
}

std::optional<int64_t> AttentionOp::getBandLeft() {
  int64_t left = getWindowLeft();
  return left < 0 ? std::nullopt : std::optional<int64_t>(left);
}

std::optional<int64_t> AttentionOp::getBandRight() {
  int64_t right = getWindowRight();
  if (getCausal())
    return 0;
  return right < 0 ? std::nullopt : std::optional<int64_t>(right);
}

std::optional<double> AttentionOp::getScaleValue() {
  if (std::optional<APFloat> scale = getScale())
    return scale->convertToDouble();
  int64_t headDim = getShape().headDim;
  if (ShapedType::isDynamic(headDim) || headDim == 0)
    return std::nullopt;
  return 1.0 / std::sqrt(static_cast<double>(headDim));
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!isMemRefForm())
    return;
  MutableOperandRange outs = getOutsMutable();
  for (OpOperand &operand : (*this)->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    bool isDestination = outs.size() != 0 &&
                         number >= outs[0].getOperandNumber() &&
                         number < outs[0].getOperandNumber() + outs.size();
    if (isDestination)
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
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
  // A size that the result type states is returned as that constant.
  for (auto [result, sizes] : llvm::zip(getResults(), reified))
    for (auto [index, staticSize] :
         llvm::enumerate(cast<ShapedType>(result.getType()).getShape()))
      if (!ShapedType::isDynamic(staticSize))
        sizes[index] = b.getIndexAttr(staticSize);
  return success();
}
