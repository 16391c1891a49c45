//===- LaneProduct.h - Products of factors in shared memory -----*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEPRODUCT_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEPRODUCT_H

#include "LaneThread.h"

namespace attn::spv {

/// Rows of a tile that a thread multiplies: `count` of them from number `first`
/// on, each `distance` further; consecutive rows lie `pitch` quads apart. One
/// behind the last row, `end`, repeats that; 0: there is none.
struct FactorRows {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t count, distance, end = 0;
};
/// Adds to `sums`, [left][right], the products of the rows of two tiles along
/// `depth` quads.
Registers multiplyRows(LaneThread &thread, const FactorRows &left,
                       const FactorRows &right, int64_t depth, Registers sums);

/// Numbers that a thread takes of each line of a tile: `vectors` from number
/// `first` on; lines lie `pitch` vectors apart.
struct FactorNumbers {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t vectors;
};
/// Quads that a thread takes of each row of a tile, as FactorRows has rows.
struct FactorQuads {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t count, distance, end = 0;
};
/// Adds to `sums`, [numbers][quads][4], the products of line and row number 0,
/// 1, ... `steps` - 1.
Registers multiplyLines(LaneThread &thread, const FactorNumbers &left,
                        const FactorQuads &right, int64_t steps,
                        Registers sums);

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEPRODUCT_H
