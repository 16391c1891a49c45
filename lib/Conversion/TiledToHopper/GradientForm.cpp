//===- GradientForm.cpp - What of the gradients has kernels here ----------===//

#include "GradientForm.h"
#include "OperandTile.h"

using namespace mlir;
using namespace attn;
using hopper::kRows;
using hopper::WarpgroupForm;

/// Sizes that have a kernel.
static bool hasSizes(const WarpgroupForm &form) {
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

static LogicalResult verifyMappable(WarpgroupForm &form) {
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
  if (form.keys.reach)
    return refuse("expected no mask but lengths and bands");
  if (!form.fills.empty())
    return refuse("expected no gradients but those of query, key, value and "
                  "sinks");
  return success();
}

FailureOr<WarpgroupForm> hopper::readGradientForm(func::FuncOp function) {
  FailureOr<attn::GradientForm> read =
      attn::readGradientForm(function, /*isWhole=*/true);
  if (failed(read))
    return failure();
  WarpgroupForm form{*read};
  if (failed(verifyMappable(form)))
    return failure();
  return form;
}
