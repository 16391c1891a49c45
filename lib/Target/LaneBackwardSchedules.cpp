//===- LaneBackwardSchedules.cpp - Gradients without a matrix unit --------===//
//
// Multiply-adds of the GPU's ordinary lanes, in f32 (f64), for all devices
// behind Vulkan and OpenCL. Key tasks keep keys and values in shared memory and
// dK and dV in registers, query tasks queries, output gradients and dQ; the
// others pass by. P and dX cross the threads through shared memory. All of it
// is of the accumulators' type and laid out by LaneGradientTiles.
//
// Seven products a pair: S and dP are made in both sweeps, so that no addition
// depends on an order and none is atomic.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/LaneGradientTiles.h"
#include "attn/Target/LaneTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers for addresses, loop counters and the factors of a small product.
static constexpr int64_t kOverhead = 28;

/// Threads of a compute unit that hide the latency of shared memory.
static constexpr double kThreadsToHide = 128;

namespace {
struct LaneBackwardLister {
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
/// rows and columns, as in the forward.
static double tileEfficiency(double rows, double columns) {
  return 0.9 * std::min(1.0, rows * columns / (rows + columns) / 4);
}

/// Multiply-adds that are of use over those that the threads' parts come to.
static double usefulShare(double elements, double threads, double each) {
  return each == 0 ? 1 : elements / (threads * each);
}

/// Multiply-adds of a pair that go through at the rate of the unit in the time
/// of all seven products.
static double efficiency(const LaneGradientTiles &t, const Tiling &tiling,
                         int64_t dim, int64_t valueDim) {
  constexpr int64_t kQuad = LaneTiles::kQuad;
  double scores = tileEfficiency(t.rows, t.keys) *
                  usefulShare(tiling.blockQuery * tiling.blockKey, t.threads,
                              t.rows * t.keys);
  auto accumulator = [&](int64_t rows, int64_t own, int64_t quads,
                         int64_t threads) {
    int64_t each = llvm::divideCeil(quads, threads);
    double share = usefulShare(rows * quads, t.threads, own * each);
    return std::max(tileEfficiency(own, each * kQuad) * share, 1e-9);
  };
  double time = 2 * (dim + valueDim) / scores;
  time += dim / accumulator(tiling.blockQuery, t.rows, t.depth,
                            t.queryGradientThreads());
  for (auto [size, quads] : {std::pair(dim, t.depth), {valueDim, t.width}})
    time += size / accumulator(tiling.blockKey, t.keys, quads, t.groups());
  return std::max<double>(1, 4 * dim + 3 * valueDim) / (time + 1e-9);
}

void LaneBackwardLister::addCandidate(int64_t threads, int64_t lanes,
                                      int64_t blockQuery,
                                      int64_t blockKey) const {
  Candidate c;
  c.tiling.groups = threads / lanes;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = unit.kind;
  c.tiling.queryGradient = "recomputed";
  int64_t element = problem.elementBytes(), score = problem.accumulatorBytes();
  int64_t dim = problem.headDim, valueDim = problem.valueDim;
  bool hidesKeys = problem.hasMask || problem.hasMaskMod || problem.hasSegments;
  LaneGradientTiles tiles(c.tiling, target, dim, valueDim, score, hidesKeys,
                          problem.sumsPairGradients);
  if (!tiles.isValid())
    return;
  c.tiles = {{"query and output gradient", kShared, tiles.rowBytes},
             {"key and value", kShared, tiles.keyBytes}};
  if (hidesKeys)
    c.tiles.push_back({"seen keys", kShared, tiles.seenBytes});
  c.tiles.push_back({"P and dX, or dX and terms", kShared,
                     tiles.sharedBytes() - tiles.rowBytes - tiles.keyBytes -
                         tiles.seenBytes});
  int64_t accumulators = std::max(tiles.keyAccumulator(tiles.depth) +
                                      tiles.keyAccumulator(tiles.width),
                                  tiles.queryAccumulator(tiles.depth));
  c.tiles.push_back(
      {"P and dX", kRegisters, 2 * tiles.rows * tiles.keys * score});
  c.tiles.push_back({"accumulators", kRegisters, accumulators * score});
  c.tiles.push_back({"factors and addresses", kRegisters, kOverhead * score});
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
  ScheduleRates &rates = c.rates;
  rates.macsPerCycle =
      unit.macsPerCycle *
      std::max(efficiency(tiles, c.tiling, dim, valueDim) * hidden, 1e-3);
  rates.scoresPerCycle =
      scoresPerCycle(problem, target) * hidden / (score == 8 ? 4 : 2);
  rates.overlap = 0.3;
  rates.cyclesPerBlock = 2 * 600; // barriers and loads that nothing hides
  rates.cyclesPerTask = 2 * 2000;
  rates.headDim = 4 * dim;
  rates.valueDim = 3 * valueDim;
  rates.rowGranule = blockQuery;
  rates.keyGranule = blockKey;
  // Each pair of blocks moves the one to the other and the other to the one.
  rates.cacheBytesPerKey = static_cast<double>(dim + valueDim) * element *
                           (1 + static_cast<double>(blockQuery) / blockKey);
  rates.cacheBytesPerTask = 2.0 * blockQuery * (dim + valueDim) * element;
  rates.bytesInFlight = 64.0 * threads * std::min<int64_t>(resident, 4);
  result.push_back(std::move(c));
}

void LaneBackwardLister::list() const {
  int64_t lanes = lanesOfGroup(target);
  int64_t limit =
      target.maxWorkgroupThreads > 0 ? target.maxWorkgroupThreads : 128;
  int64_t queryEnd =
      llvm::PowerOf2Ceil(std::max<int64_t>(1, problem.queryLength));
  int64_t keyEnd = std::max<int64_t>(
      8, llvm::PowerOf2Ceil(std::max<int64_t>(1, problem.kvLength)));
  for (int64_t threads : {32, 64, 128, 256})
    for (int64_t blockQuery : {1, 2, 4, 8, 16, 32, 64})
      for (int64_t blockKey : {1, 2, 4, 8, 16, 32, 64})
        if (threads <= limit && threads % lanes == 0 &&
            blockQuery <= queryEnd && blockKey <= keyEnd)
          addCandidate(threads, lanes, blockQuery, blockKey);
}

void planner::listLaneBackwardSchedules(const AttentionProblem &problem,
                                        const TargetDescription &target,
                                        Candidates &result) {
  const char *type = problem.elementType == "f64" ? "f64" : "f32";
  if (const MatrixUnit *unit = target.findMatrixUnit("fma", type))
    LaneBackwardLister{problem, target, *unit, result}.list();
}
