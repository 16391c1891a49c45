//===- MmaTiles.cpp - Shared memory of kernels of warps -------------------===//

#include "attn/Target/MmaTiles.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace attn;
using llvm::alignTo;
using llvm::divideCeil;

/// The instruction's depth of 16, and the step of a vector load.
static constexpr int64_t kDepth = 16, kVectorBytes = 16;

MmaTiles::Tile MmaTiles::layOut(int64_t rows, int64_t columns, int64_t step,
                                int64_t elementBytes) {
  MmaTiles::Tile tile;
  if (columns == 0)
    return tile;
  tile.rows = rows;
  tile.columns = alignTo(columns, step);
  tile.pitch = (divideCeil(tile.columns * elementBytes, kVectorBytes) | 1) *
               kVectorBytes;
  return tile;
}

MmaTiles::MmaTiles(const Tiling &tiling, int64_t headDim, int64_t valueDim,
                   int64_t elementBytes, int64_t accumulatorBytes) {
  bool isMma = tiling.product == "mma";
  split = std::max<int64_t>(1, tiling.groups * kRows / tiling.blockQuery);
  slabs = std::max<int64_t>(1, tiling.blockQuery / (tiling.groups * kRows));
  // A warp takes its columns of the accumulator in pairs of eights.
  int64_t step = isMma ? kDepth : kVectorBytes / elementBytes;
  int64_t valueStep = (isMma ? kDepth : 8) * split;
  accumulatorColumns = alignTo(valueDim, valueStep) / split;
  query = layOut(tiling.blockQuery, headDim, step, elementBytes);
  key = layOut(tiling.blockKey, headDim, step, elementBytes);
  value = layOut(tiling.blockKey, valueDim, valueStep, elementBytes);
  if (!isMma && valueDim != 0)
    probabilities = layOut(tiling.groups * slabs * kRows, tiling.blockKey,
                           kVectorBytes / accumulatorBytes, accumulatorBytes);
  seenWords = divideCeil(tiling.blockKey, 32);
  seenBytes = alignTo(tiling.groups * slabs * seenWords * 4, kVectorBytes);
}
