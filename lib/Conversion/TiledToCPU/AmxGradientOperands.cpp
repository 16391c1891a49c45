//===- AmxGradientOperands.cpp - What AMX multiplies for gradients --------===//

#include "AmxGradients.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// rows x columns tiles in one piece each.
Value AmxGradients::allocatePacked(int64_t rows, int64_t columns, int64_t depth,
                                   Type element) {
  return allocateTiles(e, {rows, columns, kTileRows, depth}, element);
}

void AmxGradients::loadTile(vector::TransferReadOp read) {
  bool isOperand = false, isPlain = false, isWords = false, isTurned = false,
       isPairs = false;
  for (OpOperand &use : read->getUses()) {
    auto product = dyn_cast<vector::ContractionOp>(use.getOwner());
    isOperand |= bool(product);
    if (!product || use.getOperandNumber() == 0)
      isPlain = true;
    else if (!accumulates(product))
      isWords = true;
    else
      (getRole(product) == role::kQueryGradient ? isPairs : isTurned) = true;
  }
  if (!isOperand)
    return;
  if (isPlain)
    loadPlain(read);
  if (isWords)
    packWords(read);
  if (isTurned)
    packTurned(read);
  if (isPairs)
    (void)packPairs(read);
}

void AmxGradients::loadPlain(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value scratch = allocate(shape[0], whole(shape[1]), bf16());
  e.loop(e.index(0), e.index(shape[0]), 1, [&](Value row) {
    forEachPiece(e, shape[1], kTileDepth, [&](Value column, int64_t count) {
      e.store(loadPiece(read, row, column, count, kTileDepth), scratch,
              {row, column});
    });
  });
  place(read, scratch);
}

void AmxGradients::packWords(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value packed = allocatePacked(
      shape[0] / kTileRows, whole(shape[1]) / kTileDepth, kTileDepth, bf16());
  Value view = slicer.scalar(read.getBase());
  Value first = slicer.scalar(read.getIndices()[0]);
  e.loop(e.index(0), e.index(shape[0] / kTileRows), 1, [&](Value group) {
    packKeyPairs(e, view, e.add(first, e.mul(group, kTileRows)), kTileRows,
                 shape[1], [&](Value word, Value elements) {
                   Value depth = e.div(word, kTileRows);
                   Value row = e.sub(word, e.mul(depth, kTileRows));
                   e.store(elements, packed, {group, depth, row, e.index(0)});
                 });
  });
  words[read] = packed;
}

/// Two transposes of words, of rows p and p + 16, and their halves exchanged.
void AmxGradients::packTurned(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value packed = allocatePacked(whole(shape[1]) / kTileRows, shape[0] / kPatch,
                                kTileDepth, bf16());
  Value view = slicer.scalar(read.getBase());
  Value first = slicer.scalar(read.getIndices()[0]);
  auto integers = VectorType::get(kTileRows, e.b.getI32Type());
  auto elements = VectorType::get(kTileDepth, bf16());
  auto splat = [&](uint32_t value) -> Value {
    return arith::ConstantOp::create(
        e.b, e.loc,
        DenseElementsAttr::get(integers, e.b.getI32IntegerAttr(value)));
  };
  Value half = splat(16), lowHalf = splat(0x0000ffff),
        highHalf = splat(0xffff0000);
  auto turn = [&](Value group, Value d, int64_t count) {
    Value row = e.add(first, e.mul(group, kPatch)), columns[2];
    for (int64_t h = 0; h < 2; ++h)
      columns[h] = transposeWords(e, view, e.add(row, h * kTileRows), kTileRows,
                                  d, count);
    for (int64_t w = 0; w < kTileRows; ++w) {
      Value a = vector::BitCastOp::create(
          e.b, e.loc, integers,
          vector::ExtractOp::create(e.b, e.loc, columns[0], w));
      Value b = vector::BitCastOp::create(
          e.b, e.loc, integers,
          vector::ExtractOp::create(e.b, e.loc, columns[1], w));
      Value rows[] = {
          arith::OrIOp::create(e.b, e.loc,
                               arith::AndIOp::create(e.b, e.loc, a, lowHalf),
                               arith::ShLIOp::create(e.b, e.loc, b, half)),
          arith::OrIOp::create(e.b, e.loc,
                               arith::ShRUIOp::create(e.b, e.loc, a, half),
                               arith::AndIOp::create(e.b, e.loc, b, highHalf))};
      for (int64_t h = 0; h < 2; ++h) {
        int64_t offset = 2 * w + h;
        Value tile = e.add(e.div(d, kTileRows), offset / kTileRows);
        e.store(vector::BitCastOp::create(e.b, e.loc, elements, rows[h]),
                packed, {tile, group, e.index(offset % kTileRows), e.index(0)});
      }
    }
  };
  e.loop(e.index(0), e.index(shape[0] / kPatch), 1, [&](Value group) {
    forEachPiece(e, shape[1], kTileDepth,
                 [&](Value d, int64_t count) { turn(group, d, count); });
  });
  turned[read] = packed;
}

/// Columns past the last are of sums that nobody reads.
LogicalResult AmxGradients::packPairs(Value tile) {
  ArrayRef<int64_t> shape = cast<VectorType>(tile.getType()).getShape();
  Value packed = allocatePacked(shape[0] / kPatch, whole(shape[1]) / kTileRows,
                                kTileDepth, bf16());
  auto half = VectorType::get(kTileRows, bf16());
  auto read = tile.getDefiningOp<vector::TransferReadOp>();
  bool valid = true;
  e.loop(e.index(0), e.index(shape[0] / 2), 1, [&](Value pair) {
    Value row = e.mul(pair, 2), group = e.div(pair, kTileRows);
    Value inner = e.sub(pair, e.mul(group, kTileRows));
    forEachPiece(e, shape[1], kTileRows, [&](Value column, int64_t count) {
      Value lanes[2];
      for (int64_t r = 0; r < 2; ++r) {
        FailureOr<Value> piece =
            read ? FailureOr<Value>(
                       loadPiece(read, e.add(row, r), column, count, kTileRows))
                 : slicer.tile(tile, {e.add(row, r), column, kTileRows});
        valid &= succeeded(piece);
        lanes[r] = succeeded(piece) ? *piece : e.constant(half, 0.0);
      }
      e.store(vector::InterleaveOp::create(e.b, e.loc, lanes[0], lanes[1]),
              packed, {group, e.div(column, kTileRows), inner, e.index(0)});
    });
  });
  pairs[tile] = packed;
  return success(valid);
}
