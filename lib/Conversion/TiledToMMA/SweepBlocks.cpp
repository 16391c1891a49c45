//===- SweepBlocks.cpp - The blocks of a sweep that the masks reach -------===//
//
// Segments are asked by the lanes of a warp, masks of elements by all threads
// of the block, each about the elements of a score tile that it has.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

Value mma::anyOf(GpuEmitter &e, const Fragment &booleans) {
  Value any;
  for (Value element : booleans.elements)
    any = any ? e.bitOr(any, element) : element;
  return any;
}

FailureOr<IRMapping> SweepBlocks::enter(const IRMapping &task, Value position) {
  IRMapping block = task;
  block.map(sweep.getInductionVar(), e.toIndex(position));
  WarpScalars warp(e, block, e.toIndex(thread.lane));
  if (failed(warp.clone(*sweep.getBody())) ||
      (reach && failed(warp.clone(*reach.thenBlock()))))
    return failure();
  return block;
}

FailureOr<Value> SweepBlocks::isReached(const IRMapping &task, Value position,
                                        AnyVisible anyVisible) {
  IRMapping block = task;
  block.map(sweep.getInductionVar(), e.toIndex(position));
  WarpScalars warp(e, block, e.toIndex(thread.lane));
  auto reduceAny = [&](vector::MultiDimReductionOp op) -> FailureOr<Value> {
    if (!seen || op.getSource().getDefiningOp() != seen)
      return warp.reduce(op);
    FailureOr<Value> any = anyVisible(block);
    if (failed(any))
      return failure();
    Value word = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), *any);
    auto kind = NVVM::BarrierReductionAttr::get(e.b.getContext(),
                                                NVVM::BarrierReduction::OR);
    word = NVVM::BarrierOp::create(e.b, e.loc, e.b.getI32Type(), Value(),
                                   Value(), kind, word)
               .getResult(0);
    return e.compare(arith::CmpIPredicate::ne, word, e.i32(0));
  };
  if (failed(warp.clone(*sweep.getBody(), reduceAny)))
    return failure();
  return block.lookup(reach.getCondition());
}

FailureOr<Value> SweepBlocks::findReached(const IRMapping &task, Value position,
                                          Value end, AnyVisible anyVisible) {
  if (!reach)
    return position;
  bool valid = true;
  auto isHidden = [&](ValueRange at) {
    // Nothing of a block past the end may be read.
    Value one = e.like(e.zero(e.b.getI1Type()), 1);
    return e.branch(e.less(at[0], end), e.zero(e.b.getI1Type()), [&]() {
      FailureOr<Value> reached = isReached(task, at[0], anyVisible);
      valid &= succeeded(reached);
      return SmallVector<Value>{valid ? e.bitXor(*reached, one) : one};
    })[0];
  };
  SmallVector<Value> found =
      e.repeatWhile(position, isHidden, [&](ValueRange at) {
        return SmallVector<Value>{e.add(at[0], step)};
      });
  if (!valid)
    return failure();
  return found[0];
}
