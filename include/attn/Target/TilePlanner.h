//===- TilePlanner.h - From a problem and a chip to tile sizes --*- C++ -*-===//
//
// selectTiling is a pure function. It lists the schedules that the chip's back
// end knows, counts for each the on-chip memory that its tiles take and the
// main-memory traffic that it causes, rejects what does not fit, predicts the
// time of the rest by a roofline, and keeps its reasons.
//
// The traffic model is that of Dao et al., FlashAttention (2022), section 3.2:
// standard attention moves 4Nd + 4N^2 elements a head, tiled attention
// 2Nd + 2Nd N/Br.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_TILEPLANNER_H
#define ATTN_TARGET_TILEPLANNER_H

#include "attn/IR/TargetDescription.h"
#include "attn/Target/AttentionProblem.h"
#include "llvm/Support/Error.h"

namespace llvm::json {
class Value;
}

namespace attn {

/// One tile in one memory, for example the key panel in the L2 cache.
struct TileUse {
  std::string tile;
  std::string memory;
  int64_t bytes = 0;
};

/// What all tiles together take of a memory, and what there is.
struct MemoryBudget {
  std::string memory;
  int64_t used = 0;
  int64_t limit = 0;
};

/// Bytes between the chip and main memory.
struct Traffic {
  /// The formulas of the paper, in bytes, over batch and heads.
  double standard = 0;
  double tiled = 0;
  /// `tiled` less what the chip's shared cache is predicted to serve.
  double mainMemory = 0;
};

/// Seconds that each resource is busy. Matrix and softmax work overlap as far
/// as the schedule lets them; the rest overlaps with both.
struct Prediction {
  double matrix = 0;
  double softmax = 0;
  double compute = 0;
  double cache = 0;
  double memory = 0;
  double total = 0;
  /// "matrix unit", "softmax", "cache bandwidth" or "memory bandwidth".
  std::string bound;
};

/// How fast the back end runs a schedule; what the cost model needs beside the
/// sizes.
struct ScheduleRates {
  /// Multiply-adds a cycle of one unit for this register or native tile.
  double macsPerCycle = 0;
  /// Scores a cycle of one unit through the softmax.
  double scoresPerCycle = 0;
  /// The share of the shorter of matrix and softmax work that hides behind the
  /// longer.
  double overlap = 0;
  /// Cycles that a key block and a query tile cost beside their elements.
  double cyclesPerBlock = 0;
  double cyclesPerTask = 0;
  /// Cycles that a score costs in addition where the masks have to be tested,
  /// in blocks on an edge.
  double cyclesPerEdgeScore = 0;
  /// The tasks of all heads are dealt out together; without, head by head.
  bool mixesHeads = false;
  /// Head dimensions as the product computes them (padded), and the numbers of
  /// rows and keys that a partly used tile is rounded up to.
  int64_t headDim = 0, valueDim = 0, rowGranule = 1, keyGranule = 1;
  /// Rows that skip a wholly hidden key block together; 0: the whole tile.
  int64_t skipRows = 0;
  /// Bytes that a unit moves to and from the cache for one key of one query
  /// tile, and for one query tile.
  double cacheBytesPerKey = 0;
  double cacheBytesPerTask = 0;
  /// Bytes that a task reads again for each key block: its queries, where they
  /// do not stay. They come from a cache.
  double bytesAgainPerBlock = 0;
  /// Bytes that a unit has requested at any time, which bounds what it draws
  /// from memory of a given latency; 0: enough.
  double bytesInFlight = 0;
  /// Cycles that one unit spends on a key of a key/value head before the first
  /// product: packing.
  double cyclesPerPackedKey = 0;
};

/// A schedule with sizes. `rejection` is empty when it fits.
struct Candidate {
  Tiling tiling;
  ScheduleRates rates;
  std::vector<TileUse> tiles;
  std::vector<MemoryBudget> budgets;
  Traffic traffic;
  Prediction prediction;
  std::string rejection;
};

/// The decision and what led to it.
struct TilingPlan {
  Tiling tiling;
  Candidate chosen;
  /// The others that fit, best first.
  std::vector<Candidate> runnersUp;
  /// The rejected ones that come closest to fitting; at most three.
  std::vector<Candidate> rejected;
  int64_t numFitting = 0;
  int64_t numRejected = 0;
  /// Sentences, one a decision.
  std::vector<std::string> reasons;
};

/// Fails with one line: what the problem lacks, or what the smallest tile
/// needs and the chip has.
llvm::Expected<TilingPlan> selectTiling(const AttentionProblem &problem,
                                        const TargetDescription &target);

/// The plan for a person: tile sizes, memory by tile, traffic, predicted time.
std::string explainText(const AttentionProblem &problem, const TilingPlan &plan,
                        const TargetDescription &target);

/// The same as data.
llvm::json::Value explainJson(const AttentionProblem &problem,
                              const TilingPlan &plan,
                              const TargetDescription &target);

} // namespace attn

#endif // ATTN_TARGET_TILEPLANNER_H
