//===- WarpScalars.cpp - Scalars of a task, reduced by a warp -------------===//

#include "WarpScalars.h"

using namespace mlir;
using namespace attn;

static constexpr int64_t kLanes = 32;

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
    result = result ? combine(op.getKind(), result, *next) : *next;
  }
  Type type = result.getType();
  bool isBit = type.isInteger(1);
  if (isBit)
    result = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), result);
  for (int64_t distance = 1; distance < kLanes; distance *= 2)
    result = combine(op.getKind(), result, e.fromLane(result, distance));
  if (isBit)
    result = arith::TruncIOp::create(e.b, e.loc, type, result);
  return combine(op.getKind(), result, scalars.lookup(op.getAcc()));
}
