//===- WarpScalars.cpp - Scalars of a task, flat vectors included ---------===//

#include "WarpScalars.h"

using namespace mlir;
using namespace attn;

static constexpr int64_t kLanes = 32;

FailureOr<Value> WarpScalars::element(Value vector, Value at) {
  FailureOr<Value> piece = slicer.lanes(vector, {at, at, 1});
  if (failed(piece))
    return failure();
  return Value(vector::ExtractOp::create(e.b, e.loc, *piece, 0));
}

static Value combine(GpuEmitter &e, vector::CombiningKind kind, Value x,
                     Value y) {
  switch (kind) {
  case vector::CombiningKind::MAXSI:
    return arith::MaxSIOp::create(e.b, e.loc, x, y);
  case vector::CombiningKind::MINSI:
    return arith::MinSIOp::create(e.b, e.loc, x, y);
  default:
    return arith::OrIOp::create(e.b, e.loc, x, y);
  }
}

/// Elements past the end repeat the last one: least, greatest and any may count
/// an element twice.
FailureOr<Value> WarpScalars::reduce(vector::MultiDimReductionOp op) {
  Value source = op.getSource(), result;
  int64_t size = op.getSourceVectorType().getNumElements();
  for (int64_t first = 0; first < size; first += kLanes) {
    Value at = e.add(lane, first);
    if (first + kLanes > size)
      at = arith::MinSIOp::create(e.b, e.loc, at, e.index(size - 1));
    FailureOr<Value> next = element(source, at);
    if (failed(next))
      return failure();
    result = result ? combine(e, op.getKind(), result, *next) : *next;
  }
  Type type = result.getType();
  bool isBit = type.isInteger(1);
  if (isBit)
    result = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), result);
  for (int64_t distance = 1; distance < kLanes; distance *= 2)
    result = combine(e, op.getKind(), result, e.fromLane(result, distance));
  if (isBit)
    result = arith::TruncIOp::create(e.b, e.loc, type, result);
  return combine(e, op.getKind(), result, scalars.lookup(op.getAcc()));
}

LogicalResult WarpScalars::clone(Block &block, Reduce reduceAny) {
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
      if (!isThere(reduction.getAcc()))
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
