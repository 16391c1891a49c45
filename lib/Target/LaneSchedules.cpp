//===- LaneSchedules.cpp - Schedules without a matrix unit ----------------===//
//
// Multiply-adds of the GPU's ordinary lanes, in f32 (f64): the form for mobile
// GPUs without cooperative matrices, and for f32 and f64 on all of them.
// Queries stay in shared memory, keys and then values pass through one buffer,
// and probabilities cross the threads through another, all as the accumulator's
// type and as LaneTiles lays them out. Each thread owns a small tile of the
// scores and of the accumulator in registers.
//
// A group is a subgroup; where the subgroup size must not be assumed, it is 32
// invocations.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/LaneTiles.h"
#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers for addresses, loop counters and the factors of a small product;
/// a large one has a quad for each of its rows.
static constexpr int64_t kOverhead = 28;

/// Threads of a compute unit that hide the latency of shared memory, given the
/// independent multiply-adds of a register tile.
static constexpr double kThreadsToHide = 128;

namespace {
struct LaneLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  Candidates &result;

  void addCandidate(int64_t threads, int64_t lanes, int64_t blockQuery,
                    int64_t blockKey) const;
  void list() const;
};
} // namespace

/// The share of peak that shared memory sustains for a thread's tile of so many
/// rows and columns: it loads a word of each of them for every product of all
/// with all. Measured: 43 % at 4 x 4.
static double tileEfficiency(double rows, double columns) {
  return 0.9 * std::min(1.0, rows * columns / (rows + columns) / 4);
}

/// What of a thread's tile is of use: the rest lies behind the tile's edge.
static double usefulShare(double elements, double threads, double each) {
  return each == 0 ? 1 : elements / (threads * each);
}

void LaneLister::addCandidate(int64_t threads, int64_t lanes,
                              int64_t blockQuery, int64_t blockKey) const {
  Candidate c;
  c.tiling.groups = threads / lanes;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = unit.kind;
  c.tiling.softmax = "conditional";
  int64_t element = problem.elementBytes(), score = problem.accumulatorBytes();
  int64_t words = score / 4;
  int64_t dim = problem.headDim, valueDim = problem.valueDim;
  bool hidesKeys = problem.hasMask || problem.hasMaskMod || problem.hasSegments;
  LaneTiles tiles(c.tiling, target, dim, valueDim, score, hidesKeys);
  if (!tiles.isValid())
    return;
  if (tiles.streams)
    c.tiles = {
        {"query or probability part", kShared, tiles.queryBytes},
        {"key or value part, row statistics", kShared, tiles.blockBytes}};
  else
    c.tiles = {{"query", kShared, tiles.queryBytes},
               {"key or value block", kShared, tiles.blockBytes},
               {"probabilities", kShared, tiles.probabilityBytes},
               {"row statistics", kShared, tiles.reductionBytes}};
  if (hidesKeys)
    c.tiles.push_back({"seen keys", kShared, tiles.seenBytes});
  c.tiles.push_back({"scores", kRegisters, tiles.scores() * words * 4});
  c.tiles.push_back(
      {"accumulator", kRegisters, tiles.accumulator() * words * 4});
  c.tiles.push_back({"copies under way", kRegisters,
                     tiles.ahead * LaneTiles::kQuad * words * 4});
  int64_t factors = tiles.streams ? (tiles.rows + 1) * LaneTiles::kQuad : 0;
  c.tiles.push_back(
      {"factors and addresses", kRegisters, (kOverhead + factors) * words * 4});
  addBudget(c, kShared, target.scratchBytes);
  int64_t registers =
      target.registersPerThread > 0 ? target.registersPerThread : 64;
  addBudget(c, kRegisters, registers * 4);

  int64_t resident = std::max<int64_t>(
      1, target.unitScratchBytes / std::max<int64_t>(1, c.budgets[0].used));
  if (target.registersPerUnit > 0)
    resident = std::clamp<int64_t>(
        target.registersPerUnit * 4 /
            std::max<int64_t>(1, threads * c.budgets[1].used),
        1, resident);
  double hidden =
      std::min(1.0, threads * std::min<int64_t>(resident, 8) / kThreadsToHide);
  double macs = std::max<int64_t>(1, dim + valueDim);
  double scores = tileEfficiency(tiles.rows, tiles.keys) *
                  usefulShare(blockQuery * blockKey, threads, tiles.scores());
  double accumulator =
      tileEfficiency(tiles.rows, tiles.quads * LaneTiles::kQuad) *
      usefulShare(blockQuery * valueDim, threads, tiles.accumulator());
  double efficiency =
      macs / (dim / scores + valueDim / std::max(accumulator, 1e-9) + 1e-9);
  ScheduleRates &rates = c.rates;
  rates.macsPerCycle = unit.macsPerCycle * std::max(efficiency * hidden, 1e-3);
  rates.scoresPerCycle = scoresPerCycle(problem, target) * hidden / words;
  rates.overlap = 0.3;
  rates.cyclesPerBlock = 400; // four barriers and a load that nothing hides
  rates.cyclesPerTask = 2000;
  rates.headDim = dim;
  rates.valueDim = valueDim;
  rates.rowGranule = blockQuery;
  rates.keyGranule = blockKey;
  rates.cacheBytesPerKey = (dim + valueDim) * element;
  rates.cacheBytesPerTask = blockQuery * (dim + valueDim) * element;
  if (tiles.streams)
    rates.bytesAgainPerBlock = blockQuery * dim * element;
  rates.bytesInFlight = 64.0 * threads * std::min<int64_t>(resident, 4);
  result.push_back(std::move(c));
}

void LaneLister::list() const {
  int64_t lanes = lanesOfGroup(target);
  int64_t limit =
      target.maxWorkgroupThreads > 0 ? target.maxWorkgroupThreads : 128;
  int64_t queryEnd =
      llvm::PowerOf2Ceil(std::max<int64_t>(1, problem.queryLength));
  int64_t keyEnd = std::max<int64_t>(
      8, llvm::PowerOf2Ceil(std::max<int64_t>(1, problem.kvLength)));
  for (int64_t threads : {16, 32, 64, 128, 256})
    for (int64_t blockQuery : {1, 2, 4, 8, 16, 32, 64})
      for (int64_t blockKey : {2, 4, 8, 16, 32, 64})
        if (threads <= limit && threads >= 32 && threads % lanes == 0 &&
            blockQuery <= queryEnd && blockKey <= keyEnd)
          addCandidate(threads, lanes, blockQuery, blockKey);
}

void planner::listLaneSchedules(const AttentionProblem &problem,
                                const TargetDescription &target,
                                Candidates &result) {
  const char *type = problem.elementType == "f64" ? "f64" : "f32";
  if (const MatrixUnit *unit = target.findMatrixUnit("fma", type))
    LaneLister{problem, target, *unit, result}.list();
}
