//===- WarpgroupBackwardSchedules.cpp - Gradients on Hopper ---------------===//
//
// wgmma over key blocks: a producer warpgroup and two consumers of 64 keys that
// hold dK and dV, query blocks passing by in stages, dQ added up in main
// memory. Five products a pair: S, dP, dV, dK, dQ. Where equal inputs have to
// give equal bits, key blocks add in order. With wide heads dQ is computed by a
// kernel of its own, with seven products a pair: there the two consumers share
// 64 keys, one with dV and the other with dK. The sizes are measured ones.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers that a consumer needs beside its tiles.
static constexpr int64_t kOverhead = 28;

namespace {
struct Schedule {
  int64_t maxDim, blockQuery, blockKey, stages;
  const char *queryGradient;

  bool isAccumulated() const {
    return llvm::StringRef(queryGradient) != "recomputed";
  }
  bool isDeterministic() const {
    return llvm::StringRef(queryGradient) != "accumulated";
  }
  bool splitsRoles() const { return blockKey == 64; }
};
} // namespace

/// What the mapping takes: tensor maps of whole units of 16 bytes, masks by
/// position, gradients that no pair adds to beside those of query, key and
/// value.
static bool takesWgmma(const AttentionProblem &p) {
  return p.hasTensorMaps && p.headDim > 0 && p.valueDim > 0 &&
         p.headDim % 8 == 0 && p.valueDim % 8 == 0 && p.queryLength != 0 &&
         p.kvLength != 0 && !p.hasMask && !p.hasMaskMod && !p.hasSegments &&
         !p.sumsPairGradients;
}

static bool takesSchedule(const Schedule &s, const AttentionProblem &p) {
  // Split roles leave scores, which derivatives may need, to one warpgroup.
  return std::max(p.headDim, p.valueDim) <= s.maxDim &&
         (s.isDeterministic() || !p.isDeterministic) &&
         !(s.splitsRoles() && (p.hasSoftcap || p.hasScoreMod));
}

static void addTiles(const AttentionProblem &problem, const MatrixUnit &unit,
                     const Schedule &schedule, Candidate &c) {
  constexpr int64_t kThreads = 128;
  const Tiling &t = c.tiling;
  // Rows of 128-byte swizzled shared memory hold 64 elements.
  int64_t dim = roundUp(problem.headDim, 64);
  int64_t valueDim = roundUp(problem.valueDim, 64);
  int64_t scores = unit.m * t.blockQuery;
  int64_t accumulated = schedule.splitsRoles()
                            ? std::max(problem.headDim, problem.valueDim)
                            : problem.headDim + problem.valueDim;
  c.tiles = {{"key and value", kShared, t.blockKey * (dim + valueDim) * 2},
             {"query blocks", kShared, t.stages * t.blockQuery * (dim * 2 + 4)},
             {"output gradient blocks", kShared,
              t.stages * t.blockQuery * (valueDim * 2 + 4)},
             {"barriers", kShared, 1024},
             {"accumulators", kRegisters, unit.m * accumulated * 4 / kThreads},
             {"S and dP", kRegisters, 2 * scores * 4 / kThreads},
             {"P", kRegisters, scores * 2 / kThreads},
             {"statistics and addresses", kRegisters, kOverhead * 4}};
  int64_t pairs = t.blockQuery * t.blockKey;
  if (schedule.isAccumulated())
    c.tiles.push_back({"dS", kShared, 2 * pairs * 2});
  else if (schedule.splitsRoles())
    c.tiles.push_back({"P", kShared, 2 * pairs * 4});
}

static void addSchedule(const AttentionProblem &problem,
                        const TargetDescription &target, const MatrixUnit &unit,
                        const Schedule &schedule, Candidates &result) {
  Candidate c;
  Tiling &t = c.tiling;
  t.groups = 2;
  t.blockQuery = schedule.blockQuery;
  t.blockKey = schedule.blockKey;
  t.stages = schedule.stages;
  t.product = unit.kind;
  t.queryGradient = schedule.queryGradient;
  addTiles(problem, unit, schedule, c);
  addBudget(c, kShared, target.scratchBytes);
  addBudget(c, kRegisters, 240 * 4);

  ScheduleRates &rates = c.rates;
  // S, dP and dQ come from shared memory on both sides, 64 x 64.
  rates.macsPerCycle = 0.7 * unit.macsPerCycle;
  rates.scoresPerCycle = scoresPerCycle(problem, target) / 1.5;
  rates.overlap = 0.7;
  int64_t repeated = schedule.isAccumulated() ? 0 : 1;
  rates.headDim = (3 + repeated) * roundUp(problem.headDim, unit.k);
  rates.valueDim = (2 + repeated) * roundUp(problem.valueDim, unit.k);
  rates.rowGranule = t.blockQuery;
  rates.keyGranule = t.blockKey;
  rates.cyclesPerBlock = 200;
  rates.cyclesPerTask = 3000;
  rates.cacheBytesPerKey =
      static_cast<double>(t.blockQuery) / t.blockKey *
      (2.0 * (problem.headDim + problem.valueDim) + 4.0 * problem.headDim);
  result.push_back(std::move(c));
}

void planner::listWarpgroupBackwardSchedules(const AttentionProblem &problem,
                                             const TargetDescription &target,
                                             Candidates &result) {
  const MatrixUnit *unit = target.findMatrixUnit("wgmma", problem.elementType);
  if (!unit || !takesWgmma(problem))
    return;
  // Measured on an H200 to beat cuDNN's backward. The ordered ones are the same
  // as the accumulated.
  static constexpr Schedule kSchedules[] = {
      {64, 96, 128, 3, "accumulated"}, {128, 64, 128, 2, "accumulated"},
      {64, 96, 128, 3, "ordered"},     {128, 64, 128, 2, "ordered"},
      {256, 64, 64, 2, "recomputed"},
  };
  for (const Schedule &schedule : kSchedules)
    if (takesSchedule(schedule, problem))
      return addSchedule(problem, target, *unit, schedule, result);
}
