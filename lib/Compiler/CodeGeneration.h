//===- CodeGeneration.h - From the LLVM dialect to code ---------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_CODEGENERATION_H
#define ATTN_LIB_COMPILER_CODEGENERATION_H

#include "attn/IR/TargetDescription.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"

namespace attn {

/// What LLVM calls the machine. For a CPU target, this one's architecture and
/// operating system where they fit, else Linux.
llvm::Triple tripleOf(const TargetDescription &target);

/// The symbol of a function's C interface.
std::string interfaceSymbol(llvm::StringRef function);

/// A relocatable object, or assembly, that exports `symbol` alone. `module` is
/// a module or a gpu.module; for a GPU, assembly is PTX.
llvm::Expected<std::string> generateCode(mlir::Operation *module,
                                         llvm::StringRef symbol,
                                         const TargetDescription &target,
                                         bool asAssembly);

} // namespace attn

#endif // ATTN_LIB_COMPILER_CODEGENERATION_H
