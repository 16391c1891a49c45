//===- GradientForm.cpp - The task loops of the gradients -----------------===//

#include "GradientForm.h"
#include "RoleTable.h"

using namespace mlir;
using namespace attn;
using vector::ContractionOp;
using vector::TransferReadOp;
using vector::TransferWriteOp;

/// A tile before it was rounded for a product.
static Value unrounded(Value tile) {
  auto rounded = tile.getDefiningOp<arith::TruncFOp>();
  return rounded ? rounded.getIn() : tile;
}

namespace {
/// Which roles a form cannot be without.
struct Wanted {
  bool isWhole, isAccumulated;
};
} // namespace

static bool readRowTasks(scf::ForallOp tasks, Wanted wanted, RowTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.outputGradient =
      roles.get<TransferReadOp>(role::kOutputGradient, wanted.isWhole);
  form.output = roles.get<TransferReadOp>(role::kForwardOutput, wanted.isWhole);
  form.delta = roles.get<TransferWriteOp>(role::kDelta);
  form.reference = roles.get<TransferWriteOp>(role::kReference);
  form.querySum =
      roles.get<TransferWriteOp>(role::kQuerySum, wanted.isAccumulated);
  if (!roles.isValid())
    return false;
  form.sum =
      form.delta.getVector().getDefiningOp<vector::MultiDimReductionOp>();
  if (!form.sum && form.output)
    form.delta.emitOpError("expects the row sums of a tile as delta");
  return form.sum || !form.output;
}

/// All but `ofProducts`. Keys may be read again, without those that no row
/// sees.
static void readBlock(RoleTable &roles, bool isWhole, GradientBlock &form) {
  ArrayRef<Operation *> keys = roles.all(role::kKey);
  form.key = keys.size() > 1 ? dyn_cast<TransferReadOp>(keys.front())
                             : roles.get<TransferReadOp>(role::kKey, isWhole);
  form.value = roles.get<TransferReadOp>(role::kValue, isWhole);
  form.query = roles.get<TransferReadOp>(role::kQuery, isWhole);
  form.outputGradient =
      roles.get<TransferReadOp>(role::kOutputGradient, isWhole);
  form.reference = roles.get<TransferReadOp>(role::kReference, isWhole);
  form.delta = roles.get<TransferReadOp>(role::kDelta, isWhole);
  form.scores = roles.get<ContractionOp>(role::kScores, isWhole);
  form.probabilityGradient =
      roles.get<ContractionOp>(role::kProbabilityGradient, isWhole);
  form.sweep = roles.get<scf::ForOp>(role::kSweep, isWhole);
  form.reach = roles.get<scf::IfOp>(role::kReach, false);
  form.seen = roles.get<vector::MultiDimReductionOp>(role::kSeen, false);
  form.masked = dyn_cast_or_null<scf::IfOp>(roles.find(role::kMasked));
  if (Operation *op = roles.find(role::kProbabilities))
    form.probabilities = op->getResult(0);
}

static bool readKeyTasks(scf::ForallOp tasks, Wanted wanted, KeyTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  readBlock(roles, wanted.isWhole, form);
  form.group = roles.get<scf::ForOp>(role::kGroup, wanted.isWhole);
  form.valueGradient =
      roles.get<ContractionOp>(role::kValueGradient, wanted.isWhole);
  form.keyGradient =
      roles.get<ContractionOp>(role::kKeyGradient, wanted.isWhole);
  form.queryGradient =
      roles.get<ContractionOp>(role::kQueryGradient, wanted.isAccumulated);
  form.querySum =
      roles.get<TransferWriteOp>(role::kQuerySum, wanted.isAccumulated);
  if (!roles.isValid())
    return false;
  if (form.keyGradient)
    form.ofProducts = unrounded(form.keyGradient.getLhs());
  ArrayRef<Operation *> outputs = roles.all(role::kOutput);
  if (form.keyGradient && !outputs.empty())
    form.keyOutput = dyn_cast<TransferWriteOp>(outputs.front());
  if (form.valueGradient && !outputs.empty())
    form.valueOutput = dyn_cast<TransferWriteOp>(outputs.back());
  bool valid = bool(form.keyOutput) == bool(form.keyGradient) &&
               bool(form.valueOutput) == bool(form.valueGradient) &&
               form.keyOutput != form.valueOutput;
  // Without head dimensions there is nothing to write.
  if (!form.keyGradient && !form.valueGradient)
    valid = outputs.empty() && !wanted.isWhole;
  if (!valid)
    tasks.emitOpError("expects the writes of key and value gradient");
  return valid;
}

//===----------------------------------------------------------------------===//
// Gradients that pairs add to
//===----------------------------------------------------------------------===//

/// What was written to scratch for a loop to read it element by element, or a
/// number itself.
static Value spilled(Value element) {
  auto load = element.getDefiningOp<memref::LoadOp>();
  if (!load || !load.getMemRef().getDefiningOp<memref::AllocaOp>())
    return element;
  for (Operation *user : load.getMemRef().getUsers())
    if (auto write = dyn_cast<TransferWriteOp>(user))
      return write.getVector();
  return {};
}

/// The tile that `terms` is a sum of, or itself.
static Value summed(Value terms) {
  auto sum = terms.getDefiningOp<vector::MultiDimReductionOp>();
  return sum ? sum.getSource() : terms;
}

static FailureOr<PairGradient> readPair(Operation *op) {
  PairGradient pair;
  Value sum;
  if (auto write = dyn_cast<TransferWriteOp>(op)) {
    pair.isPlace = true;
    pair.destination = write.getBase();
    pair.indices = SmallVector<Value>(write.getIndices());
    sum = write.getVector();
  } else if (auto store = dyn_cast<memref::StoreOp>(op)) {
    pair.destination = store.getMemRef();
    for (Value index : store.getIndices())
      pair.indices.push_back(spilled(index));
    sum = store.getValueToStore();
  }
  auto addition = sum ? sum.getDefiningOp<arith::AddFOp>() : arith::AddFOp();
  if (addition)
    pair.terms = spilled(addition.getRhs());
  if (!pair.terms || llvm::is_contained(pair.indices, Value()))
    return op->emitOpError("expects a sum of what was there and the terms of a "
                           "block");
  pair.tile = summed(pair.terms);
  return pair;
}

static bool readQueryTasks(scf::ForallOp tasks, Wanted wanted,
                           QueryTasks &form) {
  RoleTable roles(tasks);
  form.tasks = tasks;
  form.output = roles.get<TransferWriteOp>(role::kOutput, wanted.isWhole);
  form.querySum =
      roles.get<TransferReadOp>(role::kQuerySum, wanted.isAccumulated);
  if (wanted.isAccumulated)
    return roles.isValid();
  readBlock(roles, wanted.isWhole, form);
  form.queryGradient =
      roles.get<ContractionOp>(role::kQueryGradient, wanted.isWhole);
  if (!roles.isValid())
    return false;
  if (form.queryGradient)
    form.ofProducts = unrounded(form.queryGradient.getLhs());
  if (ArrayRef<Operation *> keys = roles.all(role::kKey); keys.size() > 1)
    form.seenKeys = spreadKeys(cast<TransferReadOp>(keys.back()).getMask());
  for (Operation *op : roles.all(role::kPairGradient)) {
    FailureOr<PairGradient> pair = readPair(op);
    if (failed(pair))
      return false;
    form.pairs.push_back(*pair);
  }
  Operation *inner = form.sweep ? form.sweep : form.output;
  for (Operation *op = inner ? inner->getParentOp() : nullptr;
       op && op != tasks; op = op->getParentOp())
    if (auto loop = dyn_cast<scf::ForOp>(op))
      form.inOrder.insert(form.inOrder.begin(), loop);
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

//===----------------------------------------------------------------------===//
// The form
//===----------------------------------------------------------------------===//

static bool readTasks(scf::ForallOp tasks, Wanted wanted, GradientForm &form) {
  StringRef role = getRole(tasks);
  if (role == role::kDeltaTasks)
    return readRowTasks(tasks, wanted, form.rows);
  if (role == role::kKeyTasks)
    return readKeyTasks(tasks, wanted, form.keys);
  if (role == role::kQueryTasks)
    return readQueryTasks(tasks, wanted, form.queries);
  if (role == role::kSinkTasks)
    return readSinkTasks(tasks, form.sinks);
  if (role.empty()) {
    form.fills.push_back(tasks);
    return true;
  }
  tasks.emitOpError("has the role '") << role << "', which no loop of the "
                                      << "gradients has";
  return false;
}

/// Sizes and types, as the vector types state them.
static void readSizes(GradientForm &form) {
  auto widthOf = [](TransferReadOp read) {
    return read ? read.getVectorType().getDimSize(1) : 0;
  };
  GradientBlock &block =
      form.keys.tasks ? static_cast<GradientBlock &>(form.keys) : form.queries;
  form.blockQuery = form.tiling.blockQuery;
  form.blockKey = form.tiling.blockKey;
  form.headDim = widthOf(block.key);
  form.valueDim = widthOf(block.value);
  for (TransferReadOp read : {block.key, block.value})
    if (read && !form.elementType)
      form.elementType =
          dyn_cast<FloatType>(read.getVectorType().getElementType());
  if (form.rows.tasks)
    form.accumulatorType =
        cast<FloatType>(form.rows.delta.getVectorType().getElementType());
  if (!form.elementType)
    form.elementType = form.accumulatorType;
}

FailureOr<GradientForm> attn::readGradientForm(func::FuncOp function,
                                               bool isWhole) {
  GradientForm form;
  form.function = function;
  bool isKnown = false;
  for (auto tasks : function.getOps<scf::ForallOp>()) {
    auto tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName);
    auto target = tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
    if (!tiling || !target)
      return tasks.emitOpError("expects attn.tiling and attn.target");
    form.tiling = tiling.getValue();
    form.target = target.getValue();
    isKnown = true;
  }
  if (!isKnown)
    return function.emitOpError("has no task loop of gradients");
  Wanted wanted{isWhole, form.isAccumulated()};
  for (auto tasks : function.getOps<scf::ForallOp>())
    if (!readTasks(tasks, wanted, form))
      return failure();
  if (isWhole && (!form.rows.tasks || !form.keys.tasks || !form.queries.tasks))
    return function.emitOpError("lacks a task loop of its gradients; expected "
                                "keys and head dimensions");
  readSizes(form);
  return form;
}
