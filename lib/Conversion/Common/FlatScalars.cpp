//===- FlatScalars.cpp - Scalars of a task, flat vectors included ---------===//

#include "FlatScalars.h"
#include "attn/IR/TiledForm.h"

using namespace mlir;
using namespace attn;

FailureOr<Value> FlatScalars::element(Value vector, Value at) {
  FailureOr<Value> piece = slicer.lanes(vector, {at, at, width});
  if (failed(piece) || width == 0)
    return piece;
  return Value(vector::ExtractOp::create(e.b, e.loc, *piece, 0));
}

Value FlatScalars::combine(vector::CombiningKind kind, Value x, Value y) {
  switch (kind) {
  case vector::CombiningKind::MAXSI:
    return arith::MaxSIOp::create(e.b, e.loc, x, y);
  case vector::CombiningKind::MINSI:
    return arith::MinSIOp::create(e.b, e.loc, x, y);
  default:
    return arith::OrIOp::create(e.b, e.loc, x, y);
  }
}

LogicalResult FlatScalars::clone(Block &block, Reduce reduceAny) {
  auto isThere = [&](Value operand) { return scalars.contains(operand); };
  auto isScalar = [](Type type) { return !isa<VectorType>(type); };
  for (Operation &op : block) {
    if (op.getNumRegions() != 0 || op.hasTrait<OpTrait::IsTerminator>() ||
        op.getNumResults() == 0 || !llvm::all_of(op.getResultTypes(), isScalar))
      continue;
    if (llvm::all_of(op.getOperands(), isThere)) {
      e.b.clone(op, scalars)->removeAttr(kRoleAttrName);
      continue;
    }
    FailureOr<Value> result = Value();
    if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
      ArrayRef<int64_t> at = extract.getStaticPosition();
      if (at.size() == 1 && !ShapedType::isDynamic(at[0]))
        result = element(extract.getSource(), e.index(at[0]));
    } else if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op)) {
      // Sums of tiles are no scalars of a task.
      if (!isThere(reduction.getAcc()) ||
          isa<FloatType>(reduction.getDestType()))
        continue;
      if (!reduction.getDestType().isInteger(1))
        result = reduce(reduction);
      else if (reduceAny)
        result = reduceAny(reduction);
    }
    if (failed(result))
      return failure();
    if (*result)
      scalars.map(op.getResult(0), *result);
  }
  return success();
}
