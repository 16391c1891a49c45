//===- CostModel.cpp - Traffic and predicted time of a schedule -----------===//
//
// A roofline with three roofs. Compute: each task's matrix and softmax cycles,
// as far as the schedule does not overlap them, on the chip's units, tasks
// counted whole. Cache: what tiles pull from the level below the one that they
// live in. Memory: the tiled traffic of the paper, less what the shared cache
// serves when the keys and values of the heads in flight stay in it.
//
// The model ranks schedules of one back end against each other. Its absolute
// times are printed and compared with measurements, not promised.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::planner;

std::string planner::formatBytes(double bytes) {
  static const char *const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  // Small odd counts, such as registers, read best as they are.
  if (bytes < 8192 && std::fmod(bytes, 1024) != 0)
    return llvm::formatv("{0:f0} B", bytes);
  unsigned unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  bool whole = bytes == std::floor(bytes) || bytes >= 100;
  return whole ? llvm::formatv("{0:f0} {1}", bytes, kUnits[unit]).str()
               : llvm::formatv("{0:f1} {1}", bytes, kUnits[unit]).str();
}

void planner::addBudget(Candidate &candidate, llvm::StringRef memory,
                        int64_t limit) {
  MemoryBudget budget{memory.str(), 0, limit};
  for (const TileUse &use : candidate.tiles)
    if (use.memory == memory)
      budget.used += use.bytes;
  if (budget.used > limit && candidate.rejection.empty())
    candidate.rejection =
        llvm::formatv("needs {0} of {1}, the budget is {2}",
                      formatBytes(budget.used), memory, formatBytes(limit));
  candidate.budgets.push_back(std::move(budget));
}

double planner::scoresPerCycle(const AttentionProblem &problem,
                               const TargetDescription &target) {
  // A tanh costs about an exponential and a division; a general region is
  // taken as a handful of operations; reads of a tile are cheap beside exp2.
  double weight = 1;
  weight += problem.hasSoftcap ? 1.0 : 0;
  weight += problem.hasScoreMod ? 0.5 : 0;
  weight += problem.hasMaskMod ? 0.3 : 0;
  weight += problem.hasBias ? 0.2 : 0;
  weight += problem.hasMask ? 0.2 : 0;
  weight += problem.hasSegments ? 0.1 : 0;
  return std::max<int64_t>(target.exp2Per64Cycles, 1) / 64.0 / weight;
}

namespace {
/// Sums over the query blocks of one head.
struct Sweep {
  double blocks = 0;    // query blocks
  double keyBlocks = 0; // key blocks visited
  double keys = 0;      // keys computed, with the padding of partial blocks
  double visible = 0;   // keys loaded: whole blocks
  double edgeKeys = 0;  // keys a row that are computed in blocks on an edge
  double longestKeys = 0, longestBlocks = 0;
};
} // namespace

static Sweep sweepHead(const Candidate &candidate,
                       const AttentionProblem &problem) {
  // Long sequences are sampled; the band makes the sums piecewise linear.
  constexpr int64_t kMaxSamples = 256;
  const Tiling &tiling = candidate.tiling;
  int64_t rows = tiling.blockQuery;
  int64_t skipRows =
      candidate.rates.skipRows > 0 ? candidate.rates.skipRows : rows;
  int64_t count = roundUp(problem.queryLength, rows) / rows;
  int64_t samples = problem.bandLeft || problem.bandRight
                        ? std::min(count, kMaxSamples)
                        : std::min<int64_t>(count, 1);
  // Blocks and keys that rows [first, end) compute, padding included.
  auto computed = [&](int64_t first, int64_t end) {
    AttentionProblem::KeyRange range =
        problem.visibleKeys(first, std::min(end, problem.queryLength) - 1);
    int64_t begin = range.lo / tiling.blockKey * tiling.blockKey;
    if (range.hi <= range.lo)
      return std::pair(0.0, 0.0);
    return std::pair<double, double>(
        roundUp(range.hi - begin, tiling.blockKey) / tiling.blockKey,
        roundUp(range.hi - begin, candidate.rates.keyGranule));
  };
  // Blocks are read whole, but for what lies behind the last key.
  auto loaded = [&](AttentionProblem::KeyRange range) -> int64_t {
    int64_t begin = range.lo / tiling.blockKey * tiling.blockKey;
    int64_t end = begin + roundUp(range.hi - begin, tiling.blockKey);
    return range.hi <= range.lo ? 0 : std::min(end, problem.kvLength) - begin;
  };
  // Of the computed keys, those in blocks that some row does not see whole.
  auto onEdge = [&](int64_t first, int64_t end, double keys) -> double {
    int64_t last = std::min(end, problem.queryLength) - 1;
    int64_t lo = roundUp(problem.visibleKeys(last, last).lo, tiling.blockKey);
    int64_t hi = problem.visibleKeys(first, first).hi / tiling.blockKey *
                 tiling.blockKey;
    return std::max(0.0, keys - std::max<int64_t>(0, hi - lo));
  };
  Sweep sweep;
  for (int64_t s = 0; s < samples; ++s) {
    // The last block is always among the samples: it is the longest if causal.
    int64_t first = (count - 1 - s * count / samples) * rows;
    int64_t end = std::min(first + rows, problem.queryLength);
    auto [keyBlocks, keys] = computed(first, end);
    double edgeKeys = onEdge(first, end, keys);
    if (skipRows < rows) {
      // Average over the rows that skip on their own.
      keys = edgeKeys = 0;
      for (int64_t row = first; row < end; row += skipRows) {
        double own = computed(row, row + skipRows).second;
        keys += own;
        edgeKeys += onEdge(row, row + skipRows, own);
      }
      int64_t parts = roundUp(end - first, skipRows) / skipRows;
      keys /= parts;
      edgeKeys /= parts;
    }
    AttentionProblem::KeyRange range = problem.visibleKeys(first, end - 1);
    sweep.keyBlocks += keyBlocks;
    sweep.keys += keys;
    sweep.edgeKeys += edgeKeys;
    sweep.visible += loaded(range);
    sweep.longestKeys = std::max(sweep.longestKeys, keys);
    sweep.longestBlocks = std::max(sweep.longestBlocks, keyBlocks);
  }
  double scale = samples == 0 ? 0 : static_cast<double>(count) / samples;
  sweep.blocks = count;
  sweep.keyBlocks *= scale;
  sweep.keys *= scale;
  sweep.edgeKeys *= scale;
  sweep.visible *= scale;
  return sweep;
}

/// Bytes that the tasks of a head read more than once from the same place.
static double again(const Sweep &sweep, const Candidate &candidate) {
  return std::max(0.0, sweep.keyBlocks - sweep.blocks) *
         candidate.rates.bytesAgainPerBlock;
}

static Traffic countTraffic(const Sweep &sweep, const AttentionProblem &problem,
                            const TargetDescription &target,
                            const Candidate &candidate) {
  int64_t blockKey = candidate.tiling.blockKey;
  double element = problem.elementBytes();
  double heads = static_cast<double>(problem.batch) * problem.queryHeads;
  double rowBytes = (problem.headDim + problem.valueDim) * element;
  double queriesAndOutputs = heads * problem.queryLength * rowBytes;

  Traffic traffic;
  traffic.standard = queriesAndOutputs + heads * problem.kvLength * rowBytes +
                     4 * heads * problem.visiblePairs() * element;
  traffic.tiled = queriesAndOutputs + heads * sweep.visible * rowBytes;
  if (problem.isBackward) {
    // Scores, probabilities and the gradients of both, written and read. Tiled,
    // output gradients come beside the queries and every gradient goes out;
    // key tasks read the rows of their blocks as query tasks read the keys.
    double gradients = queriesAndOutputs + heads * problem.kvLength * rowBytes;
    traffic.standard +=
        gradients + 4 * heads * problem.visiblePairs() * element;
    traffic.tiled += gradients + heads * problem.visiblePairs() /
                                     std::max<int64_t>(1, blockKey) * rowBytes;
  }

  // Tasks run head by head, so the units share the keys and values of a few.
  double kvHead = problem.kvLength * rowBytes;
  double once = static_cast<double>(problem.batch) * problem.kvHeads * kvHead;
  double units = std::max<int64_t>(1, target.computeUnits);
  double tasksPerKvHead =
      std::max(1.0, sweep.blocks * problem.queryHeads /
                        std::max<int64_t>(1, problem.kvHeads));
  double kvHeads = static_cast<double>(problem.batch) * problem.kvHeads;
  bool mixesHeads = candidate.rates.mixesHeads;
  double working =
      mixesHeads ? once
                 : std::min(once, kvHead * std::ceil(units / tasksPerKvHead));
  double cache =
      target.family == "cpu"
          ? std::max<double>(target.lastLevelBytes, units * target.cacheBytes)
          : target.cacheBytes;
  double missing =
      working <= 0 ? 0 : std::clamp(1 - 0.75 * cache / working, 0.0, 1.0);
  double repeats = std::max(0.0, traffic.tiled - queriesAndOutputs - once);
  traffic.mainMemory =
      std::min(traffic.tiled, queriesAndOutputs + once + missing * repeats);
  // Tasks that sweep over keys in step with the others of their head find half
  // of what those have read. Measured on an H200, D 64 to 256, S 4k and 16k.
  constexpr double kFound = 0.5;
  if (mixesHeads && working > cache) {
    double inStep = std::max(1.0, units / std::max(1.0, kvHeads));
    double keys = traffic.tiled - queriesAndOutputs;
    traffic.mainMemory =
        queriesAndOutputs + std::max(once, keys / (1 + kFound * (inStep - 1)));
  }
  traffic.tiled += heads * sweep.keyBlocks * candidate.rates.bytesAgainPerBlock;
  return traffic;
}

void planner::predict(Candidate &candidate, const AttentionProblem &problem,
                      const TargetDescription &target) {
  const ScheduleRates &rates = candidate.rates;
  Sweep sweep = sweepHead(candidate, problem);
  candidate.traffic = countTraffic(sweep, problem, target, candidate);

  double heads = static_cast<double>(problem.batch) * problem.queryHeads;
  double units = std::max<int64_t>(1, target.computeUnits);
  double hertz = 1e6 * std::max<int64_t>(1, target.clockMHz);
  // Rows of the average tile: the last one of a head may be partly used.
  double rows = roundUp(problem.queryLength, rates.rowGranule) /
                std::max(sweep.blocks, 1.0);
  double matrixPerKey =
      rows * (rates.headDim + rates.valueDim) / rates.macsPerCycle;
  double softmaxPerKey = rows / rates.scoresPerCycle;
  double perKey = std::max(matrixPerKey, softmaxPerKey) +
                  (1 - rates.overlap) * std::min(matrixPerKey, softmaxPerKey);
  double perEdgeKey = rows * rates.cyclesPerEdgeScore;
  auto cycles = [&](double keys, double blocks, double tasks) {
    return keys * perKey + blocks * rates.cyclesPerBlock +
           tasks * (rates.cyclesPerTask +
                    sweep.edgeKeys / std::max(sweep.blocks, 1.0) * perEdgeKey);
  };

  double tasks = heads * sweep.blocks;
  double busiest;
  if (problem.bandLeft || problem.bandRight) {
    // Unequal tasks, the longest first: the tail is short.
    busiest = std::max(
        heads * cycles(sweep.keys, sweep.keyBlocks, sweep.blocks) / units,
        cycles(sweep.longestKeys, sweep.longestBlocks, tasks > 0));
  } else {
    // How the last round comes out is luck where sizes are not known.
    double rounds = tasks / units;
    busiest =
        (problem.isRepresentative && rounds > 1 ? rounds : std::ceil(rounds)) *
        cycles(sweep.longestKeys, sweep.longestBlocks, 1);
  }

  busiest += static_cast<double>(problem.batch) * problem.kvHeads *
             problem.kvLength * rates.cyclesPerPackedKey / units;

  Prediction &p = candidate.prediction;
  p.matrix = heads * sweep.keys * matrixPerKey / units / hertz;
  p.softmax = heads * sweep.keys * softmaxPerKey / units / hertz;
  p.compute = busiest / hertz;
  // Bytes a cycle and unit: what the cache gives, or what the requests in
  // flight bring in its latency.
  constexpr double kLatency = 1000;
  double drawn = target.cacheBytesPerCycle;
  if (rates.bytesInFlight > 0)
    drawn = std::min(drawn, rates.bytesInFlight / kLatency);
  if (drawn > 0)
    p.cache =
        (heads * sweep.visible * rates.cacheBytesPerKey +
         heads * again(sweep, candidate) + tasks * rates.cacheBytesPerTask) /
        (std::min(units, std::max(tasks, 1.0)) * drawn * hertz);
  if (target.bandwidthMBps > 0)
    p.memory = candidate.traffic.mainMemory / (1e6 * target.bandwidthMBps);
  // The resources work side by side, but never perfectly.
  constexpr double kExposed = 0.1;
  double longest = std::max({p.compute, p.cache, p.memory});
  p.total = longest + kExposed * (p.compute + p.cache + p.memory - longest);
  p.bound = longest == p.compute
                ? (p.matrix >= p.softmax ? "matrix products" : "softmax")
            : longest == p.memory ? "memory bandwidth"
                                  : "cache bandwidth";
}
