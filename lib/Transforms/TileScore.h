//===- TileScore.h - From a product to scores -------------------*- C++ -*-===//
//
// The order of rule 3: scale, softcap, score_mod, bias. Every step that is a
// multiplication by a positive constant and comes last is left to the
// exponent: exp(scale * s) = exp2(c * s) with c = scale * log2(e), so plain
// attention multiplies no score at all.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_TILESCORE_H
#define ATTN_LIB_TRANSFORMS_TILESCORE_H

#include "DifferentiateRegion.h"
#include "TileTask.h"
#include <optional>

namespace attn {

/// How a transformed score becomes a probability.
struct Exponent {
  /// The score times this is the exponent of e; positive.
  double factor;
  /// A bias or a region may return any finite number, the lowest included.
  /// The greatest score is then subtracted before the multiplication, which
  /// could overflow; otherwise both are one multiply-add.
  bool mayOverflow;
};

/// A tile of scores as factor * base + term; `factor` is positive, and a null
/// `term` is 0.
struct AffineScores {
  mlir::Value base;
  double factor = 1;
  mlir::Value term = {};

  bool isBase() const { return factor == 1 && !term; }
};

/// What a tile adds to the gradient of a captured tensor: at these indices,
/// which are in range for visible pairs only.
struct CaptureGradient {
  int64_t capture;
  TileValue gradient;
  llvm::SmallVector<TileValue> indices;
};

class TileScore {
public:
  /// Emits what one task needs before its sweep.
  TileScore(TileBuilder &b, const Task &task);

  static Exponent exponent(AttentionOpInterface op);

  /// The scores of the block that starts at `firstKey`, from its product.
  mlir::Value apply(mlir::Value product, mlir::Value firstKey);

  /// After `apply`: its result, with what it last multiplied by and added taken
  /// apart. What a region or bias does to a product is often only that (ALiBi,
  /// tables of distances); then `base` is the product.
  AffineScores separate(mlir::Value scores);

  /// After `apply`, from the gradient of the final scores to that of scale
  /// times product, and to those of captures. `derivative` is that of
  /// score_mod, where there is one.
  mlir::Value differentiate(mlir::Value gradient, mlir::Value firstKey,
                            const ScoreDerivative &derivative,
                            llvm::SmallVectorImpl<CaptureGradient> &captures);

private:
  llvm::SmallVector<TileValue> positions(mlir::Value firstKey);

  TileBuilder &b;
  const Task &task;
  AttentionOpInterface op;
  std::optional<BroadcastOperand> bias;
  /// Of the last block: its product, tanh of the capped score, and what
  /// score_mod got.
  mlir::Value product, tanh, unmodified;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILESCORE_H
