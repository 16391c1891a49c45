//===- Entry.cpp - Reading modules and choosing the function to compile ---===//

#include "Entry.h"
#include "DiagnosticCapture.h"
#include "attn/Artifact/File.h"
#include "attn/Compiler/Compiler.h"
#include "attn/IR/Attn.h"
#include "attn/IR/Fallback.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace attn;

llvm::Expected<OwningOpRef<ModuleOp>> attn::parseModule(StringRef path,
                                                        MLIRContext &context) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readFile(path);
  if (!buffer)
    return buffer.takeError();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), SMLoc());
  DiagnosticCapture diagnostics(&context);
  auto module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return diagnostics.takeError(("'" + path + "' does not parse").str());
  return module;
}

/// Attention as it was written, or in a form that it has been brought to.
static bool holdsAttention(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        return isa<AttentionOpInterface>(op) || op->hasAttr(kRoleAttrName)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::Error attn::requireAttention(ModuleOp module) {
  if (llvm::any_of(module.getOps<func::FuncOp>(), holdsAttention))
    return llvm::Error::success();
  return llvm::createStringError("no attention: expected a function with "
                                 "attn.attention in the module");
}

llvm::Expected<func::FuncOp> attn::findEntry(ModuleOp module,
                                             const CompileOptions &options) {
  SmallVector<func::FuncOp> found;
  std::vector<std::string> names, allNames;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      continue;
    std::string name = "@" + function.getName().str();
    allNames.push_back(name);
    if (options.entry == function.getName())
      return function;
    if (!holdsAttention(function) || getFallback(function))
      continue;
    found.push_back(function);
    names.push_back(name);
  }
  if (!options.entry.empty())
    return llvm::createStringError(
        "no function @" + options.entry + "; the module has " +
        (allNames.empty() ? "none" : llvm::join(allNames, ", ")));
  if (found.empty())
    return requireAttention(module);
  if (found.size() > 1)
    return llvm::createStringError(llvm::join(names, ", ") +
                                   " hold attention; choose one with "
                                   "--entry=NAME");
  return found.front();
}
