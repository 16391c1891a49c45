//===- PairPacking.cpp - Operands of instructions that multiply pairs -----===//
//
// Dot products and tiles multiply two neighbours of the reduction in one lane:
// two elements of a key, which a transpose of 32-bit words gathers, and two
// keys of a value column, which interleaving brings together.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

Value cpu::transposeWords(Emitter &e, Value view, Value firstKey, int64_t width,
                          Value d, int64_t count) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  auto row = VectorType::get(2 * width, element);
  auto words = VectorType::get(width, e.b.getF32Type());
  auto square = VectorType::get({width, width}, e.b.getF32Type());
  Value tile = e.constant(square, 0.0);
  for (int64_t k = 0; k < width; ++k) {
    Value piece = loadRowPiece(e, row, view, e.add(firstKey, k), d, count);
    piece = vector::BitCastOp::create(e.b, e.loc, words, piece);
    tile = vector::InsertOp::create(e.b, e.loc, piece, tile, k);
  }
  return vector::TransposeOp::create(e.b, e.loc, tile, ArrayRef<int64_t>{1, 0});
}

void cpu::packKeyPairs(Emitter &e, Value view, Value firstKey, int64_t width,
                       int64_t size,
                       llvm::function_ref<void(Value, Value)> store) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  auto row = VectorType::get(2 * width, element);
  forEachPiece(e, size, 2 * width, [&](Value d, int64_t count) {
    Value transposed = transposeWords(e, view, firstKey, width, d, count);
    Value firstWord = e.div(d, 2);
    for (int64_t p = 0; p < width; ++p) {
      Value pairs = vector::ExtractOp::create(e.b, e.loc, transposed, p);
      store(e.add(firstWord, p),
            vector::BitCastOp::create(e.b, e.loc, row, pairs));
    }
  });
}

Value cpu::loadValuePairs(Emitter &e, VectorType half, Value view, Value key,
                          Value column, int64_t count) {
  Value even = loadRowPiece(e, half, view, key, column, count);
  Value odd = loadRowPiece(e, half, view, e.add(key, 1), column, count);
  return vector::InterleaveOp::create(e.b, e.loc, even, odd);
}

Value cpu::hideUnseenPairs(Emitter &e, Value pairs, Value seen,
                           Value firstKey) {
  auto type = cast<VectorType>(pairs.getType());
  auto half = VectorType::get(type.getDimSize(0) / 2, e.b.getI8Type());
  auto flag = [&](int64_t key) -> Value {
    return e.splat(half,
                   memref::LoadOp::create(e.b, e.loc, seen,
                                          ValueRange{e.add(firstKey, key)}));
  };
  Value flags = vector::InterleaveOp::create(e.b, e.loc, flag(0), flag(1));
  Value none =
      arith::ConstantOp::create(e.b, e.loc, e.b.getZeroAttr(flags.getType()));
  Value isSeen =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, flags, none);
  return arith::SelectOp::create(e.b, e.loc, isSeen, pairs,
                                 e.constant(type, 0.0));
}
