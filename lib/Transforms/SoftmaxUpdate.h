//===- SoftmaxUpdate.h - Online softmax -------------------------*- C++ -*-===//
//
// The one place that knows how a softmax over blocks is kept:
//
//   rowMax   m   what is subtracted from the scores of a row, its reference
//   rowSum   l   the sum of exp2(c * (s - m)) over the scores so far
//   acc          the sum of exp2(c * (s - m)) * value row
//
// c is log2(e) times what the scores still lack, see Exponent. Any m gives the
// same acc / l. Which one is kept is the `softmax` of #attn.tiling:
//
//   exact        the greatest score so far
//   conditional  follows the greatest score when that has grown by more than
//                ReferenceRange::growth
//   stale        follows it when a block adds more than ReferenceRange::sum
//                to a row; the block is then computed a second time
//   raised       is ReferenceRange::headroom doublings above it, and follows
//                when a block has a probability above 1; l is the sum of the
//                probabilities as they were rounded
//
// Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018),
// algorithm 3; with the accumulator, Dao et al., "FlashAttention" (2022),
// algorithm 1, lines 10 to 12. Division by l is left to the end.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_SOFTMAXUPDATE_H
#define ATTN_LIB_TRANSFORMS_SOFTMAXUPDATE_H

#include "TileScore.h"

namespace attn {

/// How far a reference may stay behind the greatest score. The section "The
/// softmax reference" of docs/Rationale.md derives the numbers.
struct ReferenceRange {
  /// conditional: log2 of the greatest probability.
  double growth;
  /// stale: what a block may add to a row sum. A sum is no less than any of
  /// its probabilities.
  double sum;
  /// raised: log2 of how much greater a probability may become than the first
  /// block's.
  static constexpr double headroom = 30;

  /// For probabilities that meet the values in `type`.
  static ReferenceRange of(mlir::FloatType type);
};

/// Values carried by the sweep. `acc` is null when values have no width.
struct SoftmaxState {
  mlir::Value rowMax, rowSum, acc;

  llvm::SmallVector<mlir::Value> values() const;
  static SoftmaxState from(mlir::ValueRange values);
};

class SoftmaxUpdate {
public:
  SoftmaxUpdate(TileBuilder &b, AttentionOp op);

  /// Before any key.
  SoftmaxState initial(int64_t valueDim);

  /// Whether `update` makes use of scores that are taken apart: their exponent
  /// is then one multiply-add of the base, and another for the term and the
  /// reference together.
  bool takesApart() const;

  /// After the keys of `scores`, of which masks have set the base to -inf where
  /// a pair is hidden. `accumulate` adds probabilities times values to the
  /// accumulator that it is given.
  SoftmaxState update(const SoftmaxState &state, const AffineScores &scores,
                      llvm::function_ref<mlir::Value(mlir::Value probabilities,
                                                     mlir::Value acc)>
                          accumulate);

  /// With a sink (a logit of the row's head, in nats), a key with that score
  /// and no value: l and acc are then by the greater of it and m. After all
  /// keys: were the sink among the scores that m follows, a great one would
  /// leave probabilities that f16 does not hold.
  SoftmaxState addSink(const SoftmaxState &state, mlir::Value sink);

  /// acc / l; 0 for a row that has seen no key.
  mlir::Value output(const SoftmaxState &state);
  /// ln of the sum of exp(score); -inf for a row that has seen nothing. `sink`
  /// is the one that was added, or null.
  mlir::Value logSumExp(const SoftmaxState &state, mlir::Value sink);

private:
  /// What is subtracted from the scores of a row, and c times it.
  struct Reference {
    mlir::Value value, scaled;
  };
  /// The state that the values of a block are added to, the block's row sums
  /// included.
  struct Block {
    SoftmaxState state;
    mlir::Value probabilities;
  };

  Block followMaximum(const SoftmaxState &state, mlir::Value scores);
  Block keepReference(const SoftmaxState &state, const AffineScores &scores);

  /// The scores themselves, hidden ones -inf whatever their term is.
  mlir::Value rebuild(const AffineScores &scores);
  mlir::Value greatest(mlir::Value rowMax, mlir::Value scores);
  /// The reference of a stale softmax after a block that moves it.
  mlir::Value newReference(mlir::Value old, mlir::Value scores);
  Reference referenceOf(mlir::Value rowMax);
  /// c * (scores - reference) for a tile, or for one score per row; where the
  /// reference is scaled, as c * scores - c * reference.
  mlir::Value exponents(mlir::Value scores, const Reference &reference);
  mlir::Value exponents(const AffineScores &scores, const Reference &reference);
  mlir::Value sum(mlir::Value probabilities, mlir::Value rowSum);
  /// The state as if `rowMax` had been its reference all along.
  SoftmaxState correct(const SoftmaxState &state, mlir::Value rowMax,
                       const Reference &reference);
  /// i1 a row: what makes it vote for a new reference.
  mlir::Value isFar(mlir::Value reference);
  mlir::Value addedMuch(mlir::Value before, mlir::Value after);
  mlir::Value exceedsOne(mlir::Value probabilities);
  /// True when `rows` is true of any row.
  mlir::Value vote(mlir::Value rows);
  /// An scf.if with the role `rescale`.
  llvm::SmallVector<mlir::Value>
  rescaleIf(mlir::Value condition,
            llvm::function_ref<llvm::SmallVector<mlir::Value>()> rescaled,
            llvm::function_ref<llvm::SmallVector<mlir::Value>()> kept);

  mlir::Value aboveSink(mlir::Value rowMax, mlir::Value sinks);
  mlir::Value scaleRows(mlir::Value acc, mlir::Value factors);
  mlir::Value equals(mlir::Value value, mlir::Value constant);
  mlir::Value multiply(mlir::Value value, double factor);
  double scoreOfNoKey() const;

  TileBuilder &b;
  mlir::FloatType type, elementType;
  mlir::Type rowType;
  Exponent exponent;
  double c;
  bool isConditional, isRaised, isStale;
  /// The matrix unit leaves a block's scores in registers.
  bool keepsScores;
  /// Probabilities meet the values in 16 bits.
  bool isRounded;
  ReferenceRange range;
  mlir::Value zeroRow;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_SOFTMAXUPDATE_H
