//===- Differentiate.h - The backward op of a forward op --------*- C++ -*-===//
//
// What a framework calls that builds its backward graph itself; the pass
// attn-differentiate does the same for a whole function.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TRANSFORMS_DIFFERENTIATE_H
#define ATTN_TRANSFORMS_DIFFERENTIATE_H

#include "attn/IR/Attn.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace attn {

/// The gradients that are asked for beside those of query, key and value.
struct GradientRequests {
  bool bias = false, sinks = false;
  /// Float captures by number, ascending.
  llvm::SmallVector<int64_t> captures;
  /// Equal inputs must give equal bits.
  bool deterministic = false;
};

/// What the backward op takes beside the operands of the forward op.
struct BackwardOperands {
  mlir::Value output, lse, outputGradient;
  /// Null where nothing depends on the lse.
  mlir::Value lseGradient;
};

/// The op itself if it returns its lse, or one in its place that does.
AttentionOp withLse(mlir::RewriterBase &rewriter, AttentionOp forward);

/// Builds the backward op of a forward op on tensors. Operands of the forward
/// op are looked up in `mapping`, so that the backward op may stand in another
/// function. The results are the gradients: of query, key, value, then those of
/// the requests in their order. Emits an error at the op, or at an op of its
/// score_mod that has no derivative.
mlir::FailureOr<AttentionBackwardOp>
buildAttentionBackward(mlir::OpBuilder &builder, AttentionOp forward,
                       const BackwardOperands &operands,
                       const GradientRequests &requests,
                       const mlir::IRMapping &mapping = {});

} // namespace attn

#endif // ATTN_TRANSFORMS_DIFFERENTIATE_H
