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

#include "LaneRates.h"
#include "attn/Target/LaneTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

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
        {"query or probability part", kLaneShared, tiles.queryBytes},
        {"key or value part, row statistics", kLaneShared, tiles.blockBytes}};
  else
    c.tiles = {{"query", kLaneShared, tiles.queryBytes},
               {"key or value block", kLaneShared, tiles.blockBytes},
               {"probabilities", kLaneShared, tiles.probabilityBytes},
               {"row statistics", kLaneShared, tiles.reductionBytes}};
  if (hidesKeys)
    c.tiles.push_back({"seen keys", kLaneShared, tiles.seenBytes});
  c.tiles.push_back({"scores", kLaneRegisters, tiles.scores() * words * 4});
  c.tiles.push_back(
      {"accumulator", kLaneRegisters, tiles.accumulator() * words * 4});
  c.tiles.push_back({"copies under way", kLaneRegisters,
                     tiles.ahead * LaneTiles::kQuad * words * 4});
  int64_t factors = tiles.streams ? (tiles.rows + 1) * LaneTiles::kQuad : 0;
  c.tiles.push_back({"factors and addresses", kLaneRegisters,
                     (kLaneOverhead + factors) * words * 4});
  auto [resident, hidden] = budgetLanes(c, target, threads);
  double macs = std::max<int64_t>(1, dim + valueDim);
  double scores = laneTileEfficiency(tiles.rows, tiles.keys) *
                  usefulShare(blockQuery * blockKey, threads, tiles.scores());
  double accumulator =
      laneTileEfficiency(tiles.rows, tiles.quads * LaneTiles::kQuad) *
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
