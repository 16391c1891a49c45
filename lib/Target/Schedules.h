//===- Schedules.h - What each back end can run -----------------*- C++ -*-===//
//
// Each family lists its schedules with their sizes, the on-chip memory that
// they take and the rates they reach. The cost model and the choice are common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TARGET_SCHEDULES_H
#define ATTN_LIB_TARGET_SCHEDULES_H

#include "attn/Target/TilePlanner.h"
#include "llvm/Support/MathExtras.h"

namespace attn::planner {

using Candidates = std::vector<Candidate>;

/// What the tiles of a task of a CPU may take of its thread's stack; OpenMP
/// runtimes give 4 MiB.
constexpr int64_t kStackBytes = 2 << 20;

/// `problem` has representative sizes. Each lister appends candidates whose
/// tiles, budgets and rates are filled in, those that do not fit included.
void listCpuSchedules(const AttentionProblem &problem,
                      const TargetDescription &target, Candidates &result);
/// Of the gradients.
void listCpuBackwardSchedules(const AttentionProblem &problem,
                              const TargetDescription &target,
                              Candidates &result);
/// Rows and vectors of a register tile: as many accumulators as leave room for
/// one row of the right factor and a broadcast of the left one. Measured: a
/// tile over the budget spills and halves the speed; smaller ones wait for
/// loads or for the latency of the multiply-add.
std::pair<int64_t, int64_t> registerTile(const TargetDescription &target);
/// Tensor cores of warpgroups: wgmma.
void listTensorCoreSchedules(const AttentionProblem &problem,
                             const TargetDescription &target,
                             Candidates &result);
/// The same, of the gradients.
void listWarpgroupBackwardSchedules(const AttentionProblem &problem,
                                    const TargetDescription &target,
                                    Candidates &result);
/// Warps of an NVIDIA GPU: mma.sync and multiply-adds.
void listWarpSchedules(const AttentionProblem &problem,
                       const TargetDescription &target, Candidates &result);
/// The same, of the gradients.
void listWarpBackwardSchedules(const AttentionProblem &problem,
                               const TargetDescription &target,
                               Candidates &result);
/// KHR cooperative matrices.
void listCoopMatrixSchedules(const AttentionProblem &problem,
                             const TargetDescription &target,
                             Candidates &result);
/// Multiply-adds of the GPU's ordinary lanes.
void listLaneSchedules(const AttentionProblem &problem,
                       const TargetDescription &target, Candidates &result);
/// The same, of the gradients.
void listLaneBackwardSchedules(const AttentionProblem &problem,
                               const TargetDescription &target,
                               Candidates &result);

/// Adds a budget over all tiles of `memory`, rounded up tile by tile.
void addBudget(Candidate &candidate, llvm::StringRef memory, int64_t limit);

/// Fills traffic and prediction.
void predict(Candidate &candidate, const AttentionProblem &problem,
             const TargetDescription &target);

/// Scores that a unit takes through the softmax in a cycle: its exponentials,
/// less what the op adds to a score.
double scoresPerCycle(const AttentionProblem &problem,
                      const TargetDescription &target);

inline int64_t roundUp(int64_t value, int64_t multiple) {
  return multiple <= 1 ? value : (value + multiple - 1) / multiple * multiple;
}

/// A byte count for a person: 512 B, 36 KiB, 1.2 MiB.
std::string formatBytes(double bytes);

} // namespace attn::planner

#endif // ATTN_LIB_TARGET_SCHEDULES_H
