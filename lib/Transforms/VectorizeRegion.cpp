//===- VectorizeRegion.cpp - A scalar region on a tile --------------------===//

#include "VectorizeRegion.h"
#include "RegionRanges.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace attn;

/// Values of the region and what stands for them on a tile.
using Mapping = llvm::DenseMap<Value, TileValue>;

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

/// Indices of a read, with those of hidden pairs within the memref too; 0 where
/// a dynamic size is 0.
static SmallVector<TileValue> indicesInRange(TileBuilder &b,
                                             memref::LoadOp load, Value memref,
                                             const RegionRanges &ranges,
                                             const Mapping &mapped) {
  SmallVector<TileValue> indices;
  for (auto [dimension, index] : llvm::enumerate(load.getIndices())) {
    TileValue value = mapped.lookup(index);
    int64_t size = load.getMemRefType().getDimSize(dimension);
    bool isBelow = ranges.isBelow(index, size);
    if (!isBelow) {
      Index count = b.getIndexAttr(size);
      if (ShapedType::isDynamic(size))
        count = memref::DimOp::create(b, memref, dimension).getResult();
      Value last = b.value(b.subtract(count, b.getIndexAttr(1)));
      value = b.combine<arith::MinSIOp>(value, {last, Extent::Uniform});
    }
    if (!ranges.isNonNegative(index) || ShapedType::isDynamic(size))
      value = b.combine<arith::MaxSIOp>(
          value, {b.value(b.getIndexAttr(0)), Extent::Uniform});
    indices.push_back(value);
  }
  return indices;
}

/// The divisor, with 1 in place of 0.
static TileValue nonZeroDivisor(TileBuilder &b, Value divisor,
                                const RegionRanges &ranges,
                                const Mapping &mapped) {
  TileValue value = mapped.lookup(divisor);
  if (!ranges.of(divisor).umin().isZero())
    return value;
  Type type = divisor.getType();
  auto splat = [&](int64_t number) {
    return b.constantInt(b.typeOf(value.extent, type), number);
  };
  Value isZero =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value.value, splat(0));
  return {arith::SelectOp::create(b, isZero, splat(1), value.value),
          value.extent};
}

static bool isDivision(Operation &op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
             arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
}

bool attn::readsByPosition(Region &region, ValueRange captures) {
  Block &body = region.front();
  unsigned behind = body.getNumArguments() - captures.size();
  auto isUniform = [&](Value index) {
    auto argument = dyn_cast<BlockArgument>(index);
    return argument && argument.getArgNumber() + 2 < behind;
  };
  return llvm::any_of(body, [&](Operation &op) {
    auto load = dyn_cast<memref::LoadOp>(op);
    return isDivision(op) ||
           (load && !llvm::all_of(load.getIndices(), isUniform));
  });
}

/// The compiler may fuse a product and the sum that it goes into.
static void allowFusion(Operation *op) {
  if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
    return;
  auto inner = cast<arith::ArithFastMathInterface>(op);
  arith::FastMathFlags flags = inner.getFastMathFlagsAttr().getValue();
  op->setAttr(inner.getFastMathAttrName(),
              arith::FastMathFlagsAttr::get(
                  op->getContext(), flags | arith::FastMathFlags::contract));
}

/// Clones an elementwise op onto the extent of its operands.
static void cloneElementwise(TileBuilder &b, Operation &op,
                             const RegionRanges &ranges, Mapping &mapped) {
  assert(OpTrait::hasElementwiseMappableTraits(&op) &&
         "the verifier admits arith and math on scalars only");
  SmallVector<TileValue> values;
  for (Value operand : op.getOperands())
    values.push_back(mapped.lookup(operand));
  if (isDivision(op))
    values[1] = nonZeroDivisor(b, op.getOperand(1), ranges, mapped);
  Extent extent = Extent::Uniform;
  for (TileValue value : values)
    extent = join(extent, value.extent);
  SmallVector<Value> operands;
  for (TileValue value : values)
    operands.push_back(b.broadcast(value, extent));
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    types.push_back(b.typeOf(extent, type));
  Operation *clone = b.create(op.getLoc(), op.getName().getIdentifier(),
                              operands, types, op.getAttrs());
  allowFusion(clone);
  for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults()))
    mapped[from] = {to, extent};
}

SmallVector<TileValue> attn::vectorizeRegion(TileBuilder &b, Region &region,
                                             ArrayRef<TileValue> arguments,
                                             ArrayRef<Index> counts,
                                             ValueRange captures) {
  Block &body = region.front();
  Mapping mapped;
  for (auto [argument, value] : llvm::zip(body.getArguments(), arguments))
    mapped[argument] = value;
  for (auto [argument, capture] : llvm::zip_equal(
           body.getArguments().drop_front(arguments.size()), captures))
    mapped[argument] = {capture, Extent::Uniform};
  ValueRange positions = body.getArguments().slice(
      arguments.size() - counts.size(), counts.size());
  RegionRanges ranges(positions, counts);

  for (Operation &op : body.without_terminator()) {
    ranges.visit(op);
    auto load = dyn_cast<memref::LoadOp>(op);
    if (auto known = dyn_cast<arith::ConstantOp>(op)) {
      mapped[known] = {b.constant(known.getValue()), Extent::Uniform};
    } else if (load && llvm::is_contained(load.getMemRefType().getShape(), 0)) {
      // For hidden pairs only.
      TypedAttr zero = cast<TypedAttr>(b.getZeroAttr(load.getType()));
      mapped[load] = {b.constant(zero), Extent::Uniform};
    } else if (load) {
      Value memref = mapped.lookup(load.getMemRef()).value;
      mapped[load] =
          gather(b, memref, indicesInRange(b, load, memref, ranges, mapped));
    } else {
      cloneElementwise(b, op, ranges, mapped);
    }
  }
  return llvm::map_to_vector(
      body.getTerminator()->getOperands(),
      [&](Value yielded) { return mapped.lookup(yielded); });
}
