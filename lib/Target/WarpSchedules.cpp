//===- WarpSchedules.cpp - Schedules of warps on NVIDIA GPUs --------------===//
//
// mma (mma.sync) for f16 and bf16, fma (multiply-adds) for f32 and f64: warps
// of 16 or 32 rows, query tile and key/value blocks in shared memory as
// MmaTiles lays them out, scores and accumulator in registers. Where a row's
// accumulator is too wide for a thread, warps share rows: each computes their
// scores and has a part of the accumulator's columns.
//
// These schedules take every problem; tensor cores never see f32 or f64, which
// they would round.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/MmaTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

/// Registers beside scores and accumulator: addresses, factors, statistics.
static constexpr int64_t kOverhead = 50, kSlabOverhead = 7;
/// And for what is tested or added to a score: positions, addresses.
/// And for the polynomial that is an f64 exponential.
static constexpr int64_t kPositionOverhead = 8, kOperandOverhead = 48,
                         kDoubleOverhead = 32;

/// Cycles from a copy's issue to its data under load, and what barriers, votes
/// and the maximum of a row cost in a block.
static constexpr double kCopyLatency = 1000;
static constexpr double kBlock = 250;

namespace {
struct WarpLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  Candidates &result;

  bool isMma() const { return unit.kind == "mma"; }
  void add(const Tiling &tiling) const;
  void list() const;
  void addTiles(Candidate &c, const MmaTiles &tiles) const;
  void addRates(Candidate &c, const MmaTiles &tiles) const;
};
} // namespace

/// Registers of a thread that no tile is in.
static int64_t countOthers(const AttentionProblem &p, int64_t slabs) {
  int64_t count = kOverhead + slabs * kSlabOverhead;
  if (p.accumulatorBytes() == 8)
    count += kDoubleOverhead;
  bool usesPositions = p.bandLeft || p.bandRight || p.hasScoreMod ||
                       p.hasKvLengths || p.hasSinks || p.hasSoftcap;
  if (p.hasMask || p.hasMaskMod || p.hasBias || p.hasSegments)
    return count + kOperandOverhead * slabs;
  return usesPositions ? count + kPositionOverhead : count;
}

void WarpLister::addTiles(Candidate &c, const MmaTiles &tiles) const {
  const Tiling &t = c.tiling;
  int64_t words = problem.accumulatorBytes() / 4;
  c.tiles = {{"query", kShared, tiles.query.bytes()},
             {"key blocks", kShared, t.stages * tiles.key.bytes()},
             {"value blocks", kShared, t.stages * tiles.value.bytes()},
             {"seen keys", kShared, tiles.seenBytes}};
  if (!isMma())
    c.tiles.push_back({"probabilities", kShared, tiles.probabilities.bytes()});
  // Probabilities take the place of their scores, except under a stale maximum,
  // which keeps those of a slab until its vote.
  auto addRegisters = [&](const char *tile, int64_t elements) {
    c.tiles.push_back({tile, kRegisters, elements * words * 4});
  };
  addRegisters("accumulator", tiles.slabs * tiles.accumulatorColumns / 2);
  addRegisters("scores", tiles.slabs * t.blockKey / 2);
  if (t.softmax == "stale")
    addRegisters("probabilities", t.blockKey / 4);
  c.tiles.push_back({"statistics and addresses", kRegisters,
                     countOthers(problem, tiles.slabs) * 4});
  addBudget(c, kShared, target.scratchBytes);
  constexpr int64_t kAllRegisters = 255;
  int64_t registers =
      target.registersPerThread > 0 ? target.registersPerThread : kAllRegisters;
  addBudget(c, kRegisters, registers * 4);
}

/// A right side is loaded from shared memory once for all slabs of a warp.
/// Measured on an H200: at D 128 four warps of two slabs reach 72 % of the
/// unit's peak.
static double tensorCorePeak(const MmaTiles &tiles) {
  return tiles.slabs > 1 ? 0.72 : 0.54;
}

/// A load from shared memory takes as long as four multiply-adds. For a step of
/// 16 bytes along the depth a thread loads each of its rows and columns; for a
/// key its probabilities, four at a time, and pairs of values.
static double lanePeak(const AttentionProblem &problem, const Tiling &t,
                       const MmaTiles &tiles) {
  double rows = 2.0 * tiles.slabs, columns = t.blockKey / 4.0;
  double width = std::max<double>(tiles.accumulatorColumns / 4.0, 1);
  double depth = 16.0 / problem.elementBytes();
  auto share = [](double products, double loads) {
    return products / (products + 4 * loads);
  };
  double scores = share(rows * columns * depth, rows + columns);
  double values = share(rows * width, rows / depth + width / 2);
  double macs = std::max<int64_t>(1, problem.headDim + problem.valueDim);
  return macs / (problem.headDim / scores + problem.valueDim / values + 1e-9);
}

void WarpLister::addRates(Candidate &c, const MmaTiles &tiles) const {
  const Tiling &t = c.tiling;
  // Warps of one multiprocessor hide each other's softmax; how many are
  // resident is decided by shared memory and registers.
  constexpr int64_t kLanes = MmaTiles::kLanes;
  int64_t residentByShared =
      std::max(target.unitScratchBytes, target.scratchBytes) /
      std::max<int64_t>(1, c.budgets[0].used + 1024);
  int64_t registers = roundUp(c.budgets[1].used / 4, 8);
  int64_t residentByRegisters =
      target.registersPerUnit /
      std::max<int64_t>(1, t.groups * kLanes * registers);
  int64_t resident =
      t.groups * std::clamp<int64_t>(
                     std::min(residentByShared, residentByRegisters), 1, 8);
  ScheduleRates &rates = c.rates;
  rates.overlap = resident >= 16  ? 0.75
                  : resident >= 8 ? 0.65
                  : resident >= 4 ? 0.4
                                  : 0.2;
  double busy = std::min(1.0, resident / 8.0);
  double peak = isMma() ? tensorCorePeak(tiles) : lanePeak(problem, t, tiles);
  // Measured: eight warps wait for each other longer than four.
  if (t.groups >= 8)
    peak *= 0.9;
  double macs = std::max<int64_t>(1, problem.headDim + problem.valueDim);
  double share =
      macs / (problem.headDim * tiles.split + problem.valueDim + 1e-9);
  rates.macsPerCycle =
      std::max(unit.macsPerCycle * peak * busy * std::min(share, 1.0), 1e-3);
  rates.scoresPerCycle = scoresPerCycle(problem, target) /
                         (t.softmax == "stale" ? 1.05 : 1.2) / tiles.split /
                         (problem.accumulatorBytes() / 4);
  double blockCycles = static_cast<double>(t.blockQuery) * t.blockKey * macs /
                       std::max(1.0, rates.macsPerCycle);
  double others = std::max<int64_t>(1, resident / t.groups);
  double hidden = (t.stages - 1 + 0.5) * blockCycles * others;
  rates.cyclesPerBlock = kBlock + std::max(0.0, kCopyLatency - hidden) / others;
  rates.cyclesPerTask = 2000 / others;
  rates.bytesInFlight =
      others * t.stages * (tiles.key.bytes() + tiles.value.bytes());
}

void WarpLister::add(const Tiling &tiling) const {
  MmaTiles tiles(tiling, problem.headDim, problem.valueDim,
                 problem.elementBytes(), problem.accumulatorBytes());
  Candidate c;
  c.tiling = tiling;
  addTiles(c, tiles);
  ScheduleRates &rates = c.rates;
  rates.headDim = tiles.query.columns;
  rates.valueDim = tiles.accumulatorColumns * tiles.split;
  rates.rowGranule = tiling.blockQuery;
  rates.keyGranule = tiling.blockKey;
  rates.cacheBytesPerKey =
      (problem.headDim + problem.valueDim) * problem.elementBytes();
  rates.cacheBytesPerTask = tiling.blockQuery * rates.cacheBytesPerKey;
  addRates(c, tiles);
  result.push_back(std::move(c));
}

void WarpLister::list() const {
  // No tile beyond the sequence, rounded up to the smallest tile.
  int64_t queryEnd =
      llvm::PowerOf2Ceil(std::max<int64_t>(16, problem.queryLength));
  int64_t keyEnd = llvm::PowerOf2Ceil(std::max<int64_t>(16, problem.kvLength));
  // More scores at a time leave no registers for what is read beside them.
  bool readsOperands = problem.hasMask || problem.hasMaskMod ||
                       problem.hasBias || problem.hasSegments;
  int64_t mostKeys = readsOperands ? 64 : 128;
  Tiling t;
  t.product = unit.kind;
  // The safe range of a stale maximum is that of the probabilities' type; the
  // one of f16 is too small for it.
  t.softmax = problem.elementType == "bf16" ? "stale" : "conditional";
  for (int64_t warps : {4, 8, 2, 1, 16})
    for (int64_t blockQuery : {128, 64, 32, 16, 256})
      for (int64_t blockKey : {128, 64, 32, 16, 8})
        for (int64_t stages : {1, 2, 3}) {
          int64_t rows = warps * MmaTiles::kRows;
          int64_t slabs = std::max<int64_t>(1, blockQuery / rows);
          // Sixteen warps only share the widest rows.
          if ((warps == 16 && blockQuery > 32) || slabs > 2 ||
              rows > 16 * blockQuery || blockQuery > queryEnd ||
              blockKey > keyEnd || blockKey > mostKeys / slabs ||
              (isMma() && blockKey < 16))
            continue;
          t.groups = warps;
          t.blockQuery = blockQuery;
          t.blockKey = blockKey;
          t.stages = stages;
          add(t);
        }
}

void planner::listWarpSchedules(const AttentionProblem &problem,
                                const TargetDescription &target,
                                Candidates &result) {
  for (const MatrixUnit &unit : target.matrixUnits)
    if (unit.type == problem.elementType &&
        (unit.kind == "mma" || unit.kind == "fma"))
      WarpLister{problem, target, unit, result}.list();
}
