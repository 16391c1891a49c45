//===- GradientForm.cpp - The task loops of the gradients -----------------===//

#include "GradientForm.h"
#include "../Common/RoleTable.h"
#include "OperandTile.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;
using vector::ContractionOp;
using vector::TransferReadOp;
using vector::TransferWriteOp;

/// A tile before it was rounded for a product.
static Value unrounded(Value tile) {
  auto rounded = tile.getDefiningOp<arith::TruncFOp>();
  return rounded ? rounded.getIn() : tile;
}

static bool readRowTasks(scf::ForallOp tasks, RowTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.outputGradient = roles.get<TransferReadOp>(role::kOutputGradient);
  form.output = roles.get<TransferReadOp>(role::kForwardOutput);
  form.delta = roles.get<TransferWriteOp>(role::kDelta);
  form.reference = roles.get<TransferWriteOp>(role::kReference);
  form.querySum = roles.get<TransferWriteOp>(role::kQuerySum);
  if (!roles.isValid())
    return false;
  form.sum =
      form.delta.getVector().getDefiningOp<vector::MultiDimReductionOp>();
  if (!form.sum)
    form.delta.emitOpError("expects the row sums of a tile as delta");
  return bool(form.sum);
}

static bool readKeyTasks(scf::ForallOp tasks, KeyTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.group = roles.get<scf::ForOp>(role::kGroup);
  form.sweep = roles.get<scf::ForOp>(role::kSweep);
  form.key = roles.get<TransferReadOp>(role::kKey);
  form.value = roles.get<TransferReadOp>(role::kValue);
  form.query = roles.get<TransferReadOp>(role::kQuery);
  form.outputGradient = roles.get<TransferReadOp>(role::kOutputGradient);
  form.reference = roles.get<TransferReadOp>(role::kReference);
  form.delta = roles.get<TransferReadOp>(role::kDelta);
  form.scores = roles.get<ContractionOp>(role::kScores);
  form.probabilityGradient =
      roles.get<ContractionOp>(role::kProbabilityGradient);
  form.valueGradient = roles.get<ContractionOp>(role::kValueGradient);
  form.keyGradient = roles.get<ContractionOp>(role::kKeyGradient);
  form.queryGradient = roles.get<ContractionOp>(role::kQueryGradient);
  form.masked = dyn_cast_or_null<scf::IfOp>(roles.find(role::kMasked));
  form.querySum = roles.get<TransferWriteOp>(role::kQuerySum);
  if (!roles.isValid())
    return false;
  form.probabilities = unrounded(form.valueGradient.getLhs());
  form.ofProducts = unrounded(form.keyGradient.getLhs());
  ArrayRef<Operation *> outputs = roles.all(role::kOutput);
  if (outputs.size() == 2) {
    form.keyOutput = dyn_cast<TransferWriteOp>(outputs[0]);
    form.valueOutput = dyn_cast<TransferWriteOp>(outputs[1]);
  }
  if (!form.keyOutput || !form.valueOutput)
    tasks.emitOpError("expects the writes of key and value gradient");
  return form.keyOutput && form.valueOutput;
}

static bool readQueryTasks(scf::ForallOp tasks, QueryTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.querySum = roles.get<TransferReadOp>(role::kQuerySum);
  form.output = roles.get<TransferWriteOp>(role::kOutput);
  return roles.isValid();
}

static LogicalResult verifyMappable(GradientForm &form) {
  auto refuse = [&](const Twine &what) {
    scf::ForallOp tasks = form.keys.tasks;
    return tasks.emitOpError("cannot use wgmma: ") << what;
  };
  int64_t chunks = llvm::divideCeil(form.headDim, kChunk);
  if (form.blockKey != kRows * form.tiling.groups || form.tiling.groups != 2)
    return refuse("expected groups = 2 and block_key = 128");
  if (form.blockQuery % (chunks == 1 ? 16 * form.tiling.groups : 16) != 0 ||
      form.blockQuery % 32 != 0 || form.blockQuery > 256)
    return refuse("expected a block_query that is a multiple of 32");
  if (form.headDim > 128 || form.valueDim > 128 || form.headDim % 8 != 0 ||
      form.valueDim % 8 != 0)
    return refuse("expected head dimensions up to 128, multiples of 8");
  if (!form.elementType || form.elementType.getWidth() != 16)
    return refuse("expected elements of f16 or bf16");
  bool isSkipping = false;
  scf::ForOp sweep = form.keys.sweep;
  sweep.walk(
      [&](scf::IfOp branch) { isSkipping |= getRole(branch) == role::kReach; });
  if (isSkipping)
    return refuse("expected no mask but lengths and bands");
  return success();
}

FailureOr<GradientForm> hopper::readGradientForm(func::FuncOp function) {
  GradientForm form;
  form.function = function;
  bool valid = true;
  for (auto tasks : function.getOps<scf::ForallOp>()) {
    StringRef role = getRole(tasks);
    if (role == role::kDeltaTasks)
      valid &= readRowTasks(tasks, form.rows);
    else if (role == role::kKeyTasks)
      valid &= readKeyTasks(tasks, form.keys);
    else if (role == role::kQueryTasks)
      valid &= readQueryTasks(tasks, form.queries);
    else
      return tasks.emitOpError("has no mapping to warpgroups yet; expected no "
                               "gradients but those of query, key and value");
    if (!valid)
      return failure();
  }
  if (!form.rows.tasks || !form.keys.tasks || !form.queries.tasks)
    return function.emitOpError("lacks a task loop of its gradients; expected "
                                "keys and head dimensions");
  auto tiling = form.keys.tasks->getAttrOfType<TilingAttr>(kTilingAttrName);
  auto target = form.keys.tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
  if (!tiling || !target)
    return form.keys.tasks.emitOpError("expects attn.tiling and attn.target");
  form.tiling = tiling.getValue();
  form.target = target.getValue();
  form.blockQuery = form.keys.query.getVectorType().getDimSize(0);
  form.blockKey = form.keys.key.getVectorType().getDimSize(0);
  form.headDim = form.keys.key.getVectorType().getDimSize(1);
  form.valueDim = form.keys.value.getVectorType().getDimSize(1);
  form.elementType =
      dyn_cast<FloatType>(form.keys.key.getVectorType().getElementType());
  if (failed(verifyMappable(form)))
    return failure();
  return form;
}
