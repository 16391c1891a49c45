//===- LaneGradientTiles.h - Tiles of gradients on lanes --------*- C++ -*-===//
//
// How the threads of a workgroup share the tiles of a task of the gradients,
// and what of them lies in shared memory. The planner counts by it and the
// mapping allocates by it.
//
// Threads form a grid of groups x `columnThreads`, of which the first
// `rowThreads` groups have rows of their own. A thread owns of a block the rows
// r, r + rowThreads, ... of its group's number r modulo `rowThreads`, and the
// keys c, c + columnThreads, ... of its column number c. Small blocks are held
// more than once: then the groups behind the first copy have the same elements
// again, and parts of their own of the accumulators.
//
//   dK, dV   the thread's keys; of the columns the quads g, g + groups, ... of
//            its group's number g
//   dQ       the thread's rows; quads by its number among the threads of a row
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_LANEGRADIENTTILES_H
#define ATTN_TARGET_LANEGRADIENTTILES_H

#include "attn/IR/TargetDescription.h"

namespace attn {

struct LaneGradientTiles {
  int64_t threads = 0, rowThreads = 0, columnThreads = 0;
  /// Of one thread: rows and keys of a block.
  int64_t rows = 0, keys = 0;
  /// Quads of a row of queries and keys, and of output gradients and values.
  int64_t depth = 0, width = 0;
  /// What passes through shared memory at a time: quads along the depth of S
  /// and dP, rows or keys of the sums. The latter divide both blocks.
  int64_t chunk = 0, part = 0;
  /// Quads in shared memory of left and right factors of a step: rows of a
  /// chunk, and keys of one or whole rows of a part.
  int64_t leftQuads = 0, rightQuads = 0;
  /// Bytes in shared memory: those; P or dX; which keys are seen, and a vote;
  /// terms of sums over pairs, and where they go.
  int64_t stepBytes = 0, pairBytes = 0, seenBytes = 0, termBytes = 0;
  /// The most that the kernels of rows and sinks take, a number a thread for
  /// each of its rows. A row is shared by this many threads at most.
  static constexpr int64_t kMostRowColumns = 8;
  int64_t threadBytes = 0;

  /// `hidesKeys`: a mask can hide a whole key from a task, or a whole block.
  /// `sumsPairs`: pairs add to the gradient of a bias or of a capture.
  LaneGradientTiles(const Tiling &tiling, const TargetDescription &target,
                    int64_t headDim, int64_t valueDim, int64_t accumulatorBytes,
                    bool hidesKeys, bool sumsPairs);

  /// From a row of a chunk to the next it is an odd number of quads, so that
  /// rows lie in different banks.
  int64_t chunkPitch() const { return chunk | 1; }
  /// Quads of a step that a thread holds while it multiplies the step before.
  int64_t ahead() const;
  /// Whether blocks can be shared by the threads.
  bool isValid() const { return rowThreads > 0; }
  int64_t groups() const { return threads / columnThreads; }
  bool hasCopies() const { return groups() > rowThreads; }
  /// Threads that share a row of dQ, and a key of dK and dV.
  int64_t queryGradientThreads() const { return threads / rowThreads; }
  int64_t keyGradientThreads() const { return groups(); }
  /// Numbers of a thread in accumulators of so many quads a row.
  int64_t keyAccumulator(int64_t quads) const;
  int64_t queryAccumulator(int64_t quads) const;

  /// Of all kernels together: they share memory of one element type. The first
  /// allocations of each take the same, and so on.
  int64_t sharedBytes() const;

  /// `count` numbers of neighbours are stored together, in vectors of that
  /// many.
  static int64_t vectorOf(int64_t count) {
    return count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
  }
};

} // namespace attn

#endif // ATTN_TARGET_LANEGRADIENTTILES_H
