//===- LaneRates.h - What tiles of lanes cost -------------------*- C++ -*-===//
//
// What the schedules of lanes, forward and backward, count alike.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TARGET_LANERATES_H
#define ATTN_LIB_TARGET_LANERATES_H

#include "Schedules.h"

namespace attn::planner {

inline constexpr const char *kLaneShared = "shared memory";
inline constexpr const char *kLaneRegisters = "registers of a thread";

/// Registers for addresses, loop counters and the factors of a small product;
/// a large one has a quad for each of its rows.
inline constexpr int64_t kLaneOverhead = 28;

/// The share of peak that shared memory sustains for a thread's tile of so many
/// rows and columns: it loads a word of each of them for every product of all
/// with all. Measured: 43 % at 4 x 4.
double laneTileEfficiency(double rows, double columns);

/// What of the threads' tiles is of use, where each of `threads` has `each`
/// elements: the rest lies behind the edge.
double usefulShare(double elements, double threads, double each);

/// Workgroups that a unit holds, and the share of latency that they hide.
struct LaneOccupancy {
  int64_t resident;
  double hidden;
};

/// Adds the budgets of shared memory and registers to a candidate whose tiles
/// are listed, and what follows from them.
LaneOccupancy budgetLanes(Candidate &candidate, const TargetDescription &target,
                          int64_t threads);

} // namespace attn::planner

#endif // ATTN_LIB_TARGET_LANERATES_H
