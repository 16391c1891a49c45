//===- LaneTiles.cpp - Tiles of kernels of ordinary lanes -----------------===//

#include "attn/Target/LaneTiles.h"
#include "llvm/Support/MathExtras.h"

using namespace attn;
using llvm::divideCeil;

int64_t attn::lanesOfGroup(const TargetDescription &target) {
  return target.subgroupSize > 0 ? target.subgroupSize : 32;
}

/// More quads than that would take the registers of a tile.
static constexpr int64_t kMostAhead = 8;

/// A load of a quad takes as long as that many multiply-adds.
static constexpr int64_t kLoadCost = 4;

/// A thread's scores from which on a tile streams. Below, a load of a query
/// again would be one for few products.
static constexpr int64_t kStreamedScores = 32;

/// Quads of the depth and keys of a block that are streamed together.
static constexpr int64_t kChunk = 4, kPart = 16;

LaneTiles::LaneTiles(const Tiling &tiling, const TargetDescription &target,
                     int64_t headDim, int64_t valueDim,
                     int64_t accumulatorBytes, bool hidesKeys) {
  threads = tiling.groups * lanesOfGroup(target);
  depth = divideCeil(headDim, kQuad);
  width = divideCeil(valueDim, kQuad);
  // The grid of threads that multiplies in the least time.
  int64_t least = 0;
  for (int64_t columns = 1; columns <= threads; columns *= 2) {
    if (threads % columns != 0 || tiling.blockQuery % (threads / columns) != 0)
      continue;
    int64_t r = tiling.blockQuery * columns / threads;
    int64_t k = divideCeil(tiling.blockKey, columns);
    int64_t q = divideCeil(width, columns);
    int64_t cost = depth * (kQuad * r * k + kLoadCost * (r + k)) +
                   tiling.blockKey *
                       (kQuad * r * q + kLoadCost * (divideCeil(r, kQuad) + q));
    if (isValid() && cost >= least)
      continue;
    least = cost;
    columnThreads = columns;
    rowThreads = threads / columns;
    rows = r;
    keys = k;
    quads = q;
  }
  if (!isValid())
    return;
  streams = rows * keys >= kStreamedScores && rows % kQuad == 0 &&
            accumulatorBytes == 4 && depth > 0 && width > 0 && !hidesKeys &&
            tiling.blockKey % kPart == 0 && kPart % columnThreads == 0;
  int64_t quadBytes = kQuad * accumulatorBytes;
  if (streams) {
    chunk = kChunk;
    pitch = kChunk | 1;
    part = kPart;
    keyPitch = rowThreads * rowVectors() | 1;
    ahead = std::max(divideCeil(tiling.blockQuery * chunk, threads) +
                         divideCeil(tiling.blockKey * chunk, threads),
                     divideCeil(part * width, threads));
    queryBytes =
        std::max(tiling.blockQuery * pitch, part * keyPitch) * quadBytes;
    blockBytes = std::max({tiling.blockKey * pitch, part * width,
                           columnThreads * tiling.blockQuery / kQuad}) *
                 quadBytes;
    return;
  }
  chunk = depth;
  part = tiling.blockKey;
  keyPitch = rowThreads * rowVectors();
  ahead = divideCeil(tiling.blockKey * std::max(depth, width), threads);
  if (ahead > kMostAhead)
    ahead = 0;
  pitch = depth == 0 ? 0 : depth | 1;
  queryBytes = tiling.blockQuery * pitch * quadBytes;
  blockBytes = tiling.blockKey * std::max(pitch, width) * quadBytes;
  if (width != 0)
    probabilityBytes = tiling.blockQuery * tiling.blockKey * accumulatorBytes;
  reductionBytes = columnThreads * tiling.blockQuery * accumulatorBytes;
  if (hidesKeys)
    seenBytes = (rowThreads * tiling.blockKey + 1) * sizeof(int32_t);
}
