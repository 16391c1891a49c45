//===- MmaGradientTiles.h - Gradients on warps of an NVIDIA GPU -*- C++ -*-===//
//
// Warps and shared memory of the two sweeps that make gradients: one over query
// blocks, where keys and values stay (dK, dV), one over key blocks, where
// queries and output gradients stay (dQ). The planner counts by it and the
// mapping allocates by it.
//
// Warps own 16 rows of what stays. Where accumulators are too wide for a
// thread, warps share rows: each has their scores, and a part of the
// accumulators' columns. dQ is one accumulator in the place of two: half as
// many share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_MMAGRADIENTTILES_H
#define ATTN_TARGET_MMAGRADIENTTILES_H

#include "attn/Target/MmaTiles.h"

namespace attn {

struct MmaGradientTiles {
  struct Sweep {
    /// Rows that stay, and rows of a block that passes.
    int64_t rows = 0, columns = 0;
    int64_t warps = 0, split = 1;
    /// Columns of a warp's accumulators, of the head dimension and of values.
    int64_t headColumns = 0, valueColumns = 0;
    /// In shared memory: what stays and what passes (one stage), of the head
    /// dimension and of values. `exchange` is for the "fma" product.
    MmaTiles::Tile stays, staysValue, passes, passesValue, exchange;
    /// A bit for every key that some row of a warp sees.
    int64_t seenWords = 0, seenBytes = 0;
    /// Terms of a warp on their way to the gradient of a bias or capture.
    int64_t termBytes = 0;

    int64_t sharedBytes(int64_t stages) const {
      return stays.bytes() + staysValue.bytes() +
             stages * (passes.bytes() + passesValue.bytes()) +
             exchange.bytes() + seenBytes + termBytes;
    }
    /// 32-bit registers of a thread for the accumulators of f32 or f64.
    int64_t accumulatorWords(int64_t accumulatorBytes) const {
      return (headColumns + valueColumns) / 2 * (accumulatorBytes / 4);
    }
  };

  /// A term and the address of the element that it is for.
  static constexpr int64_t kTermBytes = 16;

  Sweep keys, queries;

  /// `ordersTerms`: gradients of bias or captures are added up in order.
  MmaGradientTiles(const Tiling &tiling, int64_t headDim, int64_t valueDim,
                   int64_t elementBytes, int64_t accumulatorBytes,
                   bool ordersTerms);
};

} // namespace attn

#endif // ATTN_TARGET_MMAGRADIENTTILES_H
