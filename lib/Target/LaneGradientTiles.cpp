//===- LaneGradientTiles.cpp - Tiles of gradients on lanes ----------------===//

#include "attn/Target/LaneGradientTiles.h"
#include "attn/Target/LaneTiles.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace attn;
using llvm::divideCeil;

static constexpr int64_t kQuad = LaneTiles::kQuad;

/// A load of a quad takes as long as that many multiply-adds.
static constexpr int64_t kLoadCost = 4;

namespace {
/// Multiply-adds and loads of a thread, as multiply-adds.
struct Cost {
  int64_t total = 0;

  /// Rows times rows, along `depth` quads.
  void addRows(int64_t rows, int64_t keys, int64_t depth) {
    total += depth * (kQuad * rows * keys + kLoadCost * (rows + keys));
  }
  /// Numbers times quads, `steps` times.
  void addLines(int64_t numbers, int64_t quads, int64_t steps) {
    if (quads != 0)
      total += steps * (kQuad * numbers * quads +
                        kLoadCost * (divideCeil(numbers, kQuad) + quads));
  }
};
} // namespace

LaneGradientTiles::LaneGradientTiles(const Tiling &tiling,
                                     const TargetDescription &target,
                                     int64_t headDim, int64_t valueDim,
                                     int64_t accumulatorBytes, bool hidesKeys,
                                     bool sumsPairs) {
  threads = tiling.groups * lanesOfGroup(target);
  depth = divideCeil(headDim, kQuad);
  width = divideCeil(valueDim, kQuad);
  // The grid of threads that multiplies in the least time.
  int64_t least = 0;
  for (int64_t columns = 1; columns <= threads; columns *= 2)
    for (int64_t lines = 1; lines * columns <= threads; lines *= 2) {
      if (threads % (columns * lines) != 0 || tiling.blockKey % columns != 0 ||
          tiling.blockQuery % lines != 0)
        continue;
      int64_t r = tiling.blockQuery / lines, k = tiling.blockKey / columns;
      int64_t keyThreads = threads / columns, queryThreads = threads / lines;
      Cost cost;
      // S and dP are made in both sweeps.
      for (int64_t quads : {depth, width, depth, width})
        cost.addRows(r, k, quads);
      for (int64_t quads : {depth, width})
        cost.addLines(k, divideCeil(quads, keyThreads), tiling.blockQuery);
      cost.addLines(r, divideCeil(depth, queryThreads), tiling.blockKey);
      if (isValid() && cost.total >= least)
        continue;
      least = cost.total;
      columnThreads = columns;
      rowThreads = lines;
      rows = r;
      keys = k;
    }
  int64_t quadBytes = kQuad * accumulatorBytes;
  depthPitch = depth == 0 ? 0 : depth | 1;
  widthPitch = width == 0 ? 0 : width | 1;
  int64_t rowQuads = depthPitch + widthPitch;
  rowBytes = tiling.blockQuery * rowQuads * quadBytes;
  keyBytes = tiling.blockKey * rowQuads * quadBytes;
  int64_t pairs = tiling.blockQuery * tiling.blockKey;
  pairBytes = pairs * accumulatorBytes;
  if (hidesKeys)
    seenBytes = (rowThreads * tiling.blockKey + 1) * sizeof(int32_t);
  if (sumsPairs)
    termBytes = pairs * (accumulatorBytes + sizeof(int32_t));
  // The rows that a thread of so many has, behind the last included.
  int64_t columns = std::min(threads, kMostRowColumns);
  int64_t height = llvm::alignTo(tiling.blockQuery, threads / columns);
  threadBytes = std::max(columns * height, threads) * accumulatorBytes;
}

int64_t LaneGradientTiles::keyAccumulator(int64_t quads) const {
  return keys * divideCeil(quads, keyGradientThreads()) * kQuad;
}

int64_t LaneGradientTiles::queryAccumulator(int64_t quads) const {
  return rows * divideCeil(quads, queryGradientThreads()) * kQuad;
}

int64_t LaneGradientTiles::sharedBytes() const {
  // By the size of vectors; words are 0. Key tasks hold P and dX, query tasks
  // dX and, of sums over pairs, terms and places.
  struct Allocation {
    int64_t vector, bytes;
  };
  int64_t ofKeys = vectorOf(keys), ofRows = vectorOf(rows);
  int64_t words = termBytes == 0 ? 0 : termBytes - pairBytes;
  const llvm::SmallVector<Allocation> kernels[] = {
      {{ofKeys, pairBytes}, {ofKeys, pairBytes}, {0, seenBytes}},
      {{ofRows, pairBytes}, {0, seenBytes}, {1, termBytes - words}, {0, words}},
      {{1, threadBytes}}};
  int64_t bytes = rowBytes + keyBytes;
  for (int64_t vector : {0, 1, 2, 4}) {
    llvm::SmallVector<int64_t> shared;
    for (llvm::ArrayRef<Allocation> kernel : kernels) {
      size_t number = 0;
      for (const Allocation &allocation : kernel) {
        if (allocation.vector != vector || allocation.bytes == 0)
          continue;
        if (number == shared.size())
          shared.push_back(0);
        shared[number] = std::max(shared[number], allocation.bytes);
        ++number;
      }
    }
    for (int64_t size : shared)
      bytes += size;
  }
  return bytes;
}
