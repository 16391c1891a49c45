//===- MaskedScores.h - Masks on what a thread holds ------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_MASKEDSCORES_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_MASKEDSCORES_H

#include "LaneLayout.h"

namespace attn::spv {

/// The thread's elements of `scores`, whose raw product is bound. `masked` may
/// be null: the branch of the tiled form that tests elements, which only blocks
/// on an edge take. `whenTested` is called where the masks are tested.
mlir::FailureOr<Registers>
maskScores(GpuEmitter &e, LaneLayout &layout, mlir::IRMapping &scalars,
           mlir::Value scores, mlir::scf::IfOp masked,
           llvm::function_ref<mlir::LogicalResult()> whenTested);

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_MASKEDSCORES_H
