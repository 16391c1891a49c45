//===- CoopMatrixSchedules.cpp - Cooperative matrices and scratchpads -----===//
//
// Subgroups that own 16 or 32 rows each: queries, scores and accumulator in
// registers, key and value blocks in padded rows of shared memory, prefetched
// through registers. Problems whose masks may hide keys from a whole task have
// no schedule here.
//
// An NPU runs the same products on tiles that all live in a scratchpad which
// DMA fills one block ahead.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/CoopMatrixTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";
static const char *const kScratchpad = "scratchpad";

/// Registers for addresses, and for each element of a matrix that a thread
/// holds its place, the reference and the sum of its row.
static constexpr int64_t kAddresses = 24;
static constexpr int64_t kStatistics = 2;

namespace {
struct CoopMatrixLister {
  const AttentionProblem &problem;
  const TargetDescription &target;
  const MatrixUnit &unit;
  Candidates &result;

  void listSubgroups() const;
  void listScratchpad() const;
  void addSubgroups(int64_t groups, int64_t slabs, int64_t blockKey) const;
  void addScratchpad(int64_t blockQuery, int64_t blockKey,
                     int64_t stages) const;
  Candidate begin(int64_t blockQuery, int64_t blockKey) const;
  bool isUseful(int64_t blockQuery, int64_t blockKey) const {
    return blockQuery <=
               roundUp(std::max<int64_t>(1, problem.queryLength), unit.m) &&
           blockKey <= roundUp(std::max<int64_t>(1, problem.kvLength), unit.n);
  }
};
} // namespace

Candidate CoopMatrixLister::begin(int64_t blockQuery, int64_t blockKey) const {
  Candidate c;
  c.tiling.blockQuery = blockQuery;
  c.tiling.blockKey = blockKey;
  c.tiling.product = unit.kind;
  // Rescaling only when the maximum grows by more than 2^8 removes most of the
  // cost of not knowing which lane holds which element.
  c.tiling.softmax = "conditional";
  c.rates.headDim = roundUp(problem.headDim, unit.k);
  c.rates.valueDim = roundUp(problem.valueDim, unit.n);
  c.rates.rowGranule = blockQuery;
  c.rates.keyGranule = blockKey;
  c.rates.cacheBytesPerKey =
      (c.rates.headDim + c.rates.valueDim) * problem.elementBytes();
  c.rates.cacheBytesPerTask = blockQuery * c.rates.cacheBytesPerKey;
  return c;
}

void CoopMatrixLister::addSubgroups(int64_t groups, int64_t slabs,
                                    int64_t blockKey) const {
  int64_t rows = slabs * unit.m, blockQuery = groups * rows;
  if (!isUseful(blockQuery, blockKey))
    return;
  Candidate c = begin(blockQuery, blockKey);
  c.tiling.groups = groups;
  int64_t lanes = target.subgroupSize;
  CoopMatrixTiles tiles(c.tiling, problem.headDim, problem.valueDim, lanes);
  int64_t element = CoopMatrixTiles::kElementBytes;
  int64_t copied = std::max(tiles.key.rows * tiles.key.columns,
                            tiles.value.rows * tiles.value.columns) *
                   element;
  c.tiles = {
      {"key and value block", kShared, tiles.tileBytes()},
      {"reduction of rows", kShared, tiles.reductionBytes()},
      {"query", kRegisters, rows * tiles.query.columns * element / lanes},
      // Probabilities take their place.
      {"scores", kRegisters, rows * blockKey * 4 / lanes},
      {"accumulator", kRegisters, rows * tiles.value.columns * 4 / lanes},
      {"prefetch", kRegisters, copied / tiles.threads()},
      {"places and statistics", kRegisters,
       (1 + kStatistics * slabs) * tiles.elements() * 4},
      {"addresses", kRegisters, kAddresses * 4}};
  addBudget(c, kShared, target.scratchBytes);
  addBudget(c, kRegisters,
            (target.registersPerThread > 0 ? target.registersPerThread : 255) *
                4);

  int64_t resident = std::max<int64_t>(
      1, target.unitScratchBytes / std::max<int64_t>(1, c.budgets[0].used));
  if (target.registersPerUnit > 0)
    resident = std::clamp<int64_t>(
        target.registersPerUnit * 4 /
            std::max<int64_t>(1, groups * lanes * c.budgets[1].used),
        1, resident);
  double subgroups = groups * std::min<int64_t>(resident, 4);
  // Operands from shared memory: a matrix is read for each 16 rows of queries,
  // so taller subgroups read less.
  double fed = slabs > 1 ? 0.85 : 0.7;
  // Probabilities through shared memory, guessed.
  if (!target.has("matrix_layout_shared"))
    fed *= 0.8;
  c.rates.macsPerCycle = unit.macsPerCycle * fed * std::min(1.0, subgroups / 8);
  c.rates.scoresPerCycle = scoresPerCycle(problem, target) / 1.2;
  c.rates.overlap = subgroups >= 8 ? 0.6 : 0.3;
  c.rates.bytesInFlight = copied * std::min<int64_t>(resident, 4);
  c.rates.cyclesPerBlock = 200;
  c.rates.cyclesPerTask = 2000;
  result.push_back(std::move(c));
}

void CoopMatrixLister::listSubgroups() const {
  // 128 rows are the most that was measured.
  for (int64_t groups : {1, 2, 4, 8})
    for (int64_t slabs : {1, 2})
      for (int64_t blockKey : {16, 32, 64, 128})
        if (groups * slabs <= 8)
          addSubgroups(groups, slabs, blockKey);
}

void CoopMatrixLister::addScratchpad(int64_t blockQuery, int64_t blockKey,
                                     int64_t stages) const {
  if (!isUseful(blockQuery, blockKey))
    return;
  Candidate c = begin(blockQuery, blockKey);
  c.tiling.stages = stages;
  c.tiling.softmax = "exact";
  int64_t dim = c.rates.headDim, valueDim = c.rates.valueDim;
  int64_t element = problem.elementBytes();
  c.tiles = {
      {"query", kScratchpad, blockQuery * dim * element},
      {"key blocks", kScratchpad, stages * blockKey * dim * element},
      {"value blocks", kScratchpad, stages * blockKey * valueDim * element},
      {"scores", kScratchpad, blockQuery * blockKey * 4},
      {"probabilities", kScratchpad, blockQuery * blockKey * element},
      {"accumulator", kScratchpad, blockQuery * valueDim * 4},
      {"row statistics", kScratchpad, blockQuery * 3 * 4}};
  // A sixteenth is left to stacks and descriptors.
  addBudget(c, kScratchpad, target.scratchBytes * 15 / 16);
  c.rates.macsPerCycle = 0.8 * unit.macsPerCycle;
  c.rates.scoresPerCycle = scoresPerCycle(problem, target) / 1.4;
  // The vector unit works on a block's scores while the matrix unit takes the
  // next, provided there is a second stage.
  c.rates.overlap = stages > 1 ? 0.7 : 0;
  c.rates.cyclesPerBlock = stages > 1 ? 500 : 3000; // DMA set-up and fences
  c.rates.cyclesPerTask = 5000;
  result.push_back(std::move(c));
}

void CoopMatrixLister::listScratchpad() const {
  for (int64_t queryTiles : {1, 2, 4, 8, 16, 32})
    for (int64_t blockKey : {4, 8, 16, 32, 64, 128, 256, 512})
      for (int64_t stages : {1, 2})
        if (blockKey % unit.n == 0)
          addScratchpad(queryTiles * unit.m, blockKey, stages);
}

/// What the mapping to cooperative matrices takes.
static bool takesSubgroups(const AttentionProblem &p,
                           const TargetDescription &target,
                           const MatrixUnit &unit) {
  constexpr int64_t kSide = CoopMatrixTiles::kSide;
  return unit.m == kSide && unit.n == kSide && unit.k == kSide &&
         target.subgroupSize > 0 && !p.hasMask && !p.hasMaskMod &&
         !p.hasSegments;
}

void planner::listCoopMatrixSchedules(const AttentionProblem &problem,
                                      const TargetDescription &target,
                                      Candidates &result) {
  const MatrixUnit *unit =
      target.findMatrixUnit("coopmat", problem.elementType);
  if (!unit)
    return;
  CoopMatrixLister lister{problem, target, *unit, result};
  if (target.has("scratch_accumulator"))
    lister.listScratchpad();
  else if (takesSubgroups(problem, target, *unit))
    lister.listSubgroups();
}
