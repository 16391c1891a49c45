//===- Compiler.h - From a module to an artifact ----------------*- C++ -*-===//
//
// The whole compiler in one call; the tools are thin shells over it. Errors are
// one line each: the first diagnostic that the passes give, with its place.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_COMPILER_H
#define ATTN_COMPILER_COMPILER_H

#include "attn/Artifact/Artifact.h"
#include "attn/Compiler/Stage.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attn {

struct CompileOptions {
  /// A known target. Ops that carry #attn.target keep theirs.
  std::string target = "cpu";
  /// The function to compile; what it does not call is left out. Empty: the
  /// only one that holds attention, or, short of code, the whole module.
  std::string entry;
};

/// Everything that the passes and the translation to LLVM IR need; the context
/// of a module that is to be compiled has to be made from it.
void registerCompilerDialects(mlir::DialectRegistry &registry);

/// Parses a file ("-" is standard input) and verifies it.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
parseModule(llvm::StringRef path, mlir::MLIRContext &context);

/// The function that `options` mean, in a module at stage attn or later.
llvm::Expected<mlir::func::FuncOp> findEntry(mlir::ModuleOp module,
                                             const CompileOptions &options);

/// Gives the entry NAME of the module a gradient function NAME_grad beside it,
/// as attn-differentiate does, and returns NAME.
llvm::Expected<std::string> differentiate(mlir::ModuleOp module,
                                          const CompileOptions &options);

/// Code for the entry, and how to launch it. `code` is one of the stages from
/// Asm on; without it, what the runtime takes: Obj, Ptx on an NVIDIA GPU, Spv
/// on a Vulkan device. `module` is not changed.
///
/// A module that holds a kernel of stage mapped for a GPU goes on from there.
llvm::Expected<Artifact> compile(mlir::ModuleOp module,
                                 const CompileOptions &options,
                                 std::optional<Stage> code = std::nullopt);

/// The module at `stage` as text, or as code from Asm on. `module` is not
/// changed.
llvm::Expected<std::string> emitStage(mlir::ModuleOp module, Stage stage,
                                      const CompileOptions &options);

/// A copy of the module at `stage`, at most Spirv.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToStage(mlir::ModuleOp module, Stage stage, const CompileOptions &options);

/// What the planner chooses for each attention of the module, and why.
llvm::Expected<std::string> explain(mlir::ModuleOp module,
                                    const CompileOptions &options, bool asJson);

} // namespace attn

#endif // ATTN_COMPILER_COMPILER_H
