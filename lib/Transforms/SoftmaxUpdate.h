//===- SoftmaxUpdate.h - Online softmax -------------------------*- C++ -*-===//
//
// The one place that knows how a softmax over blocks is kept:
//
//   rowMax   m   the greatest score of the row so far, -inf before any
//   rowSum   l   the sum of exp2(c * (s - m)) over the scores so far
//   acc          the sum of exp2(c * (s - m)) * value row
//
// c is log2(e) times what the scores still lack, see Exponent.
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

/// Values carried by the sweep. `acc` is null when values have no width.
struct SoftmaxState {
  mlir::Value rowMax, rowSum, acc;

  llvm::SmallVector<mlir::Value> values() const;
  static SoftmaxState from(mlir::ValueRange values);
};

class SoftmaxUpdate {
public:
  /// `type` is the accumulator type.
  SoftmaxUpdate(TileBuilder &b, mlir::FloatType type, Exponent exponent);

  /// Before any key. A sink (a logit of the row's head, in nats) is a key
  /// with that score and no value; null when there is none.
  SoftmaxState initial(int64_t valueDim, mlir::Value sink);

  /// After the keys of `scores`. `accumulate` adds probabilities times values
  /// to the accumulator that it is given.
  SoftmaxState update(const SoftmaxState &state, mlir::Value scores,
                      llvm::function_ref<mlir::Value(mlir::Value probabilities,
                                                     mlir::Value acc)>
                          accumulate);

  /// acc / l; 0 for a row that has seen no key.
  mlir::Value output(const SoftmaxState &state);
  /// ln of the sum of exp(score); -inf for a row that has seen nothing.
  mlir::Value logSumExp(const SoftmaxState &state);

private:
  mlir::Value equals(mlir::Value value, mlir::Value constant);
  mlir::Value multiply(mlir::Value value, double factor);
  /// What is subtracted from the scores of a row, and c times it.
  struct Reference {
    mlir::Value value, scaled;
  };
  /// c * (scores - reference) for a tile, or for one score per row.
  mlir::Value exponents(mlir::Value scores, const Reference &reference);

  TileBuilder &b;
  mlir::FloatType type;
  mlir::Type rowType;
  Exponent exponent;
  double c;
  mlir::Value zeroRow, noneRow;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_SOFTMAXUPDATE_H
