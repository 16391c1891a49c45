//===- MmaTiles.h - Shared memory of kernels of warps -----------*- C++ -*-===//
//
// Where a kernel of the "mma" or the "fma" product on an NVIDIA GPU keeps its
// tiles. The planner counts by it and the mapping allocates by it.
//
// A row is as long as the products read it, which is in steps of 16 elements
// or 16 bytes, and then an odd number of 16-byte units: eight rows, or the four
// pairs that a warp reads together, fall on different banks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_MMATILES_H
#define ATTN_TARGET_MMATILES_H

#include "attn/IR/TargetDescription.h"

namespace attn {

struct MmaTiles {
  struct Tile {
    int64_t rows = 0;
    /// Elements of a row that the products read: zero behind the true ones.
    int64_t columns = 0;
    /// Bytes from row to row.
    int64_t pitch = 0;

    int64_t bytes() const { return rows * pitch; }
  };

  /// Rows of a native tile, all of one warp.
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kLanes = 32;

  /// Warps that share rows and split the columns of the accumulator, and
  /// native tiles of rows that a warp owns.
  int64_t split = 1, slabs = 1;
  /// Columns of the accumulator of one warp.
  int64_t accumulatorColumns = 0;
  /// `key` and `value` have the rows of one stage. `probabilities` are those of
  /// all warps; only the "fma" product keeps them here.
  Tile query, key, value, probabilities;
  /// A bit for every key that some row of a slab sees.
  int64_t seenWords = 0, seenBytes = 0;

  /// Rows of `columns` elements and zeros up to the next multiple of `step`; no
  /// columns are no tile.
  static Tile layOut(int64_t rows, int64_t columns, int64_t step,
                     int64_t elementBytes);

  MmaTiles(const Tiling &tiling, int64_t headDim, int64_t valueDim,
           int64_t elementBytes, int64_t accumulatorBytes);

  int64_t sharedBytes(const Tiling &tiling) const {
    return query.bytes() + tiling.stages * (key.bytes() + value.bytes()) +
           probabilities.bytes() + seenBytes;
  }
};

} // namespace attn

#endif // ATTN_TARGET_MMATILES_H
