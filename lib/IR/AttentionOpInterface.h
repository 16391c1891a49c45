//===- AttentionOpInterface.h - What forward and backward share -*- C++ -*-===//

#ifndef ATTN_LIB_IR_ATTENTIONOPINTERFACE_H
#define ATTN_LIB_IR_ATTENTIONOPINTERFACE_H

#include "attn/IR/Attn.h"

namespace attn {

using MemoryEffect =
    mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>;

/// The memref form reads its operands and writes its destinations.
void getAttentionEffects(AttentionOpInterface op,
                         llvm::SmallVectorImpl<MemoryEffect> &effects);

/// A size that a result's type states is returned as that constant.
void preferStaticSizes(mlir::ResultRange results,
                       mlir::ReifiedRankedShapedTypeDims &reified);

} // namespace attn

#endif // ATTN_LIB_IR_ATTENTIONOPINTERFACE_H
