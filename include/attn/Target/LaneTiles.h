//===- LaneTiles.h - Tiles of kernels of ordinary lanes ---------*- C++ -*-===//
//
// How the threads of a workgroup share the tiles of the "fma" product behind
// Vulkan, and what of them lies in shared memory. The planner counts by it and
// the mapping allocates by it.
//
// Threads form a grid of `rowThreads` x `columnThreads`; two rows of it
// alternate from thread to thread, since memory serves neighbours that read one
// address, or every other one of them, together. A thread owns the rows r, r +
// rowThreads, ... of its row number r, the keys c, c + columnThreads,
// ... of its column number c, and of the accumulator's columns the quads of
// four with the numbers c, c + columnThreads, ... Neighbours read neighbouring
// rows of keys; as a row is an odd number of quads long, those lie in different
// banks.
//
// A small tile keeps its queries in shared memory for the whole sweep, and a
// block of keys or values beside them. Where a thread's tile is large, there is
// no room for that, and so many products for a number that it can be fetched
// again: then queries and keys pass in chunks of the depth, probabilities and
// values in parts of the block ("streams").
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_LANETILES_H
#define ATTN_TARGET_LANETILES_H

#include "attn/IR/TargetDescription.h"

namespace attn {

struct LaneTiles {
  /// Elements that are loaded together.
  static constexpr int64_t kQuad = 4;

  int64_t threads = 0, rowThreads = 0, columnThreads = 0;
  /// Of one thread: rows, keys of a block, quads of the accumulator's columns.
  int64_t rows = 0, keys = 0, quads = 0;
  /// Quads of a row of queries and keys; quads of a row of values, which lie
  /// without gaps.
  int64_t depth = 0, width = 0;
  bool streams = false;
  /// Quads of the depth that are in shared memory together, and from one row of
  /// them to the next.
  int64_t chunk = 0, pitch = 0;
  /// Keys whose probabilities and values are in shared memory together, and
  /// vectors of probabilities from one key to the next.
  int64_t part = 0, keyPitch = 0;
  /// Quads that a thread copies to shared memory at a time, held in registers
  /// while a product runs; 0: too many, they are copied in between.
  int64_t ahead = 0;
  /// Bytes in shared memory. Keys, then values, pass through `block`;
  /// `reduction` carries a number a row across the threads that share it,
  /// `seen` which keys the rows of each row of threads see, and a vote. Where
  /// the tile streams, `query` holds probabilities as well, and `block` what
  /// is reduced.
  int64_t queryBytes = 0, blockBytes = 0, probabilityBytes = 0,
          reductionBytes = 0, seenBytes = 0;

  /// `hidesKeys`: a mask can hide a whole key from a task, or a whole block.
  LaneTiles(const Tiling &tiling, const TargetDescription &target,
            int64_t headDim, int64_t valueDim, int64_t accumulatorBytes,
            bool hidesKeys);

  /// Whether every thread has a row.
  bool isValid() const { return rowThreads > 0; }
  int64_t sharedBytes() const {
    return queryBytes + blockBytes + probabilityBytes + reductionBytes +
           seenBytes;
  }
  /// Numbers of a thread's scores and of its part of the accumulator.
  int64_t scores() const { return rows * keys; }
  int64_t accumulator() const { return rows * quads * kQuad; }
  /// Probabilities of a thread's rows for one key are stored together, in
  /// vectors of that many.
  int64_t rowVectors() const { return rows / rowVector(); }
  int64_t rowVector() const {
    return rows % kQuad == 0 ? kQuad : rows % 2 == 0 ? 2 : 1;
  }
};

/// Invocations of a group of #attn.tiling: a subgroup, or 32 where its size
/// must not be assumed.
int64_t lanesOfGroup(const TargetDescription &target);

} // namespace attn

#endif // ATTN_TARGET_LANETILES_H
