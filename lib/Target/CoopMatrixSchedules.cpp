//===- CoopMatrixSchedules.cpp - Schedules of cooperative matrices --------===//
//
// Subgroups that own 16 or 32 rows each: queries, scores and accumulator in
// registers, key and value blocks in padded rows of shared memory, prefetched
// through registers.
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "attn/Target/CoopMatrixTiles.h"
#include <algorithm>

using namespace attn;
using namespace attn::planner;

static const char *const kShared = "shared memory";
static const char *const kRegisters = "registers of a thread";

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
  void addSubgroups(int64_t groups, int64_t slabs, int64_t blockKey) const;
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
  bool hidesKeys = problem.hasMask || problem.hasMaskMod || problem.hasSegments;
  CoopMatrixTiles tiles(c.tiling, problem.headDim, problem.valueDim, lanes,
                        hidesKeys);
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
  if (hidesKeys)
    c.tiles.push_back({"seen keys", kShared, tiles.seenBytes()});
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

/// What the mapping to cooperative matrices takes.
static bool takesSubgroups(const TargetDescription &target,
                           const MatrixUnit &unit) {
  constexpr int64_t kSide = CoopMatrixTiles::kSide;
  return unit.m == kSide && unit.n == kSide && unit.k == kSide &&
         target.subgroupSize > 0 &&
         (unit.type != "bf16" || target.has("bfloat16"));
}

void planner::listCoopMatrixSchedules(const AttentionProblem &problem,
                                      const TargetDescription &target,
                                      Candidates &result) {
  const MatrixUnit *unit =
      target.findMatrixUnit("coopmat", problem.elementType);
  if (!unit)
    return;
  CoopMatrixLister lister{problem, target, *unit, result};
  if (takesSubgroups(target, *unit))
    lister.listSubgroups();
}
