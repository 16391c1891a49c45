//===- Compiler.cpp - From a module to an artifact ------------------------===//
//
// A clone of the module is walked from stage to stage, each with a pass manager
// of its own, because three things happen on the way: at stage attn, when every
// function shows what it is, the entry is chosen and its arguments are taken
// down; at stage configured, the chip is read where it is decided.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "CodeGeneration.h"
#include "Describe.h"
#include "DiagnosticCapture.h"
#include "Entry.h"
#include "attn/IR/Attn.h"
#include "attn/IR/TiledForm.h"
#include "attn/Pipelines/Pipelines.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace attn;

namespace {
class Compilation {
public:
  /// With `forCode`, the module is cut down to one function and what it calls.
  static llvm::Expected<Compilation>
  start(ModuleOp module, const CompileOptions &options, bool forCode);
  /// Goes on to `stage`, at most Llvm.
  llvm::Error advance(Stage stage);
  llvm::Expected<std::string> code(bool asAssembly);
  llvm::Expected<Artifact> artifact();

  OwningOpRef<ModuleOp> takeModule() { return std::move(module); }

private:
  llvm::Error run(Stage stage);
  llvm::Error selectEntry();
  void readTarget();

  OwningOpRef<ModuleOp> module;
  CompileOptions options;
  bool forCode = false;
  Stage reached = Stage::Input;
  std::string entryName;
  std::optional<LaunchDescription> launch;
  /// Assembly needs no launch description: kept until one is asked for.
  std::string launchProblem;
  TargetDescription target;
  bool targetsDiffer = false, usesTiles = false;
};
} // namespace

llvm::Expected<Compilation> Compilation::start(ModuleOp module,
                                               const CompileOptions &options,
                                               bool forCode) {
  llvm::Expected<TargetDescription> target = lookupTarget(options.target);
  if (!target)
    return target.takeError();
  Compilation c;
  c.module = cast<ModuleOp>(module->clone());
  c.options = options;
  c.forCode = forCode;
  c.target = *target;
  return c;
}

/// Short of code, a module is lowered whole unless an entry is named.
llvm::Error Compilation::selectEntry() {
  if (!forCode && options.entry.empty())
    return requireAttention(*module);
  llvm::Expected<func::FuncOp> entry = findEntry(*module, options);
  if (!entry)
    return entry.takeError();
  entryName = entry->getName().str();
  for (auto function : module->getOps<func::FuncOp>())
    SymbolTable::setSymbolVisibility(
        function, function == *entry ? SymbolTable::Visibility::Public
                                     : SymbolTable::Visibility::Private);
  PassManager passes(module->getContext());
  passes.addPass(createSymbolDCEPass());
  if (failed(passes.run(*module)))
    return llvm::createStringError("unused functions cannot be removed");
  llvm::Expected<LaunchDescription> description = describeLaunch(*entry);
  if (description)
    launch = std::move(*description);
  else
    launchProblem = toString(description.takeError());
  return llvm::Error::success();
}

/// Code is generated for the chip and the product that the ops were planned
/// for.
void Compilation::readTarget() {
  TargetAttr first;
  module->walk([&](Operation *op) {
    auto attribute = op->getAttrOfType<TargetAttr>(kTargetAttrName);
    auto tiling = op->getAttrOfType<TilingAttr>(kTilingAttrName);
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      attribute = attention.getTargetAttr();
      tiling = attention.getTilingAttr();
    }
    usesTiles |= tiling && tiling.getValue().product == "amx";
    if (attribute && !first)
      first = attribute;
    targetsDiffer |= attribute && attribute != first;
  });
  if (first)
    target = first.getValue();
}

llvm::Error Compilation::run(Stage stage) {
  PassManager passes(module->getContext());
  switch (stage) {
  case Stage::Attn:
    addPassesToAttn(passes);
    break;
  case Stage::Configured:
    addPassesToConfigured(passes, options.target);
    break;
  case Stage::Tiled:
    addPassesToTiled(passes);
    break;
  case Stage::Mapped:
    addPassesToMappedCpu(passes);
    break;
  default:
    addPassesToLlvmCpu(passes);
    break;
  }
  // --mlir-print-ir-after-all, --mlir-timing and the like. A tool that has no
  // such options is told that by a failure.
  (void)applyPassManagerCLOptions(passes);
  applyDefaultTimingPassManagerCLOptions(passes);
  DiagnosticCapture diagnostics(module->getContext());
  if (failed(passes.run(*module)))
    return diagnostics.takeError(
        ("the passes to stage '" + stageName(stage) + "' failed").str());
  return llvm::Error::success();
}

llvm::Error Compilation::advance(Stage stage) {
  while (reached < stage) {
    Stage next = static_cast<Stage>(static_cast<unsigned>(reached) + 1);
    if (next == Stage::Mapped && targetsDiffer)
      return llvm::createStringError("the ops carry different #attn.target; "
                                     "code is for one chip, so choose one "
                                     "function with --entry=NAME");
    if (next == Stage::Mapped && target.family != "cpu")
      return llvm::createStringError("target '" + target.name +
                                     "' has no code generator yet; stages up "
                                     "to tiled can be emitted, or choose a "
                                     "cpu target");
    if (next == Stage::Llvm)
      for (auto function : module->getOps<func::FuncOp>())
        if (function.isPublic() && !function.isDeclaration())
          function->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                            UnitAttr::get(module->getContext()));
    if (llvm::Error error = run(next))
      return error;
    reached = next;
    if (next == Stage::Attn)
      if (llvm::Error error = selectEntry())
        return error;
    if (next == Stage::Configured)
      readTarget();
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> Compilation::code(bool asAssembly) {
  if (llvm::Error error = advance(Stage::Llvm))
    return error;
  DiagnosticCapture diagnostics(module->getContext());
  llvm::Expected<std::string> code =
      generateCode(*module, interfaceSymbol(entryName), target, asAssembly);
  if (!code)
    return diagnostics.takeError(toString(code.takeError()));
  return code;
}

llvm::Expected<Artifact> Compilation::artifact() {
  llvm::Expected<std::string> object = code(/*asAssembly=*/false);
  if (!object)
    return object.takeError();
  if (!launch)
    return llvm::createStringError(Twine(launchProblem));
  launch->format = "obj";
  launch->entry = interfaceSymbol(entryName);
  launch->target = target.name;
  launch->triple = tripleOf(target).str();
  launch->arch = target.arch;
  launch->features = target.features;
  // A processor model has the tile registers without naming them; whoever
  // runs code that uses them has to ask for them first.
  if (usesTiles && !StringRef(launch->features).contains("+amx-tile"))
    launch->features += launch->features.empty() ? "+amx-tile,+amx-bf16"
                                                 : ",+amx-tile,+amx-bf16";
  launch->abi = "memref-descriptors";
  return Artifact{*launch, std::move(*object)};
}

llvm::Expected<Artifact> attn::compile(ModuleOp module,
                                       const CompileOptions &options) {
  llvm::Expected<Compilation> compilation =
      Compilation::start(module, options, /*forCode=*/true);
  if (!compilation)
    return compilation.takeError();
  return compilation->artifact();
}

llvm::Expected<OwningOpRef<ModuleOp>>
attn::lowerToStage(ModuleOp module, Stage stage,
                   const CompileOptions &options) {
  llvm::Expected<Compilation> compilation =
      Compilation::start(module, options, /*forCode=*/false);
  if (!compilation)
    return compilation.takeError();
  if (llvm::Error error = compilation->advance(stage))
    return error;
  return compilation->takeModule();
}

llvm::Expected<std::string> attn::emitStage(ModuleOp module, Stage stage,
                                            const CompileOptions &options) {
  if (stage == Stage::Asm || stage == Stage::Obj) {
    llvm::Expected<Compilation> compilation =
        Compilation::start(module, options, /*forCode=*/true);
    if (!compilation)
      return compilation.takeError();
    return compilation->code(stage == Stage::Asm);
  }
  llvm::Expected<OwningOpRef<ModuleOp>> lowered =
      lowerToStage(module, stage, options);
  if (!lowered)
    return lowered.takeError();
  std::string text;
  llvm::raw_string_ostream(text) << **lowered << "\n";
  return text;
}
