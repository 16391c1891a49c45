//===- CodeGeneration.cpp - From the LLVM dialect to code -----------------===//

#include "CodeGeneration.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace llvm;
using namespace attn;

Triple attn::tripleOf(const TargetDescription &target) {
  if (target.family == "cuda")
    return Triple("nvptx64-nvidia-cuda");
  bool isX86 =
      X86::parseArchX86(target.arch, /*Only64Bit=*/true) != X86::CK_None;
  Triple host(sys::getProcessTriple());
  if (host.getArch() == (isX86 ? Triple::x86_64 : Triple::aarch64))
    return host;
  return Triple(isX86 ? "x86_64-unknown-linux-gnu"
                      : "aarch64-unknown-linux-gnu");
}

std::string attn::interfaceSymbol(StringRef function) {
  return ("_mlir_ciface_" + function).str();
}

static Expected<std::unique_ptr<TargetMachine>>
createMachine(const TargetDescription &target) {
  [[maybe_unused]] static bool initialized = [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    return true;
  }();
  Triple triple = tripleOf(target);
  std::string error;
  const Target *llvmTarget = TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget)
    return createStringError(Twine(error));
  // No fusion beside the fused operations that are written as such, on a GPU
  // neither: a row's change of reference is a difference of two rounded
  // products, and must be 0 where they are the same.
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> machine(llvmTarget->createTargetMachine(
      triple, target.arch, target.features, options, Reloc::PIC_, std::nullopt,
      CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM has no code generator for " + triple.str());
  return machine;
}

/// Only the entry and kernels behind it are seen from outside, and nothing
/// unwinds: helpers are inlined and no unwind tables are written.
static void internalize(Module &module, StringRef symbol) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.setDoesNotThrow();
    if (function.getName() == symbol ||
        function.getCallingConv() == CallingConv::PTX_Kernel)
      continue;
    function.setLinkage(GlobalValue::InternalLinkage);
    // The interface only unpacks the arguments of the function behind it.
    if (symbol.ends_with(("_" + function.getName()).str()))
      function.addFnAttr(Attribute::AlwaysInline);
  }
}

/// Instructions in text that a whole warp executes together (wgmma, barriers)
/// look like any call: none of them may be duplicated or moved into a branch.
static void markConvergent(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallBase>(&instruction);
          call && call->isInlineAsm() && !call->doesNotAccessMemory())
        call->setConvergent();
}

/// The driver links nothing to a kernel.
static Error checkResolved(const Module &module) {
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return createStringError("the kernel calls '" + function.getName() +
                               "', which nothing defines on a GPU; keep to "
                               "arith and math of f16, bf16 and f32");
  return Error::success();
}

/// The kernel's loops are vectorised and unrolled as the tiling says; LLVM is
/// to clean up and not to choose again. The default pipeline takes three times
/// as long, and the loops of the products come out no better.
static Error optimize(Module &module, TargetMachine &machine) {
  constexpr StringLiteral kPasses =
      "always-inline,globaldce,"
      "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-"
      "fixpoint>,"
      "loop-simplify,lcssa,loop(loop-rotate),loop-mssa(licm),"
      "gvn,instcombine<no-verify-fixpoint>,infer-alignment,simplifycfg)";
  PassBuilder builder(&machine);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager callGraph;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  ModulePassManager passes;
  if (Error error = builder.parsePassPipeline(passes, kPasses))
    return error;
  passes.run(module, modules);
  return Error::success();
}

Expected<std::string> attn::generateCode(mlir::Operation *source,
                                         StringRef symbol,
                                         const TargetDescription &target,
                                         bool asAssembly) {
  Expected<std::unique_ptr<TargetMachine>> machine = createMachine(target);
  if (!machine)
    return machine.takeError();
  LLVMContext context;
  std::unique_ptr<Module> module =
      mlir::translateModuleToLLVMIR(source, context, "attention");
  if (!module)
    return createStringError("the module does not translate to LLVM IR");
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  internalize(*module, symbol);
  if ((*machine)->getTargetTriple().isNVPTX()) {
    markConvergent(*module);
    if (Error error = checkResolved(*module))
      return error;
  }
  // The code generator aborts on IR that is not valid.
  std::string problem;
  raw_string_ostream problemStream(problem);
  if (verifyModule(*module, &problemStream))
    return createStringError("LLVM rejects the kernel: " +
                             StringRef(problem).split('\n').first);
  if (Error error = optimize(*module, **machine))
    return error;

  SmallVector<char, 0> code;
  raw_svector_ostream os(code);
  legacy::PassManager passes;
  CodeGenFileType type =
      asAssembly ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
  if ((*machine)->addPassesToEmitFile(passes, os, nullptr, type))
    return createStringError("LLVM cannot emit code for '" +
                             Twine(target.name) + "'");
  passes.run(*module);
  return std::string(code.data(), code.size());
}
