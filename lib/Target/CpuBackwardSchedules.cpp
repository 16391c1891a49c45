//===- CpuBackwardSchedules.cpp - Schedules of gradients on a CPU ---------===//
//
// The CPU back end keeps the tiles in scratch and multiplies by register tiles.
// Where pairs also add to the gradient of a bias or capture, or a mask is asked
// block by block whether it shows anything, it lowers the tiles as they stand,
// to straight code: a tile is then small enough for that code to compile in
// seconds, and what the registers do not hold lies on the stack.
//
// Key tasks hold keys, values and two accumulators for a block of keys; query
// tasks queries, output gradients and one accumulator for a block of rows.
//
// Seven products a pair, two of them done twice: S (D) and dP (Dv) in both
// sweeps, dV (Dv), dK (D) and dQ (D) in one. Where there are heads enough for
// the threads, a thread takes the blocks of a head in order and adds to dQ:
// then each is done once.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

/// Vector multiply-adds of a block in straight code: beyond, a nest takes long
/// to compile.
static constexpr int64_t kMostMultiplyAdds = 1 << 12;

/// The share of the multiply-adds that straight code reaches with its
/// accumulators on the stack. Measured on Emerald Rapids, two threads, f32,
/// 8 heads of 1024, D 64, causal: 26 GFLOP/s where the forward has 90.
static constexpr double kStackRate = 0.13;

/// The same of register tiles.
static constexpr double kRegisterRate = 0.8;

namespace {
struct BackwardLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  int64_t lanes;
  Candidates &result;

  void addCandidate(int64_t blockQuery, int64_t blockKey, bool inRegisters,
                    bool isAccumulated = false);
};
} // namespace

void BackwardLister::addCandidate(int64_t blockQuery, int64_t blockKey,
                                  bool inRegisters, bool isAccumulated) {
  Candidate c;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = unit.kind;
  c.tiling.queryGradient = isAccumulated ? "accumulated" : "recomputed";
  if (inRegisters) {
    auto [rows, vectors] = registerTile(target);
    c.tiling.registerRows = rows;
    c.tiling.registerColumns = vectors * lanes;
  }

  int64_t element =
      inRegisters ? problem.accumulatorBytes() : problem.elementBytes();
  int64_t score = problem.accumulatorBytes();
  int64_t depth = problem.headDim + problem.valueDim;
  int64_t pairs = blockQuery * blockKey;
  c.tiles = {
      {"query and output gradient", "L2 cache", blockQuery * depth * element},
      {"key and value", "L2 cache", blockKey * depth * element},
      {"P and dS", "L2 cache", 2 * pairs * score},
      {"accumulators", "L2 cache", blockKey * depth * score}};
  addBudget(c, "L2 cache",
            (target.cacheBytes > 0 ? target.cacheBytes : 256 << 10) * 3 / 4);
  // A single row always goes: wide heads have to compile as well.
  int64_t work = pairs * 2 * depth / lanes;
  if (!inRegisters && work > kMostMultiplyAdds && blockQuery > 1 &&
      c.rejection.empty())
    c.rejection = "needs " + std::to_string(work) +
                  " multiply-adds in straight code, the limit is " +
                  std::to_string(kMostMultiplyAdds);

  ScheduleRates &rates = c.rates;
  rates.macsPerCycle =
      (inRegisters ? kRegisterRate : kStackRate) * unit.macsPerCycle;
  // The exponential is taken in every sweep.
  int64_t sweeps = isAccumulated ? 1 : 2;
  rates.scoresPerCycle =
      scoresPerCycle(problem, target) / (score == 8 ? 2 * sweeps : sweeps);
  rates.headDim = (2 + sweeps) * problem.headDim;
  rates.valueDim = (1 + sweeps) * roundUp(problem.valueDim, lanes);
  rates.rowGranule = blockQuery;
  rates.keyGranule = blockKey;
  // Rows of a key task are read for each of its blocks, and keys of a query
  // task read and turned.
  rates.cyclesPerBlock =
      100 + (inRegisters ? 3.0 : 2.0) * (blockQuery + blockKey) * depth / lanes;
  rates.cyclesPerTask = 500;
  rates.cacheBytesPerKey = static_cast<double>(depth * element) *
                           (1 + static_cast<double>(blockQuery) / blockKey);
  result.push_back(std::move(c));
}

void planner::listCpuBackwardSchedules(const AttentionProblem &problem,
                                       const TargetDescription &target,
                                       Candidates &result) {
  // f16 and bf16 are widened.
  const MatrixUnit *unit = target.findMatrixUnit(
      "fma", problem.elementType == "f64" ? "f64" : "f32");
  if (!unit)
    return;
  int64_t lanes =
      std::max<int64_t>(target.simdBits, 128) / 8 / problem.accumulatorBytes();
  BackwardLister lister{problem, target, *unit, lanes, result};
  bool inRegisters = !problem.sumsPairGradients && !problem.hasMask &&
                     !problem.hasMaskMod && !problem.hasSegments;
  if (!inRegisters) {
    for (int64_t rows : {1, 2, 4, 8, 16})
      for (int64_t vectors : {1, 2, 4})
        lister.addCandidate(rows, vectors * lanes, false);
    return;
  }
  // Blocks of keys are whole registers.
  int64_t rowEnd = roundUp(problem.queryLength, 16),
          keyEnd = std::max(lanes, roundUp(problem.kvLength, 16));
  int64_t heads = problem.batch * problem.kvHeads,
          units = std::max<int64_t>(target.computeUnits, 1);
  bool accumulates =
      !problem.isDeterministic && (heads % units == 0 || heads >= 4 * units);
  for (int64_t rows : {1, 4, 8, 16, 32, 48, 64, 96, 128})
    for (int64_t keys : {8, 16, 32, 48, 64, 96, 128})
      if (keys % lanes == 0 && rows <= rowEnd && keys <= keyEnd)
        lister.addCandidate(rows, keys, true, accumulates);
}
