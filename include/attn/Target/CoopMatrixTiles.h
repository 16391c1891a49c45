//===- CoopMatrixTiles.h - Memory of cooperative-matrix kernels -*- C++ -*-===//
//
// Where a kernel of the "coopmat" product on a Vulkan device keeps its tiles.
// The planner counts by it and the mapping allocates by it.
//
// Subgroups own 16 rows of queries, or a few times 16. Shared memory holds a
// key block and a value block, of which the query tile takes the place before
// the first, and for each subgroup a matrix of f32 through which its rows are
// reduced. Eight elements more a row keep loads on different banks. Where masks
// can hide a key from all rows, a bit for each key of the block, and a vote.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_COOPMATRIXTILES_H
#define ATTN_TARGET_COOPMATRIXTILES_H

#include "attn/IR/TargetDescription.h"

namespace attn {

struct CoopMatrixTiles {
  struct Tile {
    /// Rows, elements of a row that the products read, and elements from row
    /// to row.
    int64_t rows = 0, columns = 0, pitch = 0;

    int64_t bytes() const { return rows * pitch * kElementBytes; }
  };

  /// Rows, columns and depth of a matrix, and what its elements take.
  static constexpr int64_t kSide = 16, kElementBytes = 2;
  /// Elements of a 16-byte unit, which is what threads copy.
  static constexpr int64_t kUnit = 8;
  /// Words from row to row of the matrix that rows are reduced in.
  static constexpr int64_t kReductionPitch = 20;

  /// Matrices of rows that a subgroup owns.
  int64_t slabs = 1;
  int64_t subgroups = 1, lanes = 32;
  Tile query, key, value;
  /// Words of which keys are seen; the word behind them is the vote's.
  int64_t seenWords = 0;

  /// `hidesKeys`: a mask can hide a whole key from a task, or a whole block.
  CoopMatrixTiles(const Tiling &tiling, int64_t headDim, int64_t valueDim,
                  int64_t subgroupSize, bool hidesKeys);

  int64_t threads() const { return subgroups * lanes; }
  /// Elements of a matrix that one thread holds.
  int64_t elements() const { return kSide * kSide / lanes; }
  /// Bytes of the key and value block, or of the query tile.
  int64_t tileBytes() const;
  int64_t reductionBytes() const {
    return subgroups * kSide * kReductionPitch * 4;
  }
  int64_t seenBytes() const { return seenWords == 0 ? 0 : 4 * (seenWords + 1); }
  int64_t sharedBytes() const {
    return tileBytes() + reductionBytes() + seenBytes();
  }
};

} // namespace attn

#endif // ATTN_TARGET_COOPMATRIXTILES_H
