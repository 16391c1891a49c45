//===- TiledForm.cpp - The values of a tiled attention by name ------------===//

#include "TiledForm.h"
#include "RoleTable.h"

using namespace mlir;
using namespace attn;

llvm::StringRef attn::getRole(Operation *op) {
  auto role = op->getAttrOfType<StringAttr>(kRoleAttrName);
  return role ? role.getValue() : StringRef();
}

/// Of the keys, and no further: they may themselves be one flag that was spread
/// over them.
Value attn::spreadKeys(Value mask) {
  while (cast<VectorType>(mask.getType()).getRank() > 1) {
    Operation *op = mask.getDefiningOp();
    if (!isa_and_nonnull<vector::BroadcastOp, vector::ShapeCastOp>(op))
      break;
    mask = op->getOperand(0);
  }
  return mask;
}

FailureOr<TiledForm> attn::readTiledForm(scf::ForallOp tasks) {
  auto tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName);
  auto target = tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
  if (!tiling || !target)
    return tasks.emitOpError(
        "expects attn.tiling and attn.target on the task "
        "loop; run attn-select-tiling and attn-tile first");
  TiledForm form;
  form.tasks = tasks;
  form.tiling = tiling.getValue();
  form.target = target.getValue();

  RoleTable roles(tasks);
  form.sweep = roles.get<scf::ForOp>(role::kSweep, /*required=*/false);
  bool hasKeys = bool(form.sweep);
  form.reach = roles.get<scf::IfOp>(role::kReach, /*required=*/false);
  form.masked = dyn_cast_or_null<scf::IfOp>(roles.find(role::kMasked));
  form.seen = roles.get<vector::MultiDimReductionOp>(role::kSeen, false);
  form.rowMax = roles.get<vector::MultiDimReductionOp>(role::kRowMax, hasKeys);
  form.rowSum = roles.get<vector::MultiDimReductionOp>(role::kRowSum, hasKeys);
  form.probabilities = roles.get<math::Exp2Op>(role::kProbabilities, hasKeys);
  form.correction = roles.get<math::Exp2Op>(role::kCorrection, hasKeys);
  bool hasVote = hasKeys && (form.isConditional() || form.isStale());
  form.vote = roles.get<vector::MultiDimReductionOp>(role::kVote, hasVote);
  form.rescale = roles.get<scf::IfOp>(role::kRescale, hasVote);
  form.peak = roles.get<vector::MultiDimReductionOp>(
      role::kPeak, hasKeys && form.isRaised());
  // Absent where a head dimension is zero, or no lse is asked for.
  form.query = roles.get<vector::TransferReadOp>(role::kQuery, false);
  form.key = roles.get<vector::TransferReadOp>(role::kKey, false);
  form.scores = roles.get<vector::ContractionOp>(role::kScores, false);
  form.value = roles.get<vector::TransferReadOp>(role::kValue, false);
  form.accumulator =
      roles.get<vector::ContractionOp>(role::kAccumulator, false);
  form.output = roles.get<vector::TransferWriteOp>(role::kOutput, false);
  form.lse = roles.get<vector::TransferWriteOp>(role::kLse, false);
  if (form.value && form.value.getMask())
    form.seenKeys = spreadKeys(form.value.getMask());
  // Without values the keys are still asked whether any is seen.
  if (form.reach && !form.seenKeys)
    for (Operation &op : *form.sweep.getBody())
      if (auto any = dyn_cast<vector::MultiDimReductionOp>(op))
        if (any.getDestType().isInteger(1))
          form.seenKeys = any.getSource();
  form.kvHead = roles.find(role::kKvHead);
  if (Operation *bound = roles.find(role::kRightBound))
    form.rightBound = bound->getResult(0);
  if (!roles.isValid())
    return failure();

  if (hasKeys) {
    form.finished = form.rowMax->getOperand(0);
    if (!roles.all(role::kRebuilt).empty()) {
      if (Operation *masked = roles.find(role::kMasked))
        form.finished = masked->getResult(0);
      else if (form.scores)
        form.finished = form.scores->getResult(0);
    }
    auto tile = cast<VectorType>(form.rowMax->getOperand(0).getType());
    form.blockQuery = tile.getDimSize(0);
    form.blockKey = tile.getDimSize(1);
    form.accumulatorType = cast<FloatType>(tile.getElementType());
  } else {
    // The results are constants; any accumulator will do to carry them.
    vector::TransferWriteOp write = form.output ? form.output : form.lse;
    form.blockQuery = write.getVectorType().getDimSize(0);
    form.blockKey = 1;
    Type element = write.getVectorType().getElementType();
    Builder b(tasks.getContext());
    form.accumulatorType =
        element.isF64() ? FloatType(b.getF64Type()) : FloatType(b.getF32Type());
  }
  form.headDim = form.query ? form.query.getVectorType().getDimSize(1) : 0;
  form.valueDim = form.value    ? form.value.getVectorType().getDimSize(1)
                  : form.output ? form.output.getVectorType().getDimSize(1)
                                : 0;
  vector::TransferReadOp operand = form.query ? form.query : form.value;
  form.elementType =
      operand ? cast<FloatType>(operand.getVectorType().getElementType())
              : form.accumulatorType;
  return form;
}
