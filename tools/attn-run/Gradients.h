//===- Gradients.h - Run the gradient kernel behind the forward -*- C++ -*-===//

#ifndef ATTN_TOOLS_ATTN_RUN_GRADIENTS_H
#define ATTN_TOOLS_ATTN_RUN_GRADIENTS_H

#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/HostTensor.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace attn {

struct GradientRun {
  /// Of the gradient of the output, which is made up.
  uint64_t seed = 0;
  bool check = true;
  /// As Kernel::time takes it; nothing: no timing.
  std::optional<int64_t> runs;
};

/// Compiles and runs the function that `options` name, the gradient of one that
/// ran on `forward`: its inputs, its output and its lse. `print` gets a label
/// and lines of text.
llvm::Error
runGradients(mlir::ModuleOp module, const CompileOptions &options,
             llvm::ArrayRef<HostTensor> forward, const GradientRun &run,
             llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> print);

} // namespace attn

#endif // ATTN_TOOLS_ATTN_RUN_GRADIENTS_H
