//===- WarpBackwardSchedules.cpp - Gradients on warps of NVIDIA GPUs ------===//
//
// mma (mma.sync) for f16 and bf16, fma (multiply-adds) for f32 and f64: two
// sweeps, each with tiles that stay and tiles that pass in shared memory as
// MmaGradientTiles lays them out, scores and accumulators in registers. Seven
// products a pair, two of them done twice.
//
// These schedules take every problem. The planner asks for them where
// warpgroups have none.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/MmaGradientTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers beside tiles: addresses, factors, what is tested or added to a
/// score, and the polynomial that is an f64 exponential.
static constexpr int64_t kOverhead = 48, kPositionOverhead = 8,
                         kOperandOverhead = 46, kDoubleOverhead = 44,
                         kSeenOverhead = 12;

namespace {
struct WarpBackwardLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  Candidates &result;

  bool isMma() const { return unit.kind == "mma"; }
  int64_t countRegisters(const MmaGradientTiles::Sweep &sweep) const;
  void add(const Tiling &tiling) const;
  void addRates(Candidate &c, const MmaGradientTiles &tiles) const;
  void list() const;
};
} // namespace

/// Accumulators, S and dP, and P as a left side.
int64_t
WarpBackwardLister::countRegisters(const MmaGradientTiles::Sweep &sweep) const {
  int64_t words = problem.accumulatorBytes() / 4;
  int64_t count = kOverhead + sweep.accumulatorWords(words * 4);
  count += sweep.columns * words + (isMma() ? sweep.columns / 4 : 0);
  if (words == 2)
    count += kDoubleOverhead;
  // What clears keys that no row sees.
  if (sweep.seenWords != 0 &&
      (problem.hasMask || problem.hasMaskMod || problem.hasSegments))
    count += kSeenOverhead;
  if (problem.hasMask || problem.hasMaskMod || problem.hasBias ||
      problem.hasSegments || problem.sumsPairGradients)
    return count + kOperandOverhead + sweep.columns / 2;
  bool usesPositions = problem.bandLeft || problem.bandRight ||
                       problem.hasScoreMod || problem.hasKvLengths ||
                       problem.hasSoftcap;
  return usesPositions ? count + kPositionOverhead : count;
}

void WarpBackwardLister::addRates(Candidate &c,
                                  const MmaGradientTiles &tiles) const {
  const Tiling &t = c.tiling;
  ScheduleRates &rates = c.rates;
  int64_t memory = std::max(target.unitScratchBytes, target.scratchBytes);
  int64_t most = 1 << 10;
  for (const MmaGradientTiles::Sweep *sweep : {&tiles.keys, &tiles.queries}) {
    int64_t byShared = memory / (sweep->sharedBytes(t.stages) + 1024);
    int64_t registers = std::min<int64_t>(roundUp(countRegisters(*sweep), 8),
                                          target.registersPerThread);
    int64_t byRegisters =
        target.registersPerUnit /
        (sweep->warps * MmaTiles::kLanes * std::max<int64_t>(1, registers));
    int64_t resident =
        sweep->warps * std::max<int64_t>(1, std::min(byShared, byRegisters));
    most = std::min(most, resident);
  }
  // Warps of a multiprocessor hide each other's copies and exponentials.
  double busy = std::min(1.0, 0.4 + most / 16.0);
  double peak = isMma() ? 0.55 : 0.45;
  // Where warps share rows, each makes their scores.
  double shares = tiles.keys.split;
  rates.overlap = most >= 8 ? 0.6 : 0.3;
  rates.macsPerCycle = std::max(unit.macsPerCycle * peak * busy, 1e-3);
  rates.scoresPerCycle = scoresPerCycle(problem, target) / 3 / shares /
                         (problem.accumulatorBytes() / 4);
  // S of both sweeps, dK, dQ; dP of both sweeps, dV.
  rates.headDim = (2 + 2 * shares) * tiles.keys.stays.columns;
  rates.valueDim = (1 + 2 * shares) * tiles.keys.staysValue.columns;
  rates.rowGranule = t.blockQuery;
  rates.keyGranule = t.blockKey;
  rates.cyclesPerBlock = t.stages > 1 ? 400 : 1200;
  rates.cyclesPerTask = 3000;
  rates.cacheBytesPerKey = (problem.headDim + problem.valueDim) *
                           problem.elementBytes() *
                           (1 + double(t.blockQuery) / t.blockKey);
}

void WarpBackwardLister::add(const Tiling &tiling) const {
  bool ordersTerms = problem.isDeterministic && problem.sumsPairGradients;
  MmaGradientTiles tiles(tiling, problem.headDim, problem.valueDim,
                         problem.elementBytes(), problem.accumulatorBytes(),
                         ordersTerms);
  Candidate c;
  c.tiling = tiling;
  // Of the two sweeps the greater decides.
  const MmaGradientTiles::Sweep &keys = tiles.keys, &queries = tiles.queries;
  bool isKeys =
      keys.sharedBytes(tiling.stages) >= queries.sharedBytes(tiling.stages);
  const MmaGradientTiles::Sweep &larger = isKeys ? keys : queries;
  int64_t registers = std::max(countRegisters(keys), countRegisters(queries));
  c.tiles = {
      {isKeys ? "key and value" : "query and output gradient", kShared,
       larger.stays.bytes() + larger.staysValue.bytes()},
      {isKeys ? "query and output gradient blocks" : "key and value blocks",
       kShared,
       tiling.stages * (larger.passes.bytes() + larger.passesValue.bytes())},
      {"P and dS", kShared, larger.exchange.bytes()},
      {"seen keys and terms", kShared, larger.seenBytes + larger.termBytes},
      {"accumulators, scores, addresses", kRegisters, registers * 4}};
  addBudget(c, kShared, target.scratchBytes);
  constexpr int64_t kAllRegisters = 255;
  int64_t limit =
      target.registersPerThread > 0 ? target.registersPerThread : kAllRegisters;
  // All threads of a block have to fit the register file.
  int64_t threads = std::max(keys.warps, queries.warps) * MmaTiles::kLanes;
  if (target.registersPerUnit > 0)
    limit = std::min(limit, target.registersPerUnit / threads / 8 * 8);
  addBudget(c, kRegisters, limit * 4);
  addRates(c, tiles);
  result.push_back(std::move(c));
}

void WarpBackwardLister::list() const {
  // No tile beyond the sequence, rounded up to the smallest tile.
  int64_t queryEnd =
      llvm::PowerOf2Ceil(std::max<int64_t>(16, problem.queryLength));
  int64_t keyEnd = llvm::PowerOf2Ceil(std::max<int64_t>(16, problem.kvLength));
  Tiling t;
  t.product = unit.kind;
  t.queryGradient = "recomputed";
  for (int64_t blockKey : {16, 32, 64, 128})
    for (int64_t blockQuery : {16, 32, 64, 128})
      for (int64_t split : {1, 2, 4, 8, 16})
        for (int64_t stages : {1, 2}) {
          t.groups = blockKey / MmaTiles::kRows * split;
          if (t.groups > 16 || blockQuery > queryEnd || blockKey > keyEnd)
            continue;
          t.blockQuery = blockQuery;
          t.blockKey = blockKey;
          t.stages = stages;
          add(t);
        }
}

void planner::listWarpBackwardSchedules(const AttentionProblem &problem,
                                        const TargetDescription &target,
                                        Candidates &result) {
  for (const MatrixUnit &unit : target.matrixUnits)
    if (unit.type == problem.elementType &&
        (unit.kind == "mma" || unit.kind == "fma"))
      WarpBackwardLister{problem, target, unit, result}.list();
}
