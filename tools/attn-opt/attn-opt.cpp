//===- attn-opt.cpp - The optimizer driver --------------------------------===//
//
// Behaves as mlir-opt does, with the passes and pipelines of this project, and
// with --emit=STAGE runs the road to a stage instead.
//
//===----------------------------------------------------------------------===//

#include "attn/Artifact/File.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Pipelines/Registration.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace attn;

static cl::OptionCategory category("attention compiler");
static cl::opt<std::string> target("target", cl::desc("Chip to compile for"),
                                   cl::value_desc("name"), cl::init("cpu"),
                                   cl::cat(category));
static cl::opt<std::string>
    emit("emit",
         cl::desc("Run the road to this stage: input, attn, "
                  "configured, tiled, mapped, llvm, then asm or obj, on an "
                  "NVIDIA GPU ptx or cubin; on a Vulkan device spirv, spv"),
         cl::value_desc("stage"), cl::cat(category));
static cl::opt<std::string> entry("entry", cl::desc("Function to compile"),
                                  cl::value_desc("name"), cl::cat(category));
static cl::opt<bool> listTargetsFlag("list-targets",
                                     cl::desc("Print the known targets"),
                                     cl::cat(category));
enum class Explain { No, Text, Json };
static cl::opt<Explain>
    explainFormat("explain", cl::desc("Print the tile sizes chosen, and why"),
                  cl::ValueOptional, cl::init(Explain::No),
                  cl::values(clEnumValN(Explain::Text, "text", "for a person"),
                             clEnumValN(Explain::Json, "json", "for a program"),
                             clEnumValN(Explain::Text, "", "")),
                  cl::cat(category));

static void printTargets() {
  for (const TargetDescription &t : listTargets())
    llvm::outs() << llvm::formatv("{0,-18} {1,-7} {2}\n", t.name, t.family,
                                  t.source);
}

/// What --emit and --explain print, or an artifact in files.
static llvm::Error runRoad(llvm::StringRef input, llvm::StringRef output,
                           mlir::DialectRegistry &registry) {
  Stage stage = Stage::Input;
  if (!emit.empty())
    if (llvm::Error error = parseStage(emit).moveInto(stage))
      return error;
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module =
      parseModule(input, context);
  if (!module)
    return module.takeError();
  CompileOptions options{target, entry};
  if (explainFormat != Explain::No) {
    llvm::Expected<std::string> text =
        explain(**module, options, explainFormat == Explain::Json);
    if (!text)
      return text.takeError();
    llvm::outs() << *text;
  }
  if (emit.empty())
    return llvm::Error::success();
  bool isRunnable = isCode(stage) && stage != Stage::Asm;
  if (isRunnable && output != "-") {
    llvm::Expected<Artifact> artifact = compile(**module, options, stage);
    return artifact ? artifact->save(output) : artifact.takeError();
  }
  llvm::Expected<std::string> text = emitStage(**module, stage, options);
  return text ? writeFile(output, {*text}) : text.takeError();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  mlir::registerAllPasses();
  registerAttnPasses();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "attention compiler\n", registry);
  if (listTargetsFlag) {
    printTargets();
    return 0;
  }
  if (!emit.empty() || explainFormat != Explain::No) {
    if (llvm::Error error = runRoad(input, output, registry)) {
      llvm::WithColor::error(llvm::errs(), "attn-opt")
          << llvm::toString(std::move(error)) << "\n";
      return 1;
    }
    return 0;
  }
  if (target.getNumOccurrences() || entry.getNumOccurrences()) {
    llvm::WithColor::error(llvm::errs(), "attn-opt")
        << "--target and --entry go with --emit=STAGE or --explain; give one\n";
    return 1;
  }
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
