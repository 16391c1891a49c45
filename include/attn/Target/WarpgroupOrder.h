//===- WarpgroupOrder.h - The order of tasks on Hopper ----------*- C++ -*-===//
//
// Under a diagonal the tasks of all heads are dealt out together, longest
// first. Where heads have few query blocks, they are taken in groups whose keys
// and values stay in L2. The mapping (TileOrder.cpp) does it so, the cost model
// counts it so.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_WARPGROUPORDER_H
#define ATTN_TARGET_WARPGROUPORDER_H

#include <cstdint>

namespace attn {

/// Up to this many query blocks of a head, heads are taken in groups of about
/// so many bytes of keys and values. Measured on an H200: with more, the groups
/// cost more balance than they save traffic, which falls to a quarter (S 4096,
/// D 64 and 128: 0.95 to 1.0 of the speed).
struct WarpgroupOrder {
  static constexpr int64_t kGroupedBlocks = 12;
  static constexpr int64_t kGroupBytes = int64_t(16) << 20;
};

} // namespace attn

#endif // ATTN_TARGET_WARPGROUPORDER_H
