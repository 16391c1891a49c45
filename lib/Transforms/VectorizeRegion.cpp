//===- VectorizeRegion.cpp - A scalar region on a tile --------------------===//

#include "VectorizeRegion.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;

/// The memref as one row from its first element on, and the position in it
/// of the element at `indices`.
static std::pair<Value, TileValue> flatten(TileBuilder &b, Value memref,
                                           ArrayRef<TileValue> indices) {
  auto metadata = memref::ExtractStridedMetadataOp::create(b, memref);
  SmallVector<Index> sizes = metadata.getConstifiedMixedSizes();
  SmallVector<Index> strides = metadata.getConstifiedMixedStrides();
  Index span = b.getIndexAttr(1);
  TileValue position;
  for (auto [index, size, stride] : llvm::zip(indices, sizes, strides)) {
    Index last = b.subtract(size, b.getIndexAttr(1));
    span = b.add(span, b.multiply(last, stride));
    TileValue term =
        b.combine<arith::MulIOp>(index, {b.value(stride), Extent::Uniform});
    position = position ? b.combine<arith::AddIOp>(position, term) : term;
  }
  Index one = b.getIndexAttr(1);
  Value row = memref::ReinterpretCastOp::create(
      b, metadata.getBaseBuffer(), metadata.getConstifiedMixedOffset(),
      ArrayRef<Index>{span}, ArrayRef<Index>{one});
  return {row, position};
}

static TileValue gather(TileBuilder &b, Value memref,
                        ArrayRef<TileValue> indices) {
  auto type = cast<MemRefType>(memref.getType());
  Extent extent = Extent::Uniform, leading = Extent::Uniform;
  for (auto [dimension, index] : llvm::enumerate(indices)) {
    extent = join(extent, index.extent);
    if (dimension + 1 < indices.size())
      leading = join(leading, index.extent);
  }
  SmallVector<Value> offsets;
  for (TileValue index : indices)
    offsets.push_back(index.value);
  if (extent == Extent::Uniform)
    return {memref::LoadOp::create(b, memref, offsets), extent};

  TileValue position;
  if (leading == Extent::Uniform) {
    position = indices.back();
  } else {
    std::tie(memref, position) = flatten(b, memref, indices);
    offsets.resize(1);
  }
  offsets.back() = b.value(b.getIndexAttr(0));
  Type element = type.getElementType();
  Value all = b.constantInt(b.typeOf(extent, b.getI1Type()), 1);
  auto vectorType = cast<VectorType>(b.typeOf(extent, element));
  Value none = b.constant(cast<TypedAttr>(b.getZeroAttr(vectorType)));
  return {vector::GatherOp::create(b, vectorType, memref, offsets,
                                   b.broadcast(position, extent), all, none),
          extent};
}

/// Clones an elementwise op onto the extent of its operands.
static void cloneElementwise(TileBuilder &b, Operation &op,
                             DenseMap<Value, TileValue> &mapped) {
  assert(OpTrait::hasElementwiseMappableTraits(&op) &&
         "the verifier admits arith and math on scalars only");
  Extent extent = Extent::Uniform;
  for (Value operand : op.getOperands())
    extent = join(extent, mapped.lookup(operand).extent);
  SmallVector<Value> operands;
  for (Value operand : op.getOperands())
    operands.push_back(b.broadcast(mapped.lookup(operand), extent));
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    types.push_back(b.typeOf(extent, type));
  Operation *clone = b.create(op.getLoc(), op.getName().getIdentifier(),
                              operands, types, op.getAttrs());
  for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults()))
    mapped[from] = {to, extent};
}

TileValue attn::vectorizeRegion(TileBuilder &b, Region &region,
                                ArrayRef<TileValue> arguments,
                                ValueRange captures) {
  Block &body = region.front();
  DenseMap<Value, TileValue> mapped;
  for (auto [argument, value] : llvm::zip(body.getArguments(), arguments))
    mapped[argument] = value;
  for (auto [argument, capture] : llvm::zip_equal(
           body.getArguments().drop_front(arguments.size()), captures))
    mapped[argument] = {capture, Extent::Uniform};

  for (Operation &op : body.without_terminator()) {
    auto load = dyn_cast<memref::LoadOp>(op);
    if (auto known = dyn_cast<arith::ConstantOp>(op)) {
      mapped[known] = {b.constant(known.getValue()), Extent::Uniform};
    } else if (load) {
      SmallVector<TileValue> indices;
      for (Value index : load.getIndices())
        indices.push_back(mapped.lookup(index));
      mapped[load] = gather(b, mapped.lookup(load.getMemRef()).value, indices);
    } else {
      cloneElementwise(b, op, mapped);
    }
  }
  return mapped.lookup(body.getTerminator()->getOperand(0));
}
