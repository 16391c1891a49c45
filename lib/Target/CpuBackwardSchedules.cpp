//===- CpuBackwardSchedules.cpp - Schedules of gradients on a CPU ---------===//
//
// The CPU back end keeps the tiles in scratch and multiplies by register tiles,
// bf16 by those of AMX where the chip has them. Where pairs also add to the
// gradient of a bias or capture, or a mask is asked block by block whether it
// shows anything, it lowers the tiles as they stand, to straight code: a tile
// is then small enough for that code to compile in seconds, and what the
// registers do not hold lies on the stack.
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

/// The same of register tiles, and what is left of it where rows or keys of a
/// block are not whole register tiles. Measured as above, f32 D 128 full: 48 x
/// 192 makes 1.13 of 64 x 64.
static constexpr double kRegisterRate = 0.8, kPartialRate = 0.9;

/// Bytes of the rows of a block that arrive in a cycle, from L2 and from
/// behind it: little of the work can start before (CpuSchedules.cpp).
static constexpr double kL2BytesPerCycle = 20, kLastLevelBytesPerCycle = 5;

/// The share of the peak of AMX: a tile of sums is read and written for the few
/// products of a block. Measured on Emerald Rapids, see docs/Performance.md.
static constexpr double kTileRate = 0.4;

/// AMX multiplies 32 rows and keys at a time.
static constexpr int64_t kPatch = 32;

namespace {
/// What a block becomes.
enum class Mapping { StraightCode, RegisterTiles, TileRegisters };

struct BackwardLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  int64_t lanes;
  bool isAccumulated;
  Candidates &result;

  void addCandidate(const MatrixUnit &unit, int64_t blockQuery,
                    int64_t blockKey, Mapping mapping);
  void addTiles(Candidate &c, Mapping mapping);
  void addRates(Candidate &c, const MatrixUnit &unit, Mapping mapping);
};
} // namespace

void BackwardLister::addTiles(Candidate &c, Mapping mapping) {
  int64_t rows = c.tiling.blockQuery, keys = c.tiling.blockKey;
  int64_t sum = problem.accumulatorBytes();
  if (mapping == Mapping::TileRegisters) {
    int64_t dim = roundUp(problem.headDim, kPatch);
    int64_t depth = dim + roundUp(problem.valueDim, kPatch);
    // Operands of two products are packed twice, P once and dS twice, and dK
    // and dV are turned in the end.
    c.tiles = {
        {"query and output gradient", "L2 cache", rows * 2 * depth * 2},
        {"key and value", "L2 cache", keys * (depth + dim) * 2},
        {"P and dS", "L2 cache", rows * keys * 3 * 2},
        {"accumulators", "L2 cache", (keys * 2 * depth + rows * dim) * sum}};
  } else {
    int64_t element = mapping == Mapping::RegisterTiles
                          ? problem.accumulatorBytes()
                          : problem.elementBytes();
    int64_t depth = problem.headDim + problem.valueDim;
    c.tiles = {
        {"query and output gradient", "L2 cache", rows * depth * element},
        {"key and value", "L2 cache", keys * depth * element},
        {"P and dS", "L2 cache", 2 * rows * keys * sum},
        {"accumulators", "L2 cache", keys * depth * sum}};
  }
  int64_t l2Bytes = target.cacheBytes > 0 ? target.cacheBytes : 256 << 10;
  addBudget(c, "L2 cache", std::min(l2Bytes * 3 / 4, kStackBytes));
}

void BackwardLister::addRates(Candidate &c, const MatrixUnit &unit,
                              Mapping mapping) {
  ScheduleRates &rates = c.rates;
  int64_t rows = c.tiling.blockQuery, keys = c.tiling.blockKey;
  int64_t depth = problem.headDim + problem.valueDim;
  bool isAmx = mapping == Mapping::TileRegisters;
  int64_t granule = isAmx ? kPatch : lanes;
  double share = isAmx                               ? kTileRate
                 : mapping == Mapping::RegisterTiles ? kRegisterRate
                                                     : kStackRate;
  // Three products have rows of the block, two have keys.
  if (mapping == Mapping::RegisterTiles)
    share *= (3 * (rows % c.tiling.registerRows ? kPartialRate : 1) +
              2 * (keys % c.tiling.registerRows ? kPartialRate : 1)) /
             5;
  rates.macsPerCycle = share * unit.macsPerCycle;
  // The exponential is taken in every sweep.
  int64_t sweeps = isAccumulated ? 1 : 2;
  rates.scoresPerCycle = scoresPerCycle(problem, target) / sweeps /
                         (problem.accumulatorBytes() == 8 ? 2 : 1);
  rates.headDim = (2 + sweeps) *
                  (isAmx ? roundUp(problem.headDim, granule) : problem.headDim);
  rates.valueDim = (1 + sweeps) * roundUp(problem.valueDim, granule);
  rates.rowGranule = rows;
  rates.keyGranule = keys;
  // Rows of a key task are read, and dQ added to, for each of its blocks; keys
  // of a query task are read and turned.
  int64_t element = mapping == Mapping::RegisterTiles
                        ? problem.accumulatorBytes()
                        : problem.elementBytes();
  int64_t sum =
      isAccumulated ? 2 * problem.headDim * problem.accumulatorBytes() : 0;
  int64_t rowBytes = depth * problem.elementBytes() + sum;
  bool staysInL2 = problem.queryLength * rowBytes <= target.cacheBytes / 2;
  double perElement = mapping == Mapping::StraightCode ? 2.0 : 3.0;
  rates.cyclesPerBlock = 100 + perElement * (rows + keys) * depth / lanes;
  if (mapping == Mapping::RegisterTiles)
    rates.cyclesPerBlock +=
        rows * rowBytes /
        (staysInL2 ? kL2BytesPerCycle : kLastLevelBytesPerCycle);
  rates.cyclesPerTask = 500;
  rates.cacheBytesPerKey = static_cast<double>(depth * element) *
                           (1 + static_cast<double>(rows) / keys);
}

void BackwardLister::addCandidate(const MatrixUnit &unit, int64_t blockQuery,
                                  int64_t blockKey, Mapping mapping) {
  Candidate c;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = unit.kind;
  c.tiling.queryGradient = isAccumulated ? "accumulated" : "recomputed";
  if (mapping == Mapping::RegisterTiles) {
    auto [rows, vectors] = registerTile(target);
    c.tiling.registerRows = rows;
    c.tiling.registerColumns = vectors * lanes;
  } else if (mapping == Mapping::TileRegisters) {
    c.tiling.registerRows = c.tiling.registerColumns = kPatch;
  }
  addTiles(c, mapping);
  // A single row always goes: wide heads have to compile as well.
  int64_t work =
      blockQuery * blockKey * 2 * (problem.headDim + problem.valueDim) / lanes;
  if (mapping == Mapping::StraightCode && work > kMostMultiplyAdds &&
      blockQuery > 1 && c.rejection.empty())
    c.rejection = "needs " + std::to_string(work) +
                  " multiply-adds in straight code, the limit is " +
                  std::to_string(kMostMultiplyAdds);
  addRates(c, unit, mapping);
  result.push_back(std::move(c));
}

void planner::listCpuBackwardSchedules(const AttentionProblem &problem,
                                       const TargetDescription &target,
                                       Candidates &result) {
  // Multiply-adds work in the accumulator type: f16 and bf16 are widened.
  const MatrixUnit *unit = target.findMatrixUnit(
      "fma", problem.elementType == "f64" ? "f64" : "f32");
  if (!unit)
    return;
  int64_t lanes =
      std::max<int64_t>(target.simdBits, 128) / 8 / problem.accumulatorBytes();
  bool inTiles = !problem.sumsPairGradients && !problem.hasMask &&
                 !problem.hasMaskMod && !problem.hasSegments;
  int64_t heads = problem.batch * problem.kvHeads,
          units = std::max<int64_t>(target.computeUnits, 1);
  bool accumulates = inTiles && !problem.isDeterministic &&
                     (heads % units == 0 || heads >= 4 * units);
  BackwardLister lister{problem, target, lanes, accumulates, result};
  if (!inTiles) {
    for (int64_t rows : {1, 2, 4, 8, 16})
      for (int64_t vectors : {1, 2, 4})
        lister.addCandidate(*unit, rows, vectors * lanes,
                            Mapping::StraightCode);
    return;
  }
  // Blocks of keys are whole registers.
  int64_t queries = std::max<int64_t>(problem.queryLength, 1);
  int64_t rowEnd = roundUp(queries, 16),
          keyEnd = std::max(lanes, roundUp(problem.kvLength, 16));
  for (int64_t rows : {1, 4, 8, 16, 32, 48, 64, 96, 128})
    for (int64_t keys : {8, 16, 32, 48, 64, 96, 128, 192})
      if (keys % lanes == 0 && rows <= rowEnd && keys <= keyEnd)
        lister.addCandidate(*unit, rows, keys, Mapping::RegisterTiles);
  const MatrixUnit *tiles = target.findMatrixUnit("amx", problem.elementType);
  if (!tiles || problem.headDim == 0 || problem.valueDim == 0)
    return;
  for (int64_t rows : {32, 64, 96, 128})
    for (int64_t keys : {32, 64, 96, 128, 256})
      if (rows <= roundUp(queries, kPatch) &&
          keys <= roundUp(problem.kvLength, kPatch))
        lister.addCandidate(*tiles, rows, keys, Mapping::TileRegisters);
}
