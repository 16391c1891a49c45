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
#include "MappedKernel.h"
#include "Ptxas.h"
#include "SpirvBinary.h"
#include "attn/IR/Attn.h"
#include "attn/IR/Fallback.h"
#include "attn/IR/TiledForm.h"
#include "attn/Pipelines/Pipelines.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace attn;

namespace {
class Compilation {
public:
  /// For a kernel (`isKernel`), the module is cut down to one function and what
  /// it calls.
  static llvm::Expected<Compilation>
  start(ModuleOp module, const CompileOptions &options, bool isKernel);
  /// Goes on to `stage`, at most Spirv.
  llvm::Error advance(Stage stage);
  /// At a stage from Asm on.
  llvm::Expected<Artifact> code(std::optional<Stage> stage);
  llvm::Expected<Artifact> vulkanCode(Artifact artifact);
  /// Describes the launch, too.
  llvm::Expected<Artifact> artifact(std::optional<Stage> stage);

  OwningOpRef<ModuleOp> takeModule() { return std::move(module); }

private:
  llvm::Error run(Stage stage);
  llvm::Error selectEntry();
  void readTarget();
  llvm::Error readKernel();
  llvm::Error beginAtMapped(mlir::gpu::GPUFuncOp kernel);
  llvm::Error checkMappable();
  bool isCuda() const { return target.family == "cuda"; }
  bool isVulkan() const { return target.family == "vulkan"; }
  bool isGpu() const { return isCuda() || isVulkan(); }
  /// The last stage before code.
  Stage lastStage() const { return isVulkan() ? Stage::Spirv : Stage::Llvm; }

  OwningOpRef<ModuleOp> module;
  CompileOptions options;
  bool isKernel = false;
  Stage reached = Stage::Input;
  std::string entryName;
  std::optional<LaunchDescription> launch;
  /// Assembly needs no launch description: kept until one is asked for.
  std::string launchProblem;
  /// Why no GPU can have the entry as a kernel.
  std::string gpuProblem;
  TargetDescription target;
  bool targetsDiffer = false, usesTiles = false;
};
} // namespace

llvm::Expected<Compilation> Compilation::start(ModuleOp module,
                                               const CompileOptions &options,
                                               bool isKernel) {
  llvm::Expected<TargetDescription> target = lookupTarget(options.target);
  if (!target)
    return target.takeError();
  Compilation c;
  c.module = cast<ModuleOp>(module->clone());
  c.options = options;
  c.isKernel = isKernel;
  c.target = *target;
  if (SmallVector<gpu::GPUFuncOp> kernels = findKernels(*c.module);
      !kernels.empty())
    if (llvm::Error error = c.beginAtMapped(kernels.front()))
      return error;
  return c;
}

/// What --emit=mapped wrote, perhaps changed by hand.
llvm::Error Compilation::beginAtMapped(gpu::GPUFuncOp kernel) {
  reached = Stage::Mapped;
  readTarget();
  if (!isGpu())
    return llvm::createStringError("the module holds a GPU kernel, and '" +
                                   target.name +
                                   "' is no GPU; give --target=h200");
  llvm::Expected<LaunchDescription> description = describeKernel(kernel);
  if (!description)
    return description.takeError();
  launch = std::move(*description);
  return readKernel();
}

/// Short of code, a module is lowered whole unless an entry is named.
llvm::Error Compilation::selectEntry() {
  if (!isKernel && options.entry.empty())
    return requireAttention(*module);
  llvm::Expected<func::FuncOp> entry = findEntry(*module, options);
  if (!entry)
    return entry.takeError();
  entryName = entry->getName().str();
  for (auto function : module->getOps<func::FuncOp>()) {
    FlatSymbolRefAttr fallback = getFallback(function);
    bool isKept =
        function == *entry || (fallback && fallback.getValue() == entryName);
    SymbolTable::setSymbolVisibility(function,
                                     isKept ? SymbolTable::Visibility::Public
                                            : SymbolTable::Visibility::Private);
  }
  PassManager passes(module->getContext());
  passes.addPass(createSymbolDCEPass());
  if (failed(passes.run(*module)))
    return llvm::createStringError("unused functions cannot be removed");
  gpuProblem = toString(requireAttentionAlone(*entry));
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
    if (auto attention = dyn_cast<AttentionOpInterface>(op)) {
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
    isCuda()     ? addPassesToMappedCuda(passes)
    : isVulkan() ? addPassesToMappedVulkan(passes)
                 : addPassesToMappedCpu(passes);
    break;
  default:
    isCuda()     ? addPassesToLlvmCuda(passes)
    : isVulkan() ? addPassesToSpirv(passes)
                 : addPassesToLlvmCpu(passes);
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

llvm::Error Compilation::checkMappable() {
  if (targetsDiffer)
    return llvm::createStringError("the ops carry different #attn.target; "
                                   "code is for one chip, so choose one "
                                   "function with --entry=NAME");
  if (isGpu() && !gpuProblem.empty())
    return llvm::createStringError(Twine(gpuProblem));
  return llvm::Error::success();
}

/// What the passes to stage mapped decided for the launch.
llvm::Error Compilation::readKernel() {
  SmallVector<gpu::GPUFuncOp> kernels = findKernels(*module);
  auto entry = module->lookupSymbol<func::FuncOp>(entryName);
  bool doesNothing =
      entry &&
      !entry.walk([](scf::ForallOp) { return WalkResult::interrupt(); })
           .wasInterrupted();
  if (kernels.empty() && doesNothing)
    kernels.push_back(replaceByEmptyKernel(entry, target));
  if (kernels.empty())
    return llvm::createStringError("target '" + target.name +
                                   "' has no mapping of this attention yet; "
                                   "stages up to tiled can be emitted, or "
                                   "choose a cpu target");
  entryName = kernels.front().getName().str();
  if (!launch)
    return llvm::Error::success();
  DiagnosticCapture diagnostics(module->getContext());
  if (llvm::Error error = addLaunches(kernels, *launch))
    return diagnostics.takeError(toString(std::move(error)));
  return llvm::Error::success();
}

llvm::Error Compilation::advance(Stage stage) {
  while (reached < stage) {
    Stage next = reached == Stage::Mapped
                     ? lastStage()
                     : static_cast<Stage>(static_cast<unsigned>(reached) + 1);
    if (reached == Stage::Mapped && stage != next)
      return llvm::createStringError("target '" + target.name +
                                     "' has no stage '" + stageName(stage) +
                                     "'; emit " + stageName(next));
    if (next == Stage::Mapped)
      if (llvm::Error error = checkMappable())
        return error;
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
    if (next == Stage::Mapped && isGpu())
      if (llvm::Error error = readKernel())
        return error;
  }
  return llvm::Error::success();
}

/// The code that a target has.
static ArrayRef<Stage> codeStages(StringRef family) {
  static constexpr Stage kCpu[] = {Stage::Asm, Stage::Obj};
  static constexpr Stage kCuda[] = {Stage::Ptx, Stage::Cubin};
  static constexpr Stage kVulkan[] = {Stage::Spv};
  if (family == "cuda")
    return kCuda;
  return family == "vulkan" ? ArrayRef(kVulkan) : ArrayRef(kCpu);
}

llvm::Expected<Artifact> Compilation::vulkanCode(Artifact artifact) {
  spirv::ModuleOp source = *module->getOps<spirv::ModuleOp>().begin();
  completeCapabilities(source);
  artifact.launch.entry = entryName;
  artifact.launch.features = deviceFeatures(source);
  DiagnosticCapture diagnostics(module->getContext());
  llvm::Expected<std::string> code = serializeSpirv(source);
  if (!code)
    return diagnostics.takeError(toString(code.takeError()));
  artifact.code = std::move(*code);
  return artifact;
}

llvm::Expected<Artifact> Compilation::code(std::optional<Stage> wanted) {
  // The target is known from there on.
  if (llvm::Error error = advance(Stage::Configured))
    return error;
  ArrayRef<Stage> kinds = codeStages(target.family);
  Stage stage = wanted.value_or(isCuda()     ? Stage::Ptx
                                : isVulkan() ? Stage::Spv
                                             : Stage::Obj);
  if (!llvm::is_contained(kinds, stage)) {
    std::string words = llvm::join(llvm::map_range(kinds, stageName), " or ");
    return llvm::createStringError("target '" + target.name +
                                   "' has no code of stage '" +
                                   stageName(stage) + "'; emit " + words);
  }
  if (llvm::Error error = advance(lastStage()))
    return error;
  Artifact artifact;
  artifact.launch.format = stageName(stage).str();
  if (isVulkan())
    return vulkanCode(std::move(artifact));
  Operation *source = *module;
  artifact.launch.entry = interfaceSymbol(entryName);
  if (isCuda()) {
    source = *module->getOps<gpu::GPUModuleOp>().begin();
    artifact.launch.entry = entryName;
  }
  DiagnosticCapture diagnostics(module->getContext());
  llvm::Expected<std::string> code =
      generateCode(source, artifact.launch.entry, target, stage != Stage::Obj);
  if (!code)
    return diagnostics.takeError(toString(code.takeError()));
  artifact.code = std::move(*code);
  if (stage == Stage::Cubin) {
    llvm::Expected<AssembledCode> assembled =
        assemblePtx(artifact.code, target.arch);
    if (!assembled)
      return assembled.takeError();
    artifact.code = std::move(assembled->cubin);
    artifact.report = std::move(assembled->report);
  }
  return artifact;
}

llvm::Expected<Artifact> Compilation::artifact(std::optional<Stage> stage) {
  llvm::Expected<Artifact> artifact = code(stage);
  if (!artifact)
    return artifact;
  if (!launch)
    return llvm::createStringError(Twine(launchProblem));
  launch->format = artifact->launch.format;
  launch->entry = artifact->launch.entry;
  launch->target = target.name;
  launch->arch = target.arch;
  if (isVulkan()) {
    launch->abi = StringRef(target.arch).starts_with("opencl")
                      ? "opencl-arguments"
                      : "vulkan-buffers";
    launch->features = artifact->launch.features;
    artifact->launch = *launch;
    return artifact;
  }
  launch->triple = tripleOf(target).str();
  launch->features = target.features;
  // A processor model has the tile registers without naming them; whoever
  // runs code that uses them has to ask for them first.
  if (usesTiles && !StringRef(launch->features).contains("+amx-tile"))
    launch->features += launch->features.empty() ? "+amx-tile,+amx-bf16"
                                                 : ",+amx-tile,+amx-bf16";
  launch->abi = isCuda() ? "memref-parameters" : "memref-descriptors";
  artifact->launch = *launch;
  return artifact;
}

llvm::Expected<Artifact> attn::compile(ModuleOp module,
                                       const CompileOptions &options,
                                       std::optional<Stage> code) {
  llvm::Expected<Compilation> compilation =
      Compilation::start(module, options, /*isKernel=*/true);
  if (!compilation)
    return compilation.takeError();
  return compilation->artifact(code);
}

llvm::Expected<OwningOpRef<ModuleOp>>
attn::lowerToStage(ModuleOp module, Stage stage,
                   const CompileOptions &options) {
  llvm::Expected<TargetDescription> target = lookupTarget(options.target);
  if (!target)
    return target.takeError();
  // On a GPU a mapped function is a kernel.
  bool isKernel = stage >= Stage::Mapped && target->family != "cpu";
  llvm::Expected<Compilation> compilation =
      Compilation::start(module, options, isKernel);
  if (!compilation)
    return compilation.takeError();
  if (llvm::Error error = compilation->advance(stage))
    return error;
  return compilation->takeModule();
}

llvm::Expected<std::string> attn::emitStage(ModuleOp module, Stage stage,
                                            const CompileOptions &options) {
  if (isCode(stage)) {
    llvm::Expected<Compilation> compilation =
        Compilation::start(module, options, /*isKernel=*/true);
    if (!compilation)
      return compilation.takeError();
    llvm::Expected<Artifact> artifact = compilation->code(stage);
    if (!artifact)
      return artifact.takeError();
    return std::move(artifact->code);
  }
  llvm::Expected<OwningOpRef<ModuleOp>> lowered =
      lowerToStage(module, stage, options);
  if (!lowered)
    return lowered.takeError();
  std::string text;
  llvm::raw_string_ostream(text) << **lowered << "\n";
  return text;
}
