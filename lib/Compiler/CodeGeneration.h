//===- CodeGeneration.h - From the LLVM dialect to code ---------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_CODEGENERATION_H
#define ATTN_LIB_COMPILER_CODEGENERATION_H

#include "attn/IR/TargetDescription.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"

namespace attn {

/// The operating system and architecture that code for a CPU target runs on:
/// this machine's where it fits, else Linux.
llvm::Triple tripleOf(const TargetDescription &target);

/// The symbol of a function's C interface.
std::string interfaceSymbol(llvm::StringRef function);

/// A relocatable object, or assembly, that exports `symbol` alone.
llvm::Expected<std::string> generateCode(mlir::ModuleOp module,
                                         llvm::StringRef symbol,
                                         const TargetDescription &target,
                                         bool asAssembly);

} // namespace attn

#endif // ATTN_LIB_COMPILER_CODEGENERATION_H
