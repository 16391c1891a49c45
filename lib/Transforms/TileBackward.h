//===- TileBackward.h - The gradients as loop nests -------------*- C++ -*-===//

#ifndef ATTN_LIB_TRANSFORMS_TILEBACKWARD_H
#define ATTN_LIB_TRANSFORMS_TILEBACKWARD_H

#include "attn/IR/Attn.h"

namespace attn {

/// Replaces the memref form of the backward op by its loop nests. Emits an
/// error at the op, or at an op of its score_mod that has no derivative.
mlir::LogicalResult tileBackward(AttentionBackwardOp op);

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILEBACKWARD_H
