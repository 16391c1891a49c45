//===- MmaGradientTiles.cpp - Gradients on warps of an NVIDIA GPU ---------===//

#include "attn/Target/MmaGradientTiles.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace attn;
using llvm::alignTo;

MmaGradientTiles::MmaGradientTiles(const Tiling &tiling, int64_t headDim,
                                   int64_t valueDim, int64_t elementBytes,
                                   int64_t accumulatorBytes, bool ordersTerms) {
  bool isMma = tiling.product == "mma";
  // Columns of a product come in pairs of eights, or in eights.
  int64_t step = isMma ? 16 : 8;
  auto layOut = [&](Sweep &sweep) {
    sweep.warps = sweep.rows / MmaTiles::kRows * sweep.split;
    sweep.headColumns = alignTo(headDim, step * sweep.split) / sweep.split;
    sweep.valueColumns = alignTo(valueDim, step * sweep.split) / sweep.split;
    auto tile = [&](int64_t rows, int64_t columns) {
      return MmaTiles::layOut(rows, columns * sweep.split, step, elementBytes);
    };
    sweep.stays = tile(sweep.rows, sweep.headColumns);
    sweep.staysValue = tile(sweep.rows, sweep.valueColumns);
    sweep.passes = tile(sweep.columns, sweep.headColumns);
    sweep.passesValue = tile(sweep.columns, sweep.valueColumns);
    if (!isMma)
      sweep.exchange = MmaTiles::layOut(sweep.warps * MmaTiles::kRows,
                                        sweep.columns, 4, accumulatorBytes);
  };
  keys.rows = queries.columns = tiling.blockKey;
  queries.rows = keys.columns = tiling.blockQuery;
  keys.split = std::max<int64_t>(1, tiling.groups * MmaTiles::kRows /
                                        std::max<int64_t>(1, keys.rows));
  queries.split = std::max<int64_t>(1, keys.split / 2);
  layOut(keys);
  layOut(queries);
  queries.seenWords = llvm::divideCeil(queries.columns, 32);
  queries.seenBytes = alignTo(queries.warps * queries.seenWords * 4, 16);
  // The values' accumulator is that of dV.
  queries.valueColumns = 0;
  if (ordersTerms)
    queries.termBytes = MmaTiles::kRows * queries.columns * kTermBytes;
}
