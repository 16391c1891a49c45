//===- TensorCoreSchedules.cpp - Schedules for Hopper's tensor cores ------===//
//
// wgmma: one producer warpgroup and one to three consumers of 64 rows, queries
// and key/value blocks in shared memory, scores, probabilities and accumulator
// in registers. The sizes are measured ones (see the table), with smaller ones
// for short sequences.
//
// Problems that TMA or wgmma cannot take have no schedule here, f32 and f64 in
// particular: the tensor cores would round f32 to TF32. Nor is there one for
// tcgen05 yet: docs/Targets.md says what its mapping would need.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/WarpgroupOrder.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers that a consumer needs beside its tiles: addresses, descriptors,
/// row statistics. Fits the measured limits: three warpgroups at D 128 take
/// key blocks of 80, two take 128.
static constexpr int64_t kWgmmaOverhead = 28;

/// What follows is fitted to 36 planned kernels and 12 others on an H200 (D 64,
/// 128, 256, full and causal, S 512 to 16k, test/bench/plan_cuda.py), which it
/// meets within 11 %. Cycles are those of the clock that a large matrix product
/// runs at under the power limit.
///
/// An attention leaves the tensor cores idle at times, which raises that clock.
static constexpr double kMacsShare = 1.185;
/// From a copy's issue to its data under load, and what a block costs beside
/// its elements: barriers, the vote.
static constexpr double kCopyLatency = 800, kBlockCycles = 183;
/// A task whose queries have a stage of their own begins beside the end of the
/// one before; else it waits for its queries and for the output to leave.
static constexpr double kTaskCycles = 1090, kLoneTaskCycles = 6980;
/// A score of a block on an edge: position, comparison, selection.
static constexpr double kEdgeScoreCycles = 0.085;

namespace {
struct TensorCoreLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  Candidates &result;

  void listWgmma() const;
  void addWgmma(int64_t groups, int64_t blockQuery, int64_t blockKey,
                int64_t stages, int64_t queryStages,
                llvm::StringRef softmax) const;

  /// Rows of 128-byte swizzled shared memory come in multiples of 64 elements.
  int64_t sharedDim(int64_t dim) const { return roundUp(dim, 64); }
  int64_t paddedDim(int64_t dim) const { return roundUp(dim, unit.k); }
  bool isUseful(const Tiling &tiling, int64_t leastQuery,
                int64_t leastKey) const;
  Candidate begin(const Tiling &tiling) const;
  void addSharedTiles(Candidate &c) const;
  void finish(Candidate &c, double overlap, double macsShare,
              double softmaxCost) const;
};
} // namespace

/// No tile beyond the sequence, rounded up to the smallest tile.
bool TensorCoreLister::isUseful(const Tiling &t, int64_t leastQuery,
                                int64_t leastKey) const {
  return t.blockQuery <=
             roundUp(std::max<int64_t>(1, problem.queryLength), leastQuery) &&
         t.blockKey <=
             roundUp(std::max<int64_t>(1, problem.kvLength), leastKey);
}

Candidate TensorCoreLister::begin(const Tiling &tiling) const {
  Candidate c;
  c.tiling = tiling;
  c.tiling.product = unit.kind;
  c.rates.headDim = paddedDim(problem.headDim);
  c.rates.valueDim = paddedDim(problem.valueDim);
  c.rates.rowGranule = tiling.blockQuery;
  c.rates.skipRows = unit.m; // a warp or warpgroup skips for its own rows
  c.rates.keyGranule = tiling.blockKey;
  int64_t blocks =
      roundUp(problem.queryLength, tiling.blockQuery) / tiling.blockQuery;
  c.rates.mixesHeads =
      problem.bandRight && blocks > WarpgroupOrder::kGroupedBlocks;
  c.rates.cacheBytesPerKey = (c.rates.headDim + c.rates.valueDim) * 2;
  c.rates.cacheBytesPerTask = tiling.blockQuery * c.rates.cacheBytesPerKey;
  return c;
}

void TensorCoreLister::addSharedTiles(Candidate &c) const {
  const Tiling &t = c.tiling;
  int64_t dim = sharedDim(problem.headDim);
  int64_t valueDim = sharedDim(problem.valueDim);
  c.tiles = {{"query", kShared, t.queryStages * t.blockQuery * dim * 2},
             {"key blocks", kShared, t.stages * t.blockKey * dim * 2},
             {"value blocks", kShared, t.stages * t.blockKey * valueDim * 2},
             {"barriers", kShared, 1024}};
  if (problem.hasSegments)
    c.tiles.push_back({"ranges of segment ids", kShared, 2048});
}

void TensorCoreLister::finish(Candidate &c, double overlap, double macsShare,
                              double softmaxCost) const {
  ScheduleRates &rates = c.rates;
  rates.overlap = overlap;
  rates.macsPerCycle = macsShare * unit.macsPerCycle;
  rates.scoresPerCycle = scoresPerCycle(problem, target) / softmaxCost;
  // What of a copy the other stages' work does not hide is exposed.
  double blockCycles = static_cast<double>(c.tiling.blockQuery) *
                       c.tiling.blockKey * (rates.headDim + rates.valueDim) /
                       std::max(1.0, rates.macsPerCycle);
  rates.cyclesPerBlock =
      kBlockCycles +
      std::max(0.0, kCopyLatency - (c.tiling.stages - 1) * blockCycles);
  rates.cyclesPerTask =
      c.tiling.queryStages > 1 ? kTaskCycles : kLoneTaskCycles;
  rates.cyclesPerEdgeScore = kEdgeScoreCycles;
  rates.bytesInFlight =
      c.tiling.stages * c.tiling.blockKey * rates.cacheBytesPerKey;
  result.push_back(std::move(c));
}

void TensorCoreLister::addWgmma(int64_t groups, int64_t blockQuery,
                                int64_t blockKey, int64_t stages,
                                int64_t queryStages,
                                llvm::StringRef softmax) const {
  Tiling t;
  t.groups = groups;
  t.blockQuery = blockQuery;
  t.blockKey = blockKey;
  t.stages = stages;
  t.queryStages = queryStages;
  t.softmax = softmax.str();
  if (!isUseful(t, unit.m, 32))
    return;
  Candidate c = begin(t);
  addSharedTiles(c);
  int64_t split = groups * unit.m / blockQuery; // of the accumulator's columns
  constexpr int64_t kThreads = 128;
  int64_t accumulator = unit.m * roundUp(problem.valueDim, 8 * split) / split;
  if (softmax == "raised") {
    // The row sums come out of the product with a column of ones.
    accumulator += unit.m * 8;
    c.tiles.push_back({"ones", kShared, 2048});
  }
  c.tiles.push_back({"accumulator", kRegisters, accumulator * 4 / kThreads});
  c.tiles.push_back({"scores", kRegisters, unit.m * blockKey * 4 / kThreads});
  c.tiles.push_back(
      {"probabilities", kRegisters, unit.m * blockKey * 2 / kThreads});
  c.tiles.push_back(
      {"statistics and addresses", kRegisters, kWgmmaOverhead * 4});
  addBudget(c, kShared, target.scratchBytes);
  // setmaxnreg: what the producer gives up goes to the consumers; a search for
  // blocks keeps some.
  int64_t registers = (groups >= 3 ? 160 : 240) - (problem.hasSegments ? 8 : 0);
  addBudget(c, kRegisters, registers * 4);

  // Q and K both come from shared memory, 128 bytes a cycle: key blocks below
  // 64 starve the tensor cores.
  double starved = std::max(1.0, (unit.m + blockKey) / (2.0 * blockKey));
  double macs = problem.headDim + problem.valueDim;
  double share =
      macs == 0 ? 1
                : macs / (problem.headDim * starved + problem.valueDim * 1.0);
  // Warpgroups take turns; alone, only the next Q K overlaps the softmax.
  double overlap = split > 1     ? 0.5
                   : groups == 1 ? 0.6
                   : groups == 2 ? 0.86
                                 : 1.0;
  // Measured: conditional rescaling costs 11 to 14 % over a stale maximum.
  double cost = softmax == "raised"        ? 1.0
                : softmax == "stale"       ? 1.05
                : softmax == "conditional" ? 1.2
                                           : 1.4;
  finish(c, overlap, kMacsShare * share / split, cost);
}

/// What the mapping to TMA and wgmma takes: tensor maps of whole units of 16
/// bytes, accumulators of one thread, masks by position or by segments.
static bool takesWgmma(const AttentionProblem &p) {
  auto chunks = [](int64_t dim) { return roundUp(dim, 64); };
  return p.hasTensorMaps && p.headDim > 0 && p.valueDim > 0 &&
         p.kvLength != 0 && p.headDim <= 256 && p.valueDim <= 256 &&
         p.valueDim % 8 == 0 && chunks(p.valueDim) <= chunks(p.headDim) &&
         !p.hasMask && !p.hasMaskMod;
}

void TensorCoreLister::listWgmma() const {
  struct Schedule {
    int64_t maxDim, groups, blockKey, stages, queryStages;
  };
  // Measured on an H200 to beat cuDNN's forward, except the last two rows:
  // they serve short sequences.
  static constexpr Schedule kSchedules[] = {
      {64, 3, 128, 4, 2}, {128, 3, 64, 4, 2}, {128, 2, 128, 2, 2},
      {192, 2, 80, 2, 2}, {256, 2, 80, 2, 1}, {256, 2, 64, 2, 1},
      {256, 1, 64, 2, 1}, {256, 1, 32, 2, 1}};
  int64_t dim = std::max(problem.headDim, problem.valueDim);
  // An lse is that of probabilities that were not rounded.
  bool raises = unit.type == "bf16" && !problem.returnsLse &&
                problem.valueDim % 64 == 0 && problem.valueDim <= 128;
  // Under segments tasks are short, and the search for blocks has the registers
  // of a third warpgroup.
  int64_t mostGroups = problem.hasSegments ? 2 : 3;
  for (const Schedule &s : kSchedules)
    if (dim <= s.maxDim && s.groups <= mostGroups)
      addWgmma(s.groups, s.groups * unit.m, s.blockKey, s.stages, s.queryStages,
               raises ? "raised" : "stale");
}

void planner::listTensorCoreSchedules(const AttentionProblem &problem,
                                      const TargetDescription &target,
                                      Candidates &result) {
  for (const MatrixUnit &unit : target.matrixUnits) {
    if (unit.type != problem.elementType)
      continue;
    TensorCoreLister lister{problem, target, unit, result};
    if (unit.kind == "wgmma" && takesWgmma(problem))
      lister.listWgmma();
  }
}
