//===- GradientProducts.cpp - Scratch, operands and register tiles --------===//

#include "GradientTiles.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

Value GradientTiles::allocate(int64_t rows, int64_t columns) {
  int64_t whole = llvm::alignTo(std::max<int64_t>(columns, 1), width);
  return memref::AllocaOp::create(e.b, e.loc,
                                  MemRefType::get({rows, whole}, type),
                                  e.b.getI64IntegerAttr(64));
}

void GradientTiles::clear(Value scratch) {
  ArrayRef<int64_t> shape = cast<MemRefType>(scratch.getType()).getShape();
  Value zero = e.constant(vector, 0.0);
  e.loop(e.index(0), e.index(shape[0]), 1, [&](Value row) {
    e.loop(e.index(0), e.index(shape[1]), width,
           [&](Value column) { e.store(zero, scratch, {row, column}); });
  });
}

void GradientTiles::place(Value tile, Value scratch) {
  tiles[tile] = scratch;
  slicer.bind(tile, [this, scratch](const Piece &piece) {
    return e.load(vector, scratch, {piece.row, piece.column});
  });
}

Value GradientTiles::loadPiece(vector::TransferReadOp read, Value row,
                               Value column, int64_t count) {
  Value view = slicer.scalar(read.getBase());
  Value first = slicer.scalar(read.getIndices()[0]);
  Type element = read.getVectorType().getElementType();
  return widen(loadRowPiece(e, VectorType::get(width, element), view,
                            e.add(first, row), column, count));
}

Value GradientTiles::widen(Value piece) {
  return piece.getType() == vector
             ? piece
             : arith::ExtFOp::create(e.b, e.loc, vector, piece).getResult();
}

void GradientTiles::loadPlain(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value scratch = allocate(shape[0], shape[1]);
  e.loop(e.index(0), e.index(shape[0]), 1, [&](Value row) {
    forEachPiece(e, shape[1], width, [&](Value column, int64_t count) {
      e.store(loadPiece(read, row, column, count), scratch, {row, column});
    });
  });
  place(read, scratch);
}

/// By squares that are transposed in registers.
void GradientTiles::loadTurned(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value scratch = allocate(shape[1], shape[0]);
  auto square = VectorType::get({width, width}, type);
  e.loop(e.index(0), e.index(shape[0]), width, [&](Value row) {
    forEachPiece(e, shape[1], width, [&](Value column, int64_t count) {
      Value tile = e.constant(square, 0.0);
      for (int64_t r = 0; r < width; ++r)
        tile = vector::InsertOp::create(
            e.b, e.loc, loadPiece(read, e.add(row, r), column, count), tile, r);
      tile = vector::TransposeOp::create(e.b, e.loc, tile,
                                         ArrayRef<int64_t>{1, 0});
      for (int64_t c = 0; c < count; ++c)
        e.store(vector::ExtractOp::create(e.b, e.loc, tile, c), scratch,
                {e.add(column, c), row});
    });
  });
  turned[read] = scratch;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void GradientTiles::multiply(const Product &product) {
  int64_t total =
      cast<MemRefType>(product.sums.getType()).getDimSize(1) / width;
  forEachColumnGroup(e, total, width, registers >= 32 ? 4 : 2,
                     [&](Value column, int64_t vectors) {
                       multiplyColumns(product, column, vectors);
                     });
}

void GradientTiles::multiplyColumns(const Product &product, Value column,
                                    int64_t vectors) {
  int64_t rows = cast<MemRefType>(product.sums.getType()).getDimSize(0);
  // Three quarters of the registers hold the accumulators.
  int64_t tileRows = divisorAtMost(rows, registers * 3 / 4 / vectors);
  auto multiplyTile = [&](Value row) {
    auto place = [&](Value r, int64_t v) {
      return SmallVector<Value>{r, e.add(column, v * width)};
    };
    SmallVector<Value> sums;
    for (int64_t r = 0; r < tileRows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(product.startsAtSums ? e.load(vector, product.sums,
                                                     place(e.add(row, r), v))
                                            : e.constant(vector, 0.0));
    sums = e.loop(
        e.index(0), product.steps, 1, sums,
        [&](Value step, ValueRange carried) {
          SmallVector<Value> right, next;
          for (int64_t v = 0; v < vectors; ++v)
            right.push_back(e.load(vector, product.right, place(step, v)));
          for (int64_t r = 0; r < tileRows; ++r) {
            SmallVector<Value> at = {e.add(row, r), step};
            if (product.leftIsTurned)
              std::swap(at[0], at[1]);
            Value left = memref::LoadOp::create(e.b, e.loc, product.left, at);
            for (int64_t v = 0; v < vectors; ++v)
              next.push_back(
                  vector::FMAOp::create(e.b, e.loc, e.splat(vector, left),
                                        right[v], carried[r * vectors + v]));
          }
          return next;
        });
    for (int64_t r = 0; r < tileRows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        e.store(sums[r * vectors + v], product.sums, place(e.add(row, r), v));
  };
  e.loop(e.index(0), e.index(rows), tileRows, multiplyTile);
}
