//===- TiledForm.h - The values of a tiled attention by name ----*- C++ -*-===//
//
// attn-tile tags the operations that a back end needs to know with `attn.role`.
// This reads the tags back. Nothing is recognised by its shape or position: an
// operation without a role is plain scalar or tile arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_TILEDFORM_H
#define ATTN_LIB_CONVERSION_COMMON_TILEDFORM_H

#include "attn/IR/Attn.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace attn {

/// One `scf.forall` over (batch, head, query block) and its parts.
struct TiledForm {
  mlir::scf::ForallOp tasks;
  Tiling tiling;
  TargetDescription target;

  mlir::vector::TransferReadOp query, key, value;
  /// Absent when there is no key at all: then nothing but the results is left.
  mlir::scf::ForOp sweep;
  /// The block that holds the key block's work: the body of the sweep, or of
  /// the scf.if that skips blocks without a visible pair.
  mlir::scf::IfOp reach;
  mlir::vector::ContractionOp scores, accumulator;
  /// Yields the scores with hidden pairs at -inf (and `seen`); absent when
  /// every block, or none, is tested.
  mlir::scf::IfOp masked;
  /// The tile that a block's softmax starts from, once masks have been applied:
  /// the scores, or what they are rebuilt from.
  mlir::Value finished;
  /// Whether row maximum, correction and probabilities come from the block body
  /// or from `rescale`, see the roles.
  mlir::vector::MultiDimReductionOp rowMax, rowSum;
  /// Of a raised reference only.
  mlir::vector::MultiDimReductionOp peak;
  /// The test for a new reference, and the branch on it; absent where the
  /// softmax is exact.
  mlir::vector::MultiDimReductionOp vote;
  mlir::scf::IfOp rescale;
  /// Which keys of a block some row sees; absent where lengths and bands are
  /// the only masks.
  mlir::vector::MultiDimReductionOp seen;
  /// The keys whose values are read, vector<Bc x i1>: `seen` or a mask of keys
  /// alone; null where every value is read.
  mlir::Value seenKeys;
  mlir::math::Exp2Op probabilities, correction;
  mlir::vector::TransferWriteOp output, lse;
  /// h / group; absent when there are as many key/value heads as query heads.
  mlir::Operation *kvHead;
  /// Optional: the i32 bound b of the causal test "jj - ii <= b".
  mlir::Value rightBound;

  /// Tile sizes as the vector types state them.
  int64_t blockQuery, blockKey, headDim, valueDim;
  mlir::FloatType elementType, accumulatorType;

  mlir::Block *blockBody() {
    return reach ? reach.thenBlock() : sweep.getBody();
  }
  bool isConditional() const { return tiling.softmax == "conditional"; }
  bool isRaised() const { return tiling.softmax == "raised"; }
  /// The reference is what it was before, until a vote.
  bool isStale() const { return tiling.softmax == "stale" || isRaised(); }
};

/// Reads the roles below `tasks`; a missing or repeated one is an error on the
/// loop that says which.
mlir::FailureOr<TiledForm> readTiledForm(mlir::scf::ForallOp tasks);

/// The vector of keys (vector<Bc x i1>) that the mask of a read of whole rows
/// was spread from.
mlir::Value spreadKeys(mlir::Value mask);

/// The role of an operation, or an empty string.
llvm::StringRef getRole(mlir::Operation *op);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_TILEDFORM_H
