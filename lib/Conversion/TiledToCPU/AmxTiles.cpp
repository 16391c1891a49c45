//===- AmxTiles.cpp - The tile registers of AMX ---------------------------===//

#include "AmxTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

Value cpu::allocateTiles(Emitter &e, ArrayRef<int64_t> shape, Type element) {
  return memref::AllocaOp::create(e.b, e.loc, MemRefType::get(shape, element),
                                  e.b.getI64IntegerAttr(64));
}

Value cpu::tileAddress(Emitter &e, Value memref, ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t stride = type.getElementTypeBitWidth() / 8;
  Value offset = e.index(0);
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    offset = e.add(offset, e.mul(indices[d], stride));
    stride *= type.isDynamicDim(d) ? 1 : type.getDimSize(d);
  }
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(e.b, e.loc, memref);
  return e.add(base, offset);
}

static Value asPointer(Emitter &e, Value address) {
  Value integer =
      arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), address);
  return LLVM::IntToPtrOp::create(
      e.b, e.loc, LLVM::LLVMPointerType::get(e.b.getContext()), integer);
}

static Value registerNumber(Emitter &e, int64_t tile) {
  return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI8Type(),
                                  e.b.getI8IntegerAttr(tile));
}

static Value strideValue(Emitter &e, int64_t bytes) {
  return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI64Type(),
                                  e.b.getI64IntegerAttr(bytes));
}

static void callTile(Emitter &e, StringRef intrinsic, ValueRange arguments) {
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(intrinsic),
                                arguments);
}

void cpu::loadTile(Emitter &e, int64_t tile, Value address,
                   int64_t strideBytes) {
  callTile(e, "llvm.x86.tileloadd64",
           {registerNumber(e, tile), asPointer(e, address),
            strideValue(e, strideBytes)});
}

void cpu::storeTile(Emitter &e, int64_t tile, Value address,
                    int64_t strideBytes) {
  callTile(e, "llvm.x86.tilestored64",
           {registerNumber(e, tile), asPointer(e, address),
            strideValue(e, strideBytes)});
}

void cpu::zeroTile(Emitter &e, int64_t tile) {
  callTile(e, "llvm.x86.tilezero", {registerNumber(e, tile)});
}

void cpu::multiplyTiles(Emitter &e, int64_t sum, int64_t a, int64_t b) {
  callTile(
      e, "llvm.x86.tdpbf16ps",
      {registerNumber(e, sum), registerNumber(e, a), registerNumber(e, b)});
}

void cpu::multiplyPatch(Emitter &e, const TilePatch &patch, Value steps) {
  auto forEachSum = [&](auto visit) {
    for (int64_t r = 0; r < patch.rows; ++r)
      for (int64_t c = 0; c < patch.columns; ++c)
        visit(2 * r + c, r, c);
  };
  forEachSum([&](int64_t sum, int64_t r, int64_t c) {
    if (patch.startsAtSums)
      loadTile(e, sum, patch.sums(r, c), patch.sumStride);
    else
      zeroTile(e, sum);
  });
  e.loop(e.index(0), steps, 1, [&](Value step) {
    for (int64_t r = 0; r < patch.rows; ++r)
      loadTile(e, 4 + r, patch.left(r, step), patch.leftStride);
    for (int64_t c = 0; c < patch.columns; ++c)
      loadTile(e, 6 + c, patch.right(c, step));
    forEachSum([&](int64_t sum, int64_t r, int64_t c) {
      multiplyTiles(e, sum, 4 + r, 6 + c);
    });
  });
  forEachSum([&](int64_t sum, int64_t r, int64_t c) {
    storeTile(e, sum, patch.sums(r, c), patch.sumStride);
  });
}

Value cpu::roundPair(Emitter &e, const TargetDescription &target, Value low,
                     Value high) {
  auto type = VectorType::get(kTileDepth, e.b.getBF16Type());
  if (target.has("avx512bf16"))
    return LLVM::CallIntrinsicOp::create(
               e.b, e.loc, type,
               e.b.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
               ValueRange{high, low})
        .getResult(0);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, kTileDepth));
  Value both = vector::ShuffleOp::create(e.b, e.loc, low, high, all);
  return arith::TruncFOp::create(e.b, e.loc, type, both);
}

/// Palette 1, then for each of the eight tiles 64 bytes a row (16-bit fields
/// from byte 16) and 16 rows (from 48).
void cpu::configureTiles(Emitter &e) {
  SmallVector<int8_t> bytes(64, 0);
  bytes[0] = 1;
  for (int64_t tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 64;
    bytes[48 + tile] = kTileRows;
  }
  Value config = allocateTiles(e, {64}, e.b.getI8Type());
  auto vectorType = VectorType::get({64}, e.b.getI8Type());
  Value content = arith::ConstantOp::create(
      e.b, e.loc, DenseElementsAttr::get(vectorType, ArrayRef<int8_t>(bytes)));
  e.store(content, config, {e.index(0)});
  callTile(e, "llvm.x86.ldtilecfg",
           {asPointer(e, tileAddress(e, config, {e.index(0)}))});
}

void cpu::releaseTiles(Emitter &e) { callTile(e, "llvm.x86.tilerelease", {}); }
