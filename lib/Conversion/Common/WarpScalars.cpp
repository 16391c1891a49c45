//===- WarpScalars.cpp - Scalars of a task, reduced by a warp -------------===//

#include "WarpScalars.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;

/// One instruction where the chip has it, else five rounds of shuffles.
Value WarpScalars::combineLanes(vector::CombiningKind kind, Value value) {
  auto redux = [&](NVVM::ReduxKind redux) -> Value {
    return NVVM::ReduxOp::create(e.b, e.loc, value.getType(), value, redux,
                                 e.i32(-1));
  };
  if (value.getType().isInteger(32)) {
    if (kind == vector::CombiningKind::MAXSI)
      return redux(NVVM::ReduxKind::MAX);
    if (kind == vector::CombiningKind::MINSI)
      return redux(NVVM::ReduxKind::MIN);
    return redux(NVVM::ReduxKind::OR);
  }
  for (int64_t distance = 1; distance < lanes; distance *= 2)
    value = combine(kind, value, e.fromLane(value, distance));
  return value;
}

/// Elements past the end repeat the last one: least, greatest and any may count
/// an element twice.
FailureOr<Value> WarpScalars::reduce(vector::MultiDimReductionOp op) {
  Value source = op.getSource(), result;
  int64_t size = op.getSourceVectorType().getNumElements();
  for (int64_t first = 0; first < size; first += lanes) {
    Value at = e.add(lane, first);
    if (first + lanes > size)
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
  result = combineLanes(op.getKind(), result);
  if (isBit)
    result = arith::TruncIOp::create(e.b, e.loc, type, result);
  return combine(op.getKind(), result, scalars.lookup(op.getAcc()));
}
