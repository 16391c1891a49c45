//===- MaskedScores.cpp - Masks on what a thread holds --------------------===//

#include "MaskedScores.h"
#include "LaneScalars.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

FailureOr<Registers> spv::maskScores(GpuEmitter &e, LaneLayout &layout,
                                     IRMapping &scalars, Value scores,
                                     scf::IfOp masked,
                                     function_ref<LogicalResult()> whenTested) {
  if (!masked || scores != masked->getResult(0)) {
    FailureOr<Registers> result = layout.scores(scores);
    if (failed(result) || failed(whenTested()))
      return failure();
    return result;
  }
  Value plain = masked.elseYield().getOperand(0);
  FailureOr<Registers> unmasked = layout.scores(plain);
  if (failed(unmasked))
    return failure();
  layout.bindTile(plain, *unmasked);
  bool valid = true;
  Registers result =
      e.branch(scalars.lookup(masked.getCondition()), *unmasked, [&]() {
        LaneScalars lane(e, scalars);
        FailureOr<Registers> tested = failure();
        if (succeeded(lane.clone(*masked.thenBlock())))
          tested = layout.scores(masked.thenYield().getOperand(0));
        valid = succeeded(tested) && succeeded(whenTested());
        return valid ? *tested : *unmasked;
      });
  if (!valid)
    return failure();
  return result;
}
