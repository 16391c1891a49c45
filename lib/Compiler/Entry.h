//===- Entry.h - Choosing the function to compile ---------------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_ENTRY_H
#define ATTN_LIB_COMPILER_ENTRY_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace attn {

/// An error unless some function of the module holds attention.
llvm::Error requireAttention(mlir::ModuleOp module);

} // namespace attn

#endif // ATTN_LIB_COMPILER_ENTRY_H
