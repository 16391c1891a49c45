//===- AttentionVerifier.h - The constraints of both ops --------*- C++ -*-===//

#ifndef ATTN_LIB_IR_ATTENTIONVERIFIER_H
#define ATTN_LIB_IR_ATTENTIONVERIFIER_H

#include "attn/IR/Attn.h"

namespace attn {

/// C13: all tensors or all memrefs.
mlir::LogicalResult verifyForm(AttentionOpInterface op);
/// C1 to C11, and the strides of C13.
mlir::LogicalResult verifyClauses(AttentionOpInterface op);
/// C12.
mlir::LogicalResult verifyRegionsOf(AttentionOpInterface op);

/// A shape as 2x?x64.
std::string sizesText(llvm::ArrayRef<int64_t> shape);
/// Equal, as far as both are known.
bool sizesAgree(int64_t a, int64_t b);

} // namespace attn

#endif // ATTN_LIB_IR_ATTENTIONVERIFIER_H
