//===- TileReads.cpp - What pieces of tiles read from memory --------------===//

#include "ByteView.h"
#include "TileSlicer.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;

/// The piece lies in the row clamped to the memref: only lanes need a mask, and
/// a number a row where the caller pads rows.
FailureOr<Value> TileSlicer::sliceRead(Operation *op, const Piece &piece,
                                       Shape shape) {
  auto read = cast<vector::TransferReadOp>(op);
  AffineMap map = read.getPermutationMap();
  Value base = scalar(read.getBase());
  SmallVector<Value> indices;
  for (Value index : read.getIndices())
    indices.push_back(scalar(index));
  Value padding = scalar(read.getPadding());

  unsigned rank = read.getVectorType().getRank();
  bool lanesVary = false, lanesInBounds = false;
  Value isRealRow;
  unsigned lanesDim = 0;
  for (unsigned d = 0; d < rank; ++d) {
    auto dim = dyn_cast<AffineDimExpr>(map.getResult(d));
    if (!dim)
      continue;
    Value &index = indices[dim.getPosition()];
    bool isRow = (rank == 2 && d == 0) || (rank == 1 && shape == Shape::Row);
    index =
        arith::AddIOp::create(b, loc, index, isRow ? piece.row : piece.column);
    if (isRow) {
      Value size = memref::DimOp::create(b, loc, base, dim.getPosition());
      Value one = arith::ConstantIndexOp::create(b, loc, 1);
      Value last = arith::SubIOp::create(b, loc, size, one);
      if (padsRows && rank == 1 && !read.isDimInBounds(d))
        isRealRow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                          index, size);
      index = arith::MinSIOp::create(b, loc, index, last);
    } else {
      lanesVary = true;
      lanesInBounds = read.isDimInBounds(d);
      lanesDim = dim.getPosition();
    }
  }
  Type element = read.getVectorType().getElementType();
  if (!lanesVary) {
    Value loaded = memref::LoadOp::create(b, loc, base, indices);
    if (isRealRow)
      loaded = arith::SelectOp::create(b, loc, isRealRow, loaded, padding);
    if (shape == Shape::Row || piece.width == 0)
      return loaded;
    return Value(vector::BroadcastOp::create(
        b, loc, VectorType::get(piece.width, element), loaded));
  }
  if (piece.width == 0)
    return lanesInBounds
               ? memref::LoadOp::create(b, loc, base, indices).getResult()
               : loadPadded(base, indices, lanesDim, padding);
  auto memrefRank = cast<MemRefType>(base.getType()).getRank();
  AffineMap lanesMap =
      AffineMap::get(memrefRank, 0, b.getAffineDimExpr(lanesDim));
  if (element.isInteger(1))
    return loadBooleans(base, indices, lanesMap, piece.width);
  return Value(vector::TransferReadOp::create(
      b, loc, VectorType::get(piece.width, element), base, indices, padding,
      lanesMap, ArrayRef<bool>{false}));
}

/// Past the end the last element is read and not used: without a branch.
Value TileSlicer::loadPadded(Value base, SmallVector<Value> indices,
                             unsigned dimension, Value padding) {
  Value size = memref::DimOp::create(b, loc, base, dimension);
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value last = arith::SubIOp::create(b, loc, size, one);
  Value &index = indices[dimension];
  Value isReal =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, size);
  index = arith::MinSIOp::create(b, loc, index, last);
  Value loaded = memref::LoadOp::create(b, loc, base, indices);
  return arith::SelectOp::create(b, loc, isReal, loaded, padding);
}

/// False past the end.
Value TileSlicer::loadBooleans(Value base, ArrayRef<Value> indices,
                               AffineMap lanesMap, int64_t width) {
  Value bytes = byteView(b, loc, base);
  Value zero = arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0));
  auto lanesType = VectorType::get(width, b.getI8Type());
  Value lanes = vector::TransferReadOp::create(
      b, loc, lanesType, bytes, indices, zero, lanesMap, ArrayRef<bool>{false});
  Value none = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(lanesType, b.getI8IntegerAttr(0)));
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, lanes, none);
}

FailureOr<Value> TileSlicer::sliceGather(Operation *op, const Piece &piece,
                                         Shape shape) {
  auto gather = cast<vector::GatherOp>(op);
  FailureOr<Value> index = slice(gather.getIndices(), piece, shape);
  if (failed(index))
    return failure();
  SmallVector<Value> offsets;
  for (Value offset : gather.getOffsets())
    offsets.push_back(scalar(offset));
  Value base = scalar(gather.getBase());
  if (shape == Shape::Row || piece.width == 0) {
    Value position = *index;
    if (!position.getType().isIndex())
      position = arith::IndexCastOp::create(b, loc, b.getIndexType(), position);
    offsets.back() = arith::AddIOp::create(b, loc, offsets.back(), position);
    return Value(memref::LoadOp::create(b, loc, base, offsets));
  }
  if (gather.getVectorType().getElementType().isInteger(1))
    return gatherBooleans(base, offsets, *index, piece.width);
  FailureOr<Value> mask = slice(gather.getMask(), piece, shape);
  FailureOr<Value> passThru = slice(gather.getPassThru(), piece, shape);
  if (failed(mask) || failed(passThru))
    return failure();
  auto type =
      VectorType::get(piece.width, gather.getVectorType().getElementType());
  return Value(vector::GatherOp::create(b, loc, type, base, offsets, *index,
                                        *mask, *passThru));
}

/// Lane by lane, at positions of their own; attn-tile keeps them in range.
Value TileSlicer::gatherBooleans(Value base, ArrayRef<Value> offsets,
                                 Value positions, int64_t width) {
  auto type = VectorType::get(width, b.getI1Type());
  Value lanes =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, false));
  for (int64_t lane = 0; lane < width; ++lane) {
    SmallVector<Value> at(offsets);
    Value position = vector::ExtractOp::create(b, loc, positions, lane);
    if (!position.getType().isIndex())
      position = arith::IndexCastOp::create(b, loc, b.getIndexType(), position);
    at.back() = arith::AddIOp::create(b, loc, at.back(), position);
    Value loaded = memref::LoadOp::create(b, loc, base, at);
    lanes = vector::InsertOp::create(b, loc, loaded, lanes, lane);
  }
  return lanes;
}
