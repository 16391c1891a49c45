//===- WarpgroupBackwardSchedules.cpp - Gradients on Hopper ---------------===//
//
// wgmma over key blocks: a producer warpgroup and two consumers of 64 keys that
// hold dK and dV, query blocks passing by in stages, dQ added up in main
// memory. Five products a pair: S, dP, dV, dK, dQ. The sizes are measured ones.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers that a consumer needs beside its tiles.
static constexpr int64_t kOverhead = 28;

namespace {
struct Schedule {
  int64_t maxDim, blockQuery, stages;
};
} // namespace

/// What the mapping takes: tensor maps of whole units of 16 bytes, masks by
/// position, no gradients but those of query, key and value.
static bool takesWgmma(const AttentionProblem &p) {
  return p.hasTensorMaps && p.headDim > 0 && p.valueDim > 0 &&
         p.headDim % 8 == 0 && p.valueDim % 8 == 0 && p.queryLength != 0 &&
         p.kvLength != 0 && !p.hasMask && !p.hasMaskMod && !p.hasSegments &&
         !p.isDeterministic && !p.hasOtherGradients;
}

static void addSchedule(const AttentionProblem &problem,
                        const TargetDescription &target, const MatrixUnit &unit,
                        const Schedule &schedule, Candidates &result) {
  constexpr int64_t kGroups = 2, kThreads = 128;
  Candidate c;
  Tiling &t = c.tiling;
  t.groups = kGroups;
  t.blockQuery = schedule.blockQuery;
  t.blockKey = kGroups * unit.m;
  t.stages = schedule.stages;
  t.product = unit.kind;
  t.queryGradient = "accumulated";

  // Rows of 128-byte swizzled shared memory hold 64 elements.
  int64_t dim = roundUp(problem.headDim, 64);
  int64_t valueDim = roundUp(problem.valueDim, 64);
  int64_t scores = unit.m * t.blockQuery;
  c.tiles = {{"key and value", kShared, t.blockKey * (dim + valueDim) * 2},
             {"query blocks", kShared, t.stages * t.blockQuery * (dim * 2 + 4)},
             {"output gradient blocks", kShared,
              t.stages * t.blockQuery * (valueDim * 2 + 4)},
             {"dS", kShared, 2 * t.blockQuery * t.blockKey * 2},
             {"barriers", kShared, 1024},
             {"accumulators", kRegisters,
              unit.m * (problem.headDim + problem.valueDim) * 4 / kThreads},
             {"S and dP", kRegisters, 2 * scores * 4 / kThreads},
             {"P", kRegisters, scores * 2 / kThreads},
             {"statistics and addresses", kRegisters, kOverhead * 4}};
  addBudget(c, kShared, target.scratchBytes);
  addBudget(c, kRegisters, 240 * 4);

  ScheduleRates &rates = c.rates;
  // S, dP and dQ come from shared memory on both sides, 64 x 64.
  rates.macsPerCycle = 0.7 * unit.macsPerCycle;
  rates.scoresPerCycle = scoresPerCycle(problem, target) / 1.5;
  rates.overlap = 0.7;
  rates.headDim = 3 * roundUp(problem.headDim, unit.k);
  rates.valueDim = 2 * roundUp(problem.valueDim, unit.k);
  rates.rowGranule = t.blockQuery;
  rates.keyGranule = t.blockKey;
  rates.cyclesPerBlock = 200;
  rates.cyclesPerTask = 3000;
  rates.cacheBytesPerKey =
      static_cast<double>(t.blockQuery) / t.blockKey *
      (2.0 * (problem.headDim + problem.valueDim) + 4.0 * dim);
  result.push_back(std::move(c));
}

void planner::listWarpgroupBackwardSchedules(const AttentionProblem &problem,
                                             const TargetDescription &target,
                                             Candidates &result) {
  const MatrixUnit *unit = target.findMatrixUnit("wgmma", problem.elementType);
  if (!unit || !takesWgmma(problem))
    return;
  // Measured on an H200 to beat cuDNN's backward.
  static constexpr Schedule kSchedules[] = {{64, 96, 3}, {128, 64, 2}};
  for (const Schedule &schedule : kSchedules)
    if (std::max(problem.headDim, problem.valueDim) <= schedule.maxDim)
      return addSchedule(problem, target, *unit, schedule, result);
}
