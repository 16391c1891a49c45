//===- Gradient.cpp - The gradient of the entry ---------------------------===//

#include "DiagnosticCapture.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace attn;

llvm::Expected<std::string> attn::differentiate(ModuleOp module,
                                                const CompileOptions &options) {
  llvm::Expected<func::FuncOp> entry = findEntry(module, options);
  if (!entry)
    return entry.takeError();
  std::string name = entry->getName().str();
  PassManager passes(module.getContext());
  DifferentiateOptions differentiateOptions;
  differentiateOptions.entry = name;
  passes.addPass(createDifferentiate(differentiateOptions));
  DiagnosticCapture diagnostics(module.getContext());
  if (failed(passes.run(module)))
    return diagnostics.takeError("@" + name + " cannot be differentiated");
  return name;
}
