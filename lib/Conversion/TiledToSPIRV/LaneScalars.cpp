//===- LaneScalars.cpp - Scalars of a task, reduced by each thread --------===//

#include "LaneScalars.h"
#include "LaneLayout.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

FailureOr<Value> LaneScalars::reduce(vector::MultiDimReductionOp op) {
  int64_t size = op.getSourceVectorType().getNumElements();
  bool valid = true;
  Registers reduced =
      e.loop(e.index(0), e.index(size), e.index(1), scalars.lookup(op.getAcc()),
             [&](Value at, ValueRange carried) {
               FailureOr<Value> next = element(op.getSource(), at);
               valid = succeeded(next);
               return Registers{valid ? combine(op.getKind(), carried[0], *next)
                                      : carried[0]};
             });
  if (!valid)
    return failure();
  return reduced[0];
}
