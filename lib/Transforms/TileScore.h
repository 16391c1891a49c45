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

class TileScore {
public:
  /// Emits what one task needs before its sweep.
  TileScore(TileBuilder &b, const Task &task);

  /// c > 0: a transformed score times c is the base-2 exponent.
  static double exponentFactor(AttentionOp op);

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
