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

static bool readRowTasks(scf::ForallOp tasks, bool isAccumulated,
                         RowTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.outputGradient = roles.get<TransferReadOp>(role::kOutputGradient);
  form.output = roles.get<TransferReadOp>(role::kForwardOutput);
  form.delta = roles.get<TransferWriteOp>(role::kDelta);
  form.reference = roles.get<TransferWriteOp>(role::kReference);
  form.querySum = roles.get<TransferWriteOp>(role::kQuerySum, isAccumulated);
  if (!roles.isValid())
    return false;
  form.sum =
      form.delta.getVector().getDefiningOp<vector::MultiDimReductionOp>();
  if (!form.sum)
    form.delta.emitOpError("expects the row sums of a tile as delta");
  return bool(form.sum);
}

/// All but `ofProducts`.
static void readBlock(RoleTable &roles, GradientBlock &form) {
  form.key = roles.get<TransferReadOp>(role::kKey);
  form.value = roles.get<TransferReadOp>(role::kValue);
  form.query = roles.get<TransferReadOp>(role::kQuery);
  form.outputGradient = roles.get<TransferReadOp>(role::kOutputGradient);
  form.reference = roles.get<TransferReadOp>(role::kReference);
  form.delta = roles.get<TransferReadOp>(role::kDelta);
  form.scores = roles.get<ContractionOp>(role::kScores);
  form.probabilityGradient =
      roles.get<ContractionOp>(role::kProbabilityGradient);
  form.masked = dyn_cast_or_null<scf::IfOp>(roles.find(role::kMasked));
  if (Operation *op = roles.find(role::kProbabilities))
    form.probabilities = op->getResult(0);
}

static bool readKeyTasks(scf::ForallOp tasks, bool isAccumulated,
                         KeyTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  readBlock(roles, form);
  form.group = roles.get<scf::ForOp>(role::kGroup);
  form.sweep = roles.get<scf::ForOp>(role::kSweep);
  form.valueGradient = roles.get<ContractionOp>(role::kValueGradient);
  form.keyGradient = roles.get<ContractionOp>(role::kKeyGradient);
  form.queryGradient =
      roles.get<ContractionOp>(role::kQueryGradient, isAccumulated);
  form.querySum = roles.get<TransferWriteOp>(role::kQuerySum, isAccumulated);
  if (!roles.isValid())
    return false;
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

static bool readQueryTasks(scf::ForallOp tasks, bool isAccumulated,
                           QueryTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.output = roles.get<TransferWriteOp>(role::kOutput);
  form.querySum = roles.get<TransferReadOp>(role::kQuerySum, isAccumulated);
  if (isAccumulated)
    return roles.isValid();
  readBlock(roles, form);
  form.sweep = roles.get<scf::ForOp>(role::kSweep);
  form.queryGradient = roles.get<ContractionOp>(role::kQueryGradient);
  if (!roles.isValid())
    return false;
  form.ofProducts = unrounded(form.queryGradient.getLhs());
  return true;
}

template <typename OpTy> static OpTy firstOf(Block &block) {
  auto ops = block.getOps<OpTy>();
  return ops.empty() ? OpTy() : *ops.begin();
}

static bool readSinkTasks(scf::ForallOp tasks, SinkTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.batches = firstOf<scf::ForOp>(*tasks.getBody());
  if (form.batches)
    form.rows = firstOf<scf::ForOp>(*form.batches.getBody());
  form.store = firstOf<memref::StoreOp>(*tasks.getBody());
  form.delta = roles.get<TransferReadOp>(role::kDelta);
  if (!form.rows || !form.store)
    tasks.emitOpError("expects loops over batches and rows, and a store");
  return roles.isValid() && form.rows && form.store;
}

/// Sizes that have a kernel.
static bool hasSizes(const GradientForm &form) {
  int64_t dim = std::max(form.headDim, form.valueDim);
  if (form.tiling.groups != 2)
    return false;
  if (!form.isAccumulated())
    return form.blockQuery == kRows &&
           (form.splitsRoles() ? dim <= 256
                               : form.blockKey == 128 && dim <= 128);
  // At D <= 64 the warpgroups share the queries of a block, in eights.
  return form.blockKey == 128 && dim <= 128 && form.blockQuery % 32 == 0 &&
         form.blockQuery <= 128;
}

static LogicalResult verifyMappable(GradientForm &form) {
  auto refuse = [&](const Twine &what) {
    scf::ForallOp tasks = form.keys.tasks;
    return tasks.emitOpError("cannot use wgmma: ") << what;
  };
  if (form.headDim % 8 != 0 || form.valueDim % 8 != 0)
    return refuse("expected head dimensions that are multiples of 8");
  if (!hasSizes(form))
    return refuse("expected two groups, and of an accumulated query gradient "
                  "block_key = 128, block_query a multiple of 32, head "
                  "dimensions up to 128; of a recomputed one block_query = 64, "
                  "block_key = 128, or 64 for head dimensions up to 256");
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
  bool valid = true, isAccumulated = false;
  for (auto tasks : function.getOps<scf::ForallOp>())
    if (auto tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName))
      isAccumulated = tiling.getValue().queryGradient == "accumulated";
  for (auto tasks : function.getOps<scf::ForallOp>()) {
    StringRef role = getRole(tasks);
    if (role == role::kDeltaTasks)
      valid &= readRowTasks(tasks, isAccumulated, form.rows);
    else if (role == role::kKeyTasks)
      valid &= readKeyTasks(tasks, isAccumulated, form.keys);
    else if (role == role::kQueryTasks)
      valid &= readQueryTasks(tasks, isAccumulated, form.queries);
    else if (role == role::kSinkTasks)
      valid &= readSinkTasks(tasks, form.sinks);
    else
      return tasks.emitOpError("has no mapping to warpgroups yet; expected no "
                               "gradients but those of query, key, value and "
                               "sinks");
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
