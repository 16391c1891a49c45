//===- AmxPacking.cpp - Operands of AMX as tiles --------------------------===//
//
// Keys and values are packed once per key/value head; the key pack is a
// transpose of 32-bit words, the value pack an interleave of two rows. Queries
// are copied once per task.
//
// A tile cannot skip a key, and 0 NaN is NaN: packing notes which blocks hold a
// value that is not finite, and from those (rare) the keys that no row of the
// task sees are copied out as zeros.
//
//===----------------------------------------------------------------------===//

#include "AmxProduct.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

void AmxProduct::allocate(Emitter &e, Value heads) {
  TiledForm &form = kernel.form;
  vector::TransferReadOp operand = form.key ? form.key : form.value;
  if (!operand)
    return;
  blocks = e.ceilDiv(sequenceLength(e, operand), form.blockKey);
  Value positions = e.mul(heads, blocks);
  auto allocate = [&](int64_t groups, int64_t tiles) -> Value {
    auto type = MemRefType::get(
        {ShapedType::kDynamic, groups, tiles, kTileRows, kTileDepth},
        e.b.getBF16Type());
    return memref::AllocOp::create(e.b, e.loc, type, positions,
                                   e.b.getI64IntegerAttr(64));
  };
  if (form.key)
    packedKeys = allocate(kernel.keys / kTileRows, depthTiles);
  if (form.value)
    packedValues = allocate(kernel.keys / kTileDepth, valueTiles);
  if (form.value && form.seenKeys)
    isSpecial = memref::AllocOp::create(
        e.b, e.loc, MemRefType::get({ShapedType::kDynamic}, e.b.getI8Type()),
        positions);
}

void AmxProduct::deallocate(Emitter &e) {
  for (Value workspace : {packedKeys, packedValues, isSpecial})
    if (workspace)
      memref::DeallocOp::create(e.b, e.loc, workspace);
}

void AmxProduct::pack(Emitter &e, IRMapping &scalars, Value head, Value block) {
  TiledForm &form = kernel.form;
  Value position = e.add(e.mul(head, blocks), block);
  Value firstKey = e.mul(block, form.blockKey);
  if (form.key)
    packKeys(e, scalars.lookup(Value(form.key.getBase())), position, firstKey);
  if (form.value)
    packValues(e, scalars.lookup(Value(form.value.getBase())), position,
               firstKey);
}

void AmxProduct::packKeys(Emitter &e, Value view, Value position,
                          Value firstKey) {
  Value zero = e.index(0);
  e.loop(zero, e.index(kernel.keys / kTileRows), 1, [&](Value group) {
    packKeyPairs(e, view, e.add(firstKey, e.mul(group, kTileRows)), kTileRows,
                 kernel.form.headDim, [&](Value word, Value pairs) {
                   Value depth = e.div(word, kTileRows);
                   Value row = e.sub(word, e.mul(depth, kTileRows));
                   e.store(pairs, packedKeys,
                           {position, group, depth, row, zero});
                 });
  });
}

/// Two rows of values, interleaved by column.
void AmxProduct::packValues(Emitter &e, Value view, Value position,
                            Value firstKey) {
  auto half = VectorType::get(kTileRows, e.b.getBF16Type());
  auto bits = VectorType::get(kTileDepth, e.b.getI16Type());
  auto splat = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        e.b, e.loc, DenseElementsAttr::get(bits, e.b.getI16IntegerAttr(value)));
  };
  Value exponent = splat(0x7f80);
  // The largest exponent field of the block: all ones is infinite or NaN.
  SmallVector<Value> largest = e.loop(
      e.index(0), e.index(kernel.keys / 2), 1, splat(0),
      [&](Value pair, ValueRange carried) -> SmallVector<Value> {
        Value key = e.add(firstKey, e.mul(pair, 2));
        Value group = e.div(pair, kTileRows);
        Value row = e.sub(pair, e.mul(group, kTileRows));
        Value most = carried[0];
        for (int64_t c = 0; c < valueTiles; ++c) {
          Value pairs =
              loadValuePairs(e, half, view, key, e.index(c * kTileRows),
                             kernel.form.valueDim - c * kTileRows);
          e.store(pairs, packedValues,
                  {position, group, e.index(c), row, e.index(0)});
          if (!isSpecial)
            continue;
          Value field = arith::AndIOp::create(
              e.b, e.loc, vector::BitCastOp::create(e.b, e.loc, bits, pairs),
              exponent);
          most = arith::MaxUIOp::create(e.b, e.loc, most, field);
        }
        return {most};
      });
  if (!isSpecial)
    return;
  Value most = vector::ReductionOp::create(
      e.b, e.loc, vector::CombiningKind::MAXUI, largest[0]);
  Value special = arith::CmpIOp::create(
      e.b, e.loc, arith::CmpIPredicate::eq, most,
      arith::ConstantOp::create(e.b, e.loc, e.b.getI16IntegerAttr(0x7f80)));
  memref::StoreOp::create(
      e.b, e.loc, arith::ExtUIOp::create(e.b, e.loc, e.b.getI8Type(), special),
      isSpecial, position);
}

void AmxProduct::loadQuery(Task &task) {
  vector::TransferReadOp read = kernel.form.query;
  if (!read)
    return;
  Emitter &e = task.e;
  auto type = VectorType::get(kTileDepth, e.b.getBF16Type());
  Value view = task.slicer.scalar(read.getBase());
  Value firstRow = task.slicer.scalar(read.getIndices()[0]);
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    Value tile = e.div(row, kTileRows);
    Value inner = e.sub(row, e.mul(tile, kTileRows));
    forEachPiece(
        e, kernel.form.headDim, kTileDepth, [&](Value d, int64_t count) {
          e.store(loadRowPiece(e, type, view, e.add(firstRow, row), d, count),
                  query, {tile, e.div(d, kTileDepth), inner, e.index(0)});
        });
  });
}

/// The value block with zeros for the keys that no row sees.
void AmxProduct::copySeenValues(Task &task, Value position) {
  Emitter &e = task.e;
  auto row = VectorType::get(kTileDepth, e.b.getBF16Type());
  Value zero = e.index(0);
  e.loop(zero, e.index(kernel.keys / 2), 1, [&](Value pair) {
    Value group = e.div(pair, kTileRows);
    Value inner = e.sub(pair, e.mul(group, kTileRows));
    for (int64_t c = 0; c < valueTiles; ++c) {
      Value pairs =
          e.load(row, packedValues, {position, group, e.index(c), inner, zero});
      e.store(hideUnseenPairs(e, pairs, task.scratch.seen, e.mul(pair, 2)),
              seenValues, {zero, group, e.index(c), inner, zero});
    }
  });
}

/// Where the value tiles of the block lie: as packed, or the copy of them.
Value AmxProduct::valueTilesOf(Task &task, Value position) {
  Emitter &e = task.e;
  Value zero = e.index(0);
  SmallVector<Value> first(5, zero);
  SmallVector<Value> packed = first;
  packed[0] = position;
  Value address = tileAddress(e, packedValues, packed);
  if (!isSpecial)
    return address;
  Value flag = memref::LoadOp::create(e.b, e.loc, isSpecial, position);
  Value special = arith::CmpIOp::create(
      e.b, e.loc, arith::CmpIPredicate::ne, flag,
      arith::ConstantOp::create(e.b, e.loc, e.b.getI8IntegerAttr(0)));
  scf::IfOp::create(e.b, e.loc, special, [&](OpBuilder &, Location) {
    copySeenValues(task, position);
    scf::YieldOp::create(e.b, e.loc);
  });
  return arith::SelectOp::create(e.b, e.loc, special,
                                 tileAddress(e, seenValues, first), address);
}
