//===- Compiler.cpp - From a module to an artifact ------------------------===//
//
// A clone of the module is walked from stage to stage, each with a pass manager
// of its own, because two things are read off on the way: the arguments, while
// the entry still says what they are (stage attn), and the chip, where it is
// decided (stage configured).
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "CodeGeneration.h"
#include "Describe.h"
#include "DiagnosticCapture.h"
#include "attn/IR/Attn.h"
#include "attn/IR/TiledForm.h"
#include "attn/Pipelines/Pipelines.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace attn;

namespace {
class Compilation {
public:
  static llvm::Expected<Compilation> start(ModuleOp module,
                                           const CompileOptions &options);
  /// Goes on to `stage`, at most Llvm.
  llvm::Error advance(Stage stage);
  llvm::Expected<std::string> code(bool asAssembly);
  llvm::Expected<Artifact> artifact();

  OwningOpRef<ModuleOp> takeModule() { return std::move(module); }

private:
  llvm::Error run(Stage stage);
  func::FuncOp getEntry() {
    return module->lookupSymbol<func::FuncOp>(entryName);
  }
  void describeEntry();
  llvm::Error readTarget();

  OwningOpRef<ModuleOp> module;
  std::string targetName, entryName;
  Stage reached = Stage::Input;
  std::optional<LaunchDescription> launch;
  /// Why there is no launch description: not an error before code is asked
  /// for.
  std::string launchProblem;
  TargetDescription target;
};
} // namespace

llvm::Expected<Compilation> Compilation::start(ModuleOp module,
                                               const CompileOptions &options) {
  llvm::Expected<func::FuncOp> entry = findEntry(module, options);
  if (!entry)
    return entry.takeError();
  llvm::Expected<TargetDescription> target = lookupTarget(options.target);
  if (!target)
    return target.takeError();
  Compilation c;
  c.module = cast<ModuleOp>(module->clone());
  c.targetName = options.target;
  c.target = *target;
  c.entryName = entry->getName().str();
  return c;
}

/// Taken down while the entry's types still say what its arguments are.
void Compilation::describeEntry() {
  llvm::Expected<LaunchDescription> description = describeLaunch(getEntry());
  if (description)
    launch = std::move(*description);
  else
    launchProblem = toString(description.takeError());
}

/// Code is generated for the chip that the ops were planned for.
llvm::Error Compilation::readTarget() {
  TargetAttr first;
  bool differ = false;
  getEntry().walk([&](Operation *op) {
    TargetAttr attribute;
    if (auto attention = dyn_cast<AttentionOp>(op))
      attribute = attention.getTargetAttr();
    else
      attribute = op->getAttrOfType<TargetAttr>(kTargetAttrName);
    if (attribute && !first)
      first = attribute;
    differ |= attribute && attribute != first;
  });
  if (differ)
    return llvm::createStringError("the ops of @" + entryName +
                                   " carry different #attn.target; code is "
                                   "for one chip, so give them one");
  if (first)
    target = first.getValue();
  return llvm::Error::success();
}

llvm::Error Compilation::run(Stage stage) {
  PassManager passes(module->getContext());
  switch (stage) {
  case Stage::Attn:
    addPassesToAttn(passes);
    break;
  case Stage::Configured:
    addPassesToConfigured(passes, targetName);
    break;
  case Stage::Tiled:
    addPassesToTiled(passes);
    break;
  case Stage::Mapped:
    addPassesToMappedCpu(passes);
    break;
  default:
    addPassesToLlvm(passes);
    break;
  }
  DiagnosticCapture diagnostics(module->getContext());
  if (failed(passes.run(*module)))
    return diagnostics.takeError(
        ("the passes to stage '" + stageName(stage) + "' failed").str());
  return llvm::Error::success();
}

llvm::Error Compilation::advance(Stage stage) {
  while (reached < stage) {
    Stage next = static_cast<Stage>(static_cast<unsigned>(reached) + 1);
    if (next == Stage::Mapped && target.family != "cpu")
      return llvm::createStringError("target '" + target.name +
                                     "' has no code generator yet; stages up "
                                     "to tiled can be emitted, or choose a "
                                     "cpu target");
    if (next == Stage::Llvm)
      getEntry()->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                          UnitAttr::get(module->getContext()));
    if (llvm::Error error = run(next))
      return error;
    if (next == Stage::Attn)
      describeEntry();
    if (next == Stage::Configured)
      if (llvm::Error error = readTarget())
        return error;
    reached = next;
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
  launch->abi = "memref-descriptors";
  return Artifact{*launch, std::move(*object)};
}

llvm::Expected<Artifact> attn::compile(ModuleOp module,
                                       const CompileOptions &options) {
  llvm::Expected<Compilation> compilation = Compilation::start(module, options);
  if (!compilation)
    return compilation.takeError();
  return compilation->artifact();
}

llvm::Expected<OwningOpRef<ModuleOp>>
attn::lowerToStage(ModuleOp module, Stage stage,
                   const CompileOptions &options) {
  llvm::Expected<Compilation> compilation = Compilation::start(module, options);
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
        Compilation::start(module, options);
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
