//===- CpuSchedules.cpp - Schedules of the CPU back end -------------------===//
//
// A task owns scratch tiles in the L2 cache: scaled queries, scores (the
// probabilities overwrite them), accumulator and row statistics. Each product
// is a loop nest around a register tile, with the key panel or a slab of the
// value block streaming through L1. Matrix and softmax work share the vector
// ports, so nothing overlaps. With AMX, scores and probabilities are those of
// the rows of a register tile.
//
// A chip whose L2 holds no tile at all still runs: the tiles then live in the
// last-level cache. Only what exceeds that as well is refused.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include <algorithm>
#include <set>

using namespace attn;
using namespace attn::planner;

/// Query lengths that may go without packed keys: one row of register tiles.
/// Measured on Emerald Rapids, 8 heads of 8192 keys, D 128, one thread: in
/// place against packed, f32 8 against 34 ms for one row, 13 against 42 for
/// six; bf16 5 against 58 and 8 against 17 (AMX).
static constexpr int64_t kFewRows = 6;

/// Bytes read and written by packing in a cycle, from and to the last level
/// (measured: 100 ns for a key of 128 f32; from L1 to L2 it is five times
/// that).
static constexpr double kPackBytesPerCycle = 5;

/// A core draws about a quarter of the L2 bandwidth from the last level.
static constexpr int64_t kLastLevelCost = 4;

/// Bytes of packed keys and of values that arrive from L2 in a cycle. The first
/// row of register tiles waits for them, and the others find them in L1.
/// Measured on Emerald Rapids, f32, 8 heads of 2048, two threads: 516 queries
/// beside 90 take 5 % less time at D 64 (L2), 10 % at D 128 (last level).
static constexpr double kArrivingBytesPerCycle = 20;

namespace {
/// How one product works on this chip for this problem.
struct CpuProduct {
  const MatrixUnit *unit;
  bool pack;
  /// Bytes of a factor as the product reads it.
  int64_t factorBytes;
  int64_t rows, columns;
  double macsPerCycle;
  /// Padded head dimensions.
  int64_t headDim, valueDim;
};

struct CpuLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  Candidates &result;
  /// Lanes of a vector of scores.
  int64_t lanes;
  /// Caches behind L1; small ones where the target does not say.
  int64_t l2Bytes, lastLevelBytes;

  std::vector<CpuProduct> listProducts() const;
  void addVectorProducts(const MatrixUnit &unit,
                         std::vector<CpuProduct> &products) const;
  void listSizes(const CpuProduct &product, bool inLastLevel) const;
  void addCandidate(const CpuProduct &product, int64_t blockQuery,
                    int64_t blockKey, bool inLastLevel) const;
  int64_t cacheBytesPerKey(const CpuProduct &product) const;
};
} // namespace

std::pair<int64_t, int64_t>
planner::registerTile(const TargetDescription &target) {
  if (target.simdRegisters < 32)
    return {6, 2}; // 12 accumulators, 2 + 1 operands of 16
  // 24 accumulators, 4 + 1 operands of 32. Measured on Emerald Rapids, f32,
  // D 64: 6 x 64 elements 192 GFLOP/s beside 170 of 4 x 64 in the same run.
  return {6, 4};
}

void CpuLister::addVectorProducts(const MatrixUnit &unit,
                                  std::vector<CpuProduct> &products) const {
  bool isDot = unit.kind == "dot";
  int64_t factorBytes = isDot ? 2 : problem.accumulatorBytes();
  auto [bestRows, bestVectors] = registerTile(target);
  int64_t rows = std::min(bestRows, std::max<int64_t>(1, problem.queryLength));
  // Multiply-adds (vectors) a cycle, with two loads and a latency of four.
  double issue = static_cast<double>(unit.macsPerCycle) /
                 (lanes * std::max<int64_t>(1, unit.k));
  auto add = [&](int64_t vectors, bool pack) {
    double loads = 2.0 * rows * vectors / ((rows + vectors) * issue);
    double latency = rows * vectors / (4 * issue);
    double rate = std::min({1.0, loads, latency});
    // Without packed keys each score ends in a reduction across lanes.
    if (!pack)
      rate *= 0.25;
    products.push_back({&unit, pack,
                        pack ? factorBytes : problem.elementBytes(), rows,
                        lanes * vectors, unit.macsPerCycle * rate,
                        roundUp(problem.headDim, isDot ? 2 : 1),
                        roundUp(problem.valueDim, lanes)});
  };
  // Packing pays when enough rows read the packed keys. A few rows may as well
  // take dot products along the head dimension of keys as they lie.
  if (problem.queryLength != 1) {
    add(bestVectors, true);
    // Narrower tiles waste less on short key ranges.
    for (int64_t v = bestVectors / 2; v >= 1; v /= 2)
      if (problem.kvLength <= 2 * lanes * bestVectors)
        add(v, true);
  }
  if (!isDot && problem.queryLength <= kFewRows)
    add(bestVectors, false);
}

std::vector<CpuProduct> CpuLister::listProducts() const {
  bool isDouble = problem.elementType == "f64";
  std::vector<CpuProduct> products;
  for (const MatrixUnit &unit : target.matrixUnits) {
    // Multiply-adds work in the accumulator type: f16 and bf16 are widened.
    if (unit.kind == "fma" && unit.type == (isDouble ? "f64" : "f32"))
      addVectorProducts(unit, products);
    if (unit.kind == "dot" && unit.type == problem.elementType)
      addVectorProducts(unit, products);
    // Two by two tiles of accumulators; one row would waste fifteen of sixteen.
    if (unit.kind == "amx" && unit.type == problem.elementType &&
        problem.queryLength != 1)
      products.push_back({&unit, true, 2, 2 * unit.m, 2 * unit.n,
                          0.8 * unit.macsPerCycle,
                          roundUp(problem.headDim, unit.k),
                          roundUp(problem.valueDim, 2 * unit.n)});
  }
  return products;
}

void CpuLister::listSizes(const CpuProduct &product, bool inLastLevel) const {
  bool isAmx = product.unit->kind == "amx";
  std::set<int64_t> queryBlocks, keyBlocks;
  int64_t queryEnd =
      roundUp(std::max<int64_t>(1, problem.queryLength), product.rows);
  int64_t keyEnd =
      roundUp(std::max<int64_t>(1, problem.kvLength), product.columns);
  for (int64_t rows :
       {1, 2, 4, 8, 16, 32, 64, 72, 80, 88, 96, 128, 192, 256, 384, 512})
    if (int64_t block = roundUp(rows, product.rows); !isAmx || block <= 128)
      queryBlocks.insert(std::min(block, queryEnd));
  for (int64_t keys : {16, 32, 64, 128, 256})
    if (product.pack || keys == 256)
      keyBlocks.insert(std::min(roundUp(keys, product.columns), keyEnd));
  for (int64_t blockQuery : queryBlocks)
    for (int64_t blockKey : keyBlocks)
      addCandidate(product, blockQuery, blockKey, inLastLevel);
}

/// Bytes that arrive for one key of one query tile, in units of an L2 read.
/// What moves between L1 and L2 hides behind the products, which take the
/// values in chunks that L1 holds; keys and values of a head that do not stay
/// in L2 come from the last level.
int64_t CpuLister::cacheBytesPerKey(const CpuProduct &product) const {
  int64_t bytes = (product.headDim + product.valueDim) * product.factorBytes;
  bool staysInL2 = problem.kvLength * bytes <= l2Bytes / 2;
  return staysInL2 ? bytes : kLastLevelCost * bytes;
}

void CpuLister::addCandidate(const CpuProduct &product, int64_t blockQuery,
                             int64_t blockKey, bool inLastLevel) const {
  Candidate c;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = product.unit->kind;
  c.tiling.registerRows = product.rows;
  c.tiling.registerColumns = product.columns;
  c.tiling.pack = product.pack;
  // A stale reference saves the maxima and, where P is rounded, a sum of what
  // it became. Measured on Emerald Rapids, AMX, D 64: 600 GFLOP/s beside 454 of
  // the exact softmax; beside multiply-adds neither is worth a vote. A single
  // block has no reference to keep.
  if (product.unit->kind != "fma" && problem.kvLength > blockKey)
    c.tiling.softmax = "stale";

  // Beyond L2 the tiles of the task are still bounded, by its stack.
  const char *scratch = inLastLevel ? "task stack" : "L2 cache";
  const char *memory = inLastLevel ? "last-level cache" : "L2 cache";
  int64_t factor = product.factorBytes, score = problem.accumulatorBytes();
  int64_t scoreBytes = blockQuery * blockKey * score;
  if (product.unit->kind == "amx")
    scoreBytes =
        std::min(blockQuery, product.rows) * blockKey * (score + factor);
  c.tiles = {
      {"query", scratch, blockQuery * product.headDim * factor},
      {"scores", scratch, scoreBytes},
      {"accumulator", scratch, blockQuery * product.valueDim * score},
      {"row statistics", scratch, blockQuery * (2 * lanes + 1) * score},
      // One panel is read while the next arrives. Only packed products come
      // back to the values of a block.
      {"key panels", memory,
       2 * product.headDim * (product.pack ? product.columns : lanes) * factor},
      {"value block", memory,
       (product.pack ? blockKey : 2 * lanes) * product.valueDim * factor}};
  // A quarter is left to code, stacks and what the prefetchers bring.
  addBudget(c, memory,
            (inLastLevel ? std::max(l2Bytes, lastLevelBytes) : l2Bytes) * 3 /
                4);
  if (inLastLevel)
    addBudget(c, scratch, kStackBytes);
  // Where L2 is large, the stack is smaller.
  int64_t stackBytes = 0;
  for (const TileUse &use : llvm::ArrayRef(c.tiles).take_front(4))
    stackBytes += use.bytes;
  if (stackBytes > kStackBytes && c.rejection.empty())
    c.rejection = "needs " + formatBytes(stackBytes) +
                  " of a thread's stack, the limit is " +
                  formatBytes(kStackBytes);

  ScheduleRates &rates = c.rates;
  rates.macsPerCycle = product.macsPerCycle;
  rates.scoresPerCycle = scoresPerCycle(problem, target) / (score == 8 ? 2 : 1);
  // Per row: two reductions across lanes and a rescale of the accumulator.
  rates.cyclesPerBlock =
      blockQuery * (16.0 + static_cast<double>(product.valueDim) / lanes);
  if (product.pack && product.unit->kind != "amx")
    rates.cyclesPerBlock +=
        blockKey * cacheBytesPerKey(product) / kArrivingBytesPerCycle;
  rates.cyclesPerTask =
      1500 + 2.0 * blockQuery * (product.headDim + product.valueDim) / lanes;
  rates.headDim = product.headDim;
  rates.valueDim = product.valueDim;
  rates.rowGranule = rates.skipRows = product.rows;
  rates.keyGranule = product.columns;
  // Tiles beyond L2 are read about once for every row of register tiles.
  rates.cacheBytesPerKey =
      cacheBytesPerKey(product) *
      (inLastLevel ? roundUp(blockQuery, product.rows) / product.rows : 1);
  rates.cacheBytesPerTask = blockQuery * product.headDim * factor;
  if (product.pack)
    rates.cyclesPerPackedKey =
        (problem.elementBytes() + factor) *
        (product.headDim +
         (problem.elementBytes() == 2 ? product.valueDim : 0)) /
        kPackBytesPerCycle;
  result.push_back(std::move(c));
}

void planner::listCpuSchedules(const AttentionProblem &problem,
                               const TargetDescription &target,
                               Candidates &result) {
  int64_t vectorBits = std::max<int64_t>(target.simdBits, 128);
  CpuLister lister{problem,
                   target,
                   result,
                   vectorBits / 8 / problem.accumulatorBytes(),
                   target.cacheBytes > 0 ? target.cacheBytes : 256 << 10,
                   target.lastLevelBytes > 0 ? target.lastLevelBytes : 4 << 20};
  std::vector<CpuProduct> products = lister.listProducts();
  for (const CpuProduct &product : products)
    lister.listSizes(product, /*inLastLevel=*/false);
  if (llvm::none_of(result,
                    [](const Candidate &c) { return c.rejection.empty(); }))
    for (const CpuProduct &product : products)
      lister.listSizes(product, /*inLastLevel=*/true);
}
