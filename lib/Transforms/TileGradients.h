//===- TileGradients.h - Gradients that pairs add to ------------*- C++ -*-===//
//
// A bias and the captures of score_mod get a term from every pair that reads
// an element. Tasks that run in parallel must not add to the same element, and
// equal inputs must give equal bits. So a task loop is parallel over those of
// (batch, head, query block) that each such operand has a dimension of its own
// for, and goes through the others one after the other. On a CUDA device it
// does so where the op is deterministic; otherwise tasks add atomically.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_TILEGRADIENTS_H
#define ATTN_LIB_TRANSFORMS_TILEGRADIENTS_H

#include "TileScore.h"

namespace attn {

bool isForCuda(AttentionBackwardOp op);

/// For batch, head and query block: no two of its values add to one element, or
/// they may do so in any order.
using OwnedAxes = std::array<bool, 3>;
OwnedAxes findOwnedAxes(AttentionBackwardOp op);

/// Sets every element to 0.
void fillWithZeros(TileBuilder &b, AttentionBackwardOp op, mlir::Value memref);

/// The destinations of the gradients of bias and captures.
class TileGradients {
public:
  explicit TileGradients(AttentionBackwardOp op);

  /// Whether pairs add to anything here.
  bool isEmpty() const { return !bias && captures.empty(); }
  void initialize(TileBuilder &b, AttentionBackwardOp op);

  /// What a task needs before its sweep.
  void enterTask(TileBuilder &b, const Task &task);
  /// Adds the gradients of the final scores of a block to that of the bias.
  void addToBias(TileBuilder &b, const Task &task, mlir::Value ofScores,
                 mlir::Value firstKey);
  void addToCapture(TileBuilder &b, const CaptureGradient &gradient);

private:
  /// Null for what nobody asked for.
  mlir::Value bias;
  llvm::DenseMap<int64_t, mlir::Value> captures;
  std::optional<BroadcastOperand> biasPart;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILEGRADIENTS_H
