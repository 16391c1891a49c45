//===- TiledForm.h - Names in the tiled form --------------------*- C++ -*-===//
//
// attn-tile says in an attribute what a value is; a back end reads it and does
// not guess. The essay of lib/Transforms/Tile.cpp shows where each one sits.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_IR_TILEDFORM_H
#define ATTN_IR_TILEDFORM_H

#include "llvm/ADT/StringRef.h"

namespace attn {

/// The attribute that holds a role, and the two that `tasks` carries along.
constexpr llvm::StringLiteral kRoleAttrName = "attn.role";
constexpr llvm::StringLiteral kTilingAttrName = "attn.tiling";
constexpr llvm::StringLiteral kTargetAttrName = "attn.target";
/// On `query_tasks` of a deterministic op: what blocks add to the gradients of
/// bias and captures is added in a fixed order.
constexpr llvm::StringLiteral kInOrderAttrName = "attn.in_order";

namespace role {
/// scf.forall over (batch, query head, query block).
constexpr llvm::StringLiteral kTasks = "tasks";
/// The key/value head of a query head, h / (Hq / Hkv); absent when each query
/// head has its own.
constexpr llvm::StringLiteral kKvHead = "kv_head";
/// The i32 bound r of the right band test "column <= row + r", row and column
/// counted within the block; absent without a right bound.
constexpr llvm::StringLiteral kRightBound = "right_bound";
/// scf.for over the key/value blocks; carries row maximum, row sum, acc.
constexpr llvm::StringLiteral kSweep = "sweep";
/// scf.if around a block that may be hidden whole.
constexpr llvm::StringLiteral kReach = "reach";
/// transfer_reads of the operand tiles.
constexpr llvm::StringLiteral kQuery = "query";
constexpr llvm::StringLiteral kKey = "key";
constexpr llvm::StringLiteral kValue = "value";
/// vector.contract: query tile times transposed key tile.
constexpr llvm::StringLiteral kScores = "scores";
/// scf.if that tests elements in edge blocks only, or the arith.select when
/// every block is tested.
constexpr llvm::StringLiteral kMasked = "masked";
/// arith.select: the scores of a block, made again from the base that masks
/// were applied to, factor * base + term. Absent where masks are applied to the
/// scores themselves.
constexpr llvm::StringLiteral kRebuilt = "rebuilt";
/// multi_reduction <or>: which keys of the block some row sees.
constexpr llvm::StringLiteral kSeen = "seen";
/// multi_reduction <maxnumf>: the running row maximum. In the branch of
/// `rescale` that is taken where the softmax is stale.
constexpr llvm::StringLiteral kRowMax = "row_max";
/// exp2 of the score tile, and of the change of the reference. With a stale
/// softmax `probabilities` subtracts the stale reference; what meets the values
/// is the second result of `rescale`. `correction` is in the branch of
/// `rescale` that is taken, except where the softmax is exact.
constexpr llvm::StringLiteral kProbabilities = "probabilities";
constexpr llvm::StringLiteral kCorrection = "correction";
/// multi_reduction <add>: the running row sum, of `probabilities`; with a
/// raised reference, behind `rescale`, of what they were rounded to.
constexpr llvm::StringLiteral kRowSum = "row_sum";
/// multi_reduction <or> over an i1 a row: any row must change its reference.
/// Absent where the softmax is exact. A back end may vote over fewer rows at a
/// time, and over partial row sums: a bound on a sum bounds its parts.
constexpr llvm::StringLiteral kVote = "vote";
/// multi_reduction <maximumf>: the greatest of a row's `probabilities`, for the
/// vote. With a raised reference only. A back end may take them rounded, and
/// any number in its place that is on the same side of 2.
constexpr llvm::StringLiteral kPeak = "peak";
/// scf.if on the vote. Its first branch corrects to the new reference, the
/// other yields what it was. Results, `acc` left out without a value
/// dimension:
///   conditional  m, l, acc      before the block's probabilities
///   stale        m, p, l, acc   with the block's row sum, before its values
///   raised       m, p, l, acc   before the block's row sum and its values
constexpr llvm::StringLiteral kRescale = "rescale";
/// vector.contract: probabilities times value tile.
constexpr llvm::StringLiteral kAccumulator = "accumulator";
/// transfer_writes of the results.
constexpr llvm::StringLiteral kOutput = "output";
constexpr llvm::StringLiteral kLse = "lse";

// Of the backward, see lib/Transforms/TileBackward.cpp. What it shares with the
// forward has the forward's role.

/// scf.forall over (batch, query head, query block), (batch, key/value head,
/// key block), again the first, and (query head). A count of 1 in `query_tasks`
/// stands for an axis that is gone through in order. Loops without a role fill
/// memory with zeros.
constexpr llvm::StringLiteral kDeltaTasks = "delta_tasks";
constexpr llvm::StringLiteral kKeyTasks = "key_tasks";
constexpr llvm::StringLiteral kQueryTasks = "query_tasks";
constexpr llvm::StringLiteral kSinkTasks = "sink_tasks";
/// scf.for over the query heads of a key/value head, around the sweep.
constexpr llvm::StringLiteral kGroup = "group";
/// transfer_reads of the output gradient, and of the output.
constexpr llvm::StringLiteral kOutputGradient = "output_gradient";
constexpr llvm::StringLiteral kForwardOutput = "forward_output";
/// transfer_write of delta. Of an accumulated query gradient the key tasks read
/// it by the same role, and `reference`: what is added to the exponents of a
/// row's probabilities.
constexpr llvm::StringLiteral kDelta = "delta";
constexpr llvm::StringLiteral kReference = "reference";
/// The sum of an accumulated query gradient in main memory, in rows of whole
/// blocks: transfer_write of zeros in `delta_tasks`; of the sum with a block's
/// part in `key_tasks`, which run in parallel, so a back end adds atomically;
/// transfer_read in `query_tasks`. Nothing else touches it: the order of a
/// block's elements is the back end's.
constexpr llvm::StringLiteral kQuerySum = "query_sum";
/// What a block of `query_tasks` adds to the gradient of a bias or of a
/// capture: the transfer_write of a part of it, or the store of an element, of
/// what was there plus the block's. On a CUDA device tasks that add to one
/// element run in parallel, unless the op is deterministic, so the back end
/// adds atomically.
constexpr llvm::StringLiteral kPairGradient = "pair_gradient";
/// vector.contract: output gradient times transposed value tile.
constexpr llvm::StringLiteral kProbabilityGradient = "probability_gradient";
/// The gradient of the final scores, P * (dP - delta).
constexpr llvm::StringLiteral kScoreGradient = "score_gradient";
/// vector.contract: the sums of the three gradients.
constexpr llvm::StringLiteral kValueGradient = "value_gradient";
constexpr llvm::StringLiteral kKeyGradient = "key_gradient";
constexpr llvm::StringLiteral kQueryGradient = "query_gradient";
} // namespace role

} // namespace attn

#endif // ATTN_IR_TILEDFORM_H
