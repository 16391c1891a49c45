//===- AttentionOpInterface.cpp - What forward and backward share ---------===//

#include "AttentionOpInterface.h"
#include <cmath>

using namespace mlir;
using namespace attn;

#include "attn/IR/AttnInterfaces.cpp.inc"

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

/// The first three gradients are as large as query, key and value.
static void learnFromGradients(AttentionOpInterface op, AttentionShape &shape) {
  TypeRange types = op.isMemRefForm() ? TypeRange(op.getOuts().getTypes())
                                      : TypeRange(op->getResultTypes());
  if (types.size() < 3) // Not verified yet.
    return;
  auto learn = [&](unsigned gradient, Layout layout, int64_t *heads,
                   int64_t *length, int64_t *width) {
    SmallVector<int64_t *, 4> names = {&shape.batch, nullptr, nullptr, width};
    names[headDimension(layout)] = heads;
    names[sequenceDimension(layout)] = length;
    learnSizes(types[gradient], names);
  };
  learn(0, op.getQueryLayout(), &shape.queryHeads, &shape.queryLength,
        &shape.headDim);
  learn(1, op.getKeyLayout(), &shape.kvHeads, &shape.kvLength, &shape.headDim);
  learn(2, op.getValueLayout(), &shape.kvHeads, &shape.kvLength,
        &shape.valueDim);
}

AttentionShape attn::detail::getShape(AttentionOpInterface op) {
  auto query = cast<ShapedType>(op.getQuery().getType());
  auto key = cast<ShapedType>(op.getKey().getType());
  auto value = cast<ShapedType>(op.getValue().getType());
  ShapedType output = op.getOutputType();
  Layout ql = op.getQueryLayout(), kl = op.getKeyLayout(),
         vl = op.getValueLayout(), ol = op.getOutputLayout();

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
  learnSizes(op.getLseType(), {batch, heads, queries});
  for (Value operand : {op.getBias(), op.getMask()})
    learnSizes(typeOf(operand), {batch, heads, queries, keys}, true);
  learnSizes(typeOf(op.getKvLengths()), {batch});
  learnSizes(typeOf(op.getQuerySegments()), {batch, queries});
  learnSizes(typeOf(op.getKvSegments()), {batch, keys});
  learnSizes(typeOf(op.getSinks()), {heads});
  if (isa<AttentionBackwardOp>(op.getOperation()))
    learnFromGradients(op, shape);
  return shape;
}

FloatType attn::detail::getAccumulatorType(AttentionOpInterface op) {
  Builder b(op.getContext());
  return op.getElementType().isF64() ? FloatType(b.getF64Type())
                                     : FloatType(b.getF32Type());
}

std::optional<int64_t> attn::detail::getBandLeft(AttentionOpInterface op) {
  int64_t left = op.getWindowLeft();
  return left < 0 ? std::nullopt : std::optional<int64_t>(left);
}

std::optional<int64_t> attn::detail::getBandRight(AttentionOpInterface op) {
  int64_t right = op.getWindowRight();
  if (op.getCausal())
    return 0;
  return right < 0 ? std::nullopt : std::optional<int64_t>(right);
}

std::optional<double> attn::detail::getScaleValue(AttentionOpInterface op) {
  if (std::optional<APFloat> scale = op.getScale())
    return scale->convertToDouble();
  int64_t headDim = op.getShape().headDim;
  if (ShapedType::isDynamic(headDim) || headDim == 0)
    return std::nullopt;
  return 1.0 / std::sqrt(static_cast<double>(headDim));
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

void attn::getAttentionEffects(AttentionOpInterface op,
                               SmallVectorImpl<MemoryEffect> &effects) {
  if (!op.isMemRefForm())
    return;
  MutableOperandRange outs = op.getOutsMutable();
  for (OpOperand &operand : op->getOpOperands()) {
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

void attn::preferStaticSizes(ResultRange results,
                             ReifiedRankedShapedTypeDims &reified) {
  for (auto [result, sizes] : llvm::zip(results, reified))
    for (auto [index, size] :
         llvm::enumerate(cast<ShapedType>(result.getType()).getShape()))
      if (!ShapedType::isDynamic(size))
        sizes[index] =
            IntegerAttr::get(IndexType::get(result.getContext()), size);
}
