//===- LaneGradientTiles.cpp - Tiles of gradients on lanes ----------------===//

#include "attn/Target/LaneGradientTiles.h"
#include "attn/Target/LaneTiles.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

using namespace attn;
using llvm::divideCeil;

static constexpr int64_t kQuad = LaneTiles::kQuad;

/// From that many bytes on longer steps leave room for several workgroups.
static constexpr int64_t kMuchMemory = 32 << 10;

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
  int64_t widest = std::max<int64_t>({depth, width, 1});
  chunk = std::min(widest, target.scratchBytes >= kMuchMemory ? int64_t(8)
                                                              : int64_t(4));
  leftQuads = tiling.blockQuery * chunkPitch();
  rightQuads = tiling.blockKey * chunkPitch();
  // As many rows as find room where keys of a chunk lie, four if possible.
  int64_t most = std::max<int64_t>(rightQuads / widest, 4);
  part = 1;
  while (2 * part <= most && tiling.blockQuery % (2 * part) == 0 &&
         tiling.blockKey % (2 * part) == 0)
    part *= 2;
  rightQuads = std::max(rightQuads, part * widest);
  stepBytes = (leftQuads + rightQuads) * kQuad * accumulatorBytes;
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

int64_t LaneGradientTiles::ahead() const {
  int64_t ofChunk =
      divideCeil(leftQuads, threads) + divideCeil(rightQuads, threads);
  int64_t ofPart = divideCeil(part * std::max(depth, width), threads);
  return std::max(ofChunk, ofPart);
}

int64_t LaneGradientTiles::keyAccumulator(int64_t quads) const {
  return keys * divideCeil(quads, keyGradientThreads()) * kQuad;
}

int64_t LaneGradientTiles::queryAccumulator(int64_t quads) const {
  return rows * divideCeil(quads, queryGradientThreads()) * kQuad;
}

int64_t LaneGradientTiles::sharedBytes() const {
  // By the size of vectors; words are 0. Query tasks have, of sums over pairs,
  // terms and places.
  struct Allocation {
    int64_t vector, bytes;
  };
  int64_t ofKeys = vectorOf(keys), ofRows = vectorOf(rows);
  int64_t words = termBytes == 0 ? 0 : termBytes - pairBytes;
  const llvm::SmallVector<Allocation> kernels[] = {
      {{ofKeys, pairBytes}, {0, seenBytes}},
      {{ofRows, pairBytes}, {0, seenBytes}, {1, termBytes - words}, {0, words}},
      {{1, threadBytes}}};
  int64_t bytes = stepBytes;
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
