//===- LaneBackwardSchedules.cpp - Gradients without a matrix unit --------===//
//
// Multiply-adds of the GPU's ordinary lanes, in f32 (f64), for all devices
// behind Vulkan and OpenCL. P, dX and the accumulators lie in registers: dK and
// dV of key tasks, dQ of query tasks. Factors pass through shared memory in
// steps, and P and dX cross the threads there. All of it is of the
// accumulators' type and laid out by LaneGradientTiles.
//
// Seven products a pair: S and dP are made in both sweeps, so that no addition
// depends on an order and none is atomic.
//
//===----------------------------------------------------------------------===//

#include "LaneRates.h"
#include "attn/Target/LaneGradientTiles.h"
#include "attn/Target/LaneTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

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

/// Multiply-adds of a pair that go through at the rate of the unit in the time
/// of all seven products.
static double efficiency(const LaneGradientTiles &t, const Tiling &tiling,
                         int64_t dim, int64_t valueDim) {
  constexpr int64_t kQuad = LaneTiles::kQuad;
  double scores = laneTileEfficiency(t.rows, t.keys) *
                  usefulShare(tiling.blockQuery * tiling.blockKey, t.threads,
                              t.rows * t.keys);
  auto accumulator = [&](int64_t rows, int64_t own, int64_t quads,
                         int64_t threads) {
    int64_t each = llvm::divideCeil(quads, threads);
    double share = usefulShare(rows * quads, t.threads, own * each);
    return std::max(laneTileEfficiency(own, each * kQuad) * share, 1e-9);
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
  c.tiles = {{"a step of two factors", kLaneShared, tiles.stepBytes}};
  if (hidesKeys)
    c.tiles.push_back({"seen keys", kLaneShared, tiles.seenBytes});
  c.tiles.push_back(
      {problem.sumsPairGradients ? "P or dX, and terms" : "P or dX",
       kLaneShared, tiles.sharedBytes() - tiles.stepBytes - tiles.seenBytes});
  int64_t accumulators = std::max(tiles.keyAccumulator(tiles.depth) +
                                      tiles.keyAccumulator(tiles.width),
                                  tiles.queryAccumulator(tiles.depth));
  c.tiles.push_back(
      {"P and dX", kLaneRegisters, 2 * tiles.rows * tiles.keys * score});
  c.tiles.push_back({"accumulators", kLaneRegisters, accumulators * score});
  c.tiles.push_back({"copies under way", kLaneRegisters,
                     tiles.ahead() * LaneTiles::kQuad * score});
  c.tiles.push_back(
      {"factors and addresses", kLaneRegisters, kLaneOverhead * score});
  auto [resident, hidden] = budgetLanes(c, target, threads);
  ScheduleRates &rates = c.rates;
  rates.macsPerCycle =
      unit.macsPerCycle *
      std::max(efficiency(tiles, c.tiling, dim, valueDim) * hidden, 1e-3);
  rates.scoresPerCycle =
      scoresPerCycle(problem, target) * hidden / (score == 8 ? 4 : 2);
  rates.overlap = 0.3;
  // Two barriers a step, and loads that nothing hides, in either sweep.
  int64_t steps = llvm::divideCeil(tiles.depth + tiles.width, tiles.chunk);
  rates.cyclesPerBlock = 2 * 60 * steps + 60 * blockQuery * 2 / tiles.part +
                         60 * blockKey / tiles.part + 6 * 300;
  rates.cyclesPerTask = 2 * 2000;
  rates.headDim = 4 * dim;
  rates.valueDim = 3 * valueDim;
  rates.rowGranule = blockQuery;
  rates.keyGranule = blockKey;
  // A pair of blocks is fetched for S and dP, and one of them for each sum.
  double perKey = static_cast<double>(blockQuery) / blockKey;
  rates.cacheBytesPerKey = static_cast<double>(dim + valueDim) * element *
                           (2 * (1 + perKey) + perKey + 0.5);
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
