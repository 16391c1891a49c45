//===- LaneRates.cpp - What tiles of lanes cost ---------------------------===//

#include "LaneRates.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

/// Threads of a compute unit that hide the latency of shared memory, given the
/// independent multiply-adds of a register tile.
static constexpr double kThreadsToHide = 128;

double planner::laneTileEfficiency(double rows, double columns) {
  return 0.9 * std::min(1.0, rows * columns / (rows + columns) / 4);
}

double planner::usefulShare(double elements, double threads, double each) {
  return each == 0 ? 1 : elements / (threads * each);
}

LaneOccupancy planner::budgetLanes(Candidate &candidate,
                                   const TargetDescription &target,
                                   int64_t threads) {
  addBudget(candidate, kLaneShared, target.scratchBytes);
  int64_t registers =
      target.registersPerThread > 0 ? target.registersPerThread : 64;
  addBudget(candidate, kLaneRegisters, registers * 4);
  int64_t resident =
      std::max<int64_t>(1, target.unitScratchBytes /
                               std::max<int64_t>(1, candidate.budgets[0].used));
  if (target.registersPerUnit > 0)
    resident = std::clamp<int64_t>(
        target.registersPerUnit * 4 /
            std::max<int64_t>(1, threads * candidate.budgets[1].used),
        1, resident);
  return {resident, std::min(1.0, threads * std::min<int64_t>(resident, 8) /
                                      kThreadsToHide)};
}
