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

class TileScore {
public:
  /// Emits what one task needs before its sweep.
  TileScore(TileBuilder &b, const Task &task);

  static Exponent exponent(AttentionOp op);

  /// The scores of the block that starts at `firstKey`, from its product.
  mlir::Value apply(mlir::Value product, mlir::Value firstKey);

private:
  TileBuilder &b;
  const Task &task;
  AttentionOp op;
  std::optional<BroadcastOperand> bias;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILESCORE_H
