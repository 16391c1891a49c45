//===- TileTask.cpp - One query block of one head -------------------------===//

#include "TileTask.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

AttentionSizes attn::getSizes(TileBuilder &b, AttentionOpInterface op) {
  AttentionShape shape = op.getShape();
  auto size = [&](int64_t known, Value operand, unsigned dimension) -> Index {
    if (!ShapedType::isDynamic(known))
      return b.getIndexAttr(known);
    return memref::DimOp::create(b, operand, b.value(b.getIndexAttr(dimension)))
        .getResult();
  };
  Layout query = op.getQueryLayout(), key = op.getKeyLayout();
  AttentionSizes sizes;
  sizes.batch = size(shape.batch, op.getQuery(), 0);
  sizes.queryHeads =
      size(shape.queryHeads, op.getQuery(), headDimension(query));
  sizes.kvHeads = size(shape.kvHeads, op.getKey(), headDimension(key));
  sizes.queryLength =
      size(shape.queryLength, op.getQuery(), sequenceDimension(query));
  sizes.kvLength = size(shape.kvLength, op.getKey(), sequenceDimension(key));
  sizes.headDim = shape.headDim;
  sizes.valueDim = shape.valueDim;
  return sizes;
}

//===----------------------------------------------------------------------===//
// Places in the operands
//===----------------------------------------------------------------------===//

Value attn::subview(TileBuilder &b, Value memref, ArrayRef<Index> offsets,
                    ArrayRef<Index> sizes, ArrayRef<bool> kept) {
  SmallVector<Index> strides(offsets.size(), b.getIndexAttr(1));
  auto source = cast<MemRefType>(memref.getType());
  auto full = cast<MemRefType>(
      memref::SubViewOp::inferResultType(source, offsets, sizes, strides));
  // The kept dimensions are named here: which of several unit dimensions is
  // dropped cannot be told from the shapes alone.
  auto [fullStrides, offset] = full.getStridesAndOffset();
  SmallVector<int64_t> shape, keptStrides;
  for (auto [index, keep] : llvm::enumerate(kept)) {
    if (!keep)
      continue;
    shape.push_back(full.getDimSize(index));
    keptStrides.push_back(fullStrides[index]);
  }
  auto type = MemRefType::get(
      shape, source.getElementType(),
      StridedLayoutAttr::get(b.getContext(), offset, keptStrides),
      source.getMemorySpace());
  return memref::SubViewOp::create(b, type, memref, offsets, sizes, strides);
}

Value attn::headView(TileBuilder &b, Value operand, Layout layout, Value batch,
                     Index head, Index firstRow, Index rows, int64_t width) {
  Index zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  SmallVector<Index> offsets = {batch, zero, zero, zero};
  SmallVector<Index> sizes = {one, one, one, b.getIndexAttr(width)};
  SmallVector<bool> kept = {false, false, false, true};
  unsigned sequence = sequenceDimension(layout);
  offsets[headDimension(layout)] = head;
  offsets[sequence] = firstRow;
  sizes[sequence] = rows;
  kept[sequence] = true;
  return subview(b, operand, offsets, sizes, kept);
}

Value attn::read(TileBuilder &b, VectorType type, Value view,
                 ValueRange indices, Value pad, ArrayRef<bool> inBounds,
                 Value mask) {
  AffineMap identity =
      b.getMultiDimIdentityMap(cast<MemRefType>(view.getType()).getRank());
  return vector::TransferReadOp::create(b, type, view, indices,
                                        AffineMapAttr::get(identity), pad, mask,
                                        b.getBoolArrayAttr(inBounds));
}

Value attn::loadElement(TileBuilder &b, Value operand, Index position) {
  return memref::LoadOp::create(b, operand, ValueRange{b.value(position)});
}

BroadcastOperand::BroadcastOperand(TileBuilder &b, const Task &task,
                                   Value operand) {
  Index one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  Index places[] = {task.batch, task.head, zero, zero};
  Index lengths[] = {one, one, task.sizes.queryLength, task.sizes.kvLength};
  Extent extents[] = {Extent::Uniform, Extent::Uniform, Extent::PerRow,
                      Extent::PerColumn};
  auto type = cast<MemRefType>(operand.getType());
  unsigned absent = 4 - type.getRank();
  SmallVector<Index> offsets, sizes;
  SmallVector<bool> kept;
  for (int64_t dimension = 0; dimension < type.getRank(); ++dimension) {
    unsigned place = absent + dimension;
    bool isBroadcast = type.getDimSize(dimension) == 1;
    offsets.push_back(isBroadcast ? zero : places[place]);
    sizes.push_back(isBroadcast ? one : lengths[place]);
    kept.push_back(!isBroadcast && place >= 2);
    if (kept.back())
      extent = join(extent, extents[place]);
  }
  view = subview(b, operand, offsets, sizes, kept);
}

void BroadcastOperand::locate(TileBuilder &b, const Task &task, Value firstKey,
                              SmallVectorImpl<Value> &indices,
                              SmallVectorImpl<bool> &inBounds) {
  if (varies(extent, Extent::PerRow)) {
    indices.push_back(task.firstRow);
    inBounds.push_back(task.rowsAligned);
  }
  if (varies(extent, Extent::PerColumn)) {
    indices.push_back(b.value(b.add(task.keys.first, firstKey)));
    inBounds.push_back(task.keys.isAligned);
  }
}

TileValue BroadcastOperand::read(TileBuilder &b, const Task &task,
                                 Value firstKey) {
  if (extent == Extent::Uniform)
    return {memref::LoadOp::create(b, view, ValueRange()), extent};
  Type element = cast<MemRefType>(view.getType()).getElementType();
  SmallVector<Value> indices;
  SmallVector<bool> inBounds;
  locate(b, task, firstKey, indices, inBounds);
  // Zero adds nothing to a score, and is "hidden" in a mask.
  Value pad = b.constant(cast<TypedAttr>(b.getZeroAttr(element)));
  auto type = cast<VectorType>(b.typeOf(extent, element));
  return {attn::read(b, type, view, indices, pad, inBounds), extent};
}

Operation *BroadcastOperand::write(TileBuilder &b, const Task &task,
                                   Value firstKey, TileValue value) {
  if (extent == Extent::Uniform)
    return memref::StoreOp::create(b, value.value, view, ValueRange());
  SmallVector<Value> indices;
  SmallVector<bool> inBounds;
  locate(b, task, firstKey, indices, inBounds);
  return vector::TransferWriteOp::create(b, value.value, view, indices,
                                         ArrayRef<bool>(inBounds));
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

static TileValue positions(TileBuilder &b, Extent side, Value first,
                           Index length, bool isAligned) {
  TileValue steps = b.step(side, b.getIndexType());
  TileValue result = b.combine<arith::AddIOp>(steps, {first, Extent::Uniform});
  if (isAligned)
    return result;
  Value last = b.value(b.subtract(length, b.getIndexAttr(1)));
  return b.combine<arith::MinSIOp>(result, {last, Extent::Uniform});
}

TileValue attn::queryPositions(TileBuilder &b, const Task &task) {
  return positions(b, Extent::PerRow, task.firstRow, task.sizes.queryLength,
                   task.rowsAligned);
}

TileValue attn::keyPositions(TileBuilder &b, const Task &task, Value firstKey,
                             bool isInRange) {
  return positions(b, Extent::PerColumn,
                   b.value(b.add(task.keys.first, firstKey)),
                   task.sizes.kvLength, task.keys.isAligned || !isInRange);
}
