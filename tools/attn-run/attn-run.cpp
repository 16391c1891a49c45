//===- attn-run.cpp - Compile, run, check, time ---------------------------===//

#include "../CommandLine.h"
#include "Check.h"
#include "Gradients.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/Arguments.h"
#include "attn/Runtime/Npy.h"
#include "attn/Runtime/Report.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include <chrono>

namespace cl = llvm::cl;
using namespace attn;

static cl::OptionCategory category("attn-run");
static cl::opt<std::string> file(cl::Positional, cl::Required,
                                 cl::desc("FILE.mlir"), cl::cat(category));
static cl::opt<std::string> target("target", cl::init("cpu"),
                                   cl::desc("Chip to run on"),
                                   cl::value_desc("name"), cl::cat(category));
static cl::opt<std::string> entry("entry", cl::desc("Function to run"),
                                  cl::value_desc("name"), cl::cat(category));
static cl::list<std::string>
    inputs("input",
           cl::desc("Elements of an input; without a name, of the next one"),
           cl::value_desc("[name=]file.npy"), cl::cat(category));
static cl::list<std::string>
    sizes("size", cl::CommaSeparated,
          cl::desc("Sizes that the types leave open, by their name in the "
                   "launch description: B, Hq, Hkv, Sq, Skv, D, Dv"),
          cl::value_desc("name=number,..."), cl::cat(category));
static cl::opt<uint64_t> seed("seed",
                              cl::desc("Make up the inputs without a file"),
                              cl::value_desc("number"), cl::cat(category));
static cl::list<std::string>
    outputs("output",
            cl::desc("Where an output goes; without a name, the next one"),
            cl::value_desc("[name=]file.npy"), cl::cat(category));
static cl::opt<bool> check("check", cl::init(true),
                           cl::desc("Compare with the f64 oracle (default)"),
                           cl::cat(category));
static cl::opt<bool> noCheck("no-check", cl::desc("Do not compare"),
                             cl::cat(category));
static cl::opt<std::string>
    bench("bench", cl::ValueOptional,
          cl::desc("Time this many runs; without a number, for a second"),
          cl::value_desc("runs"), cl::cat(category));
static cl::opt<bool> grad("grad",
                          cl::desc("Run the gradient of the function as well"),
                          cl::cat(category));
static cl::opt<bool> explainFlag("explain",
                                 cl::desc("Print the tile sizes, and why"),
                                 cl::cat(category));

static void print(llvm::StringRef label, llvm::StringRef text) {
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    llvm::outs() << llvm::formatv("{0,-9} {1}\n", label, line);
    text = rest;
  }
}

static llvm::Error checkKernel(mlir::ModuleOp module,
                               const CompileOptions &options,
                               const LaunchDescription &launch,
                               llvm::ArrayRef<HostTensor> arguments) {
  auto shortest = lowerToStage(module, Stage::Attn, options);
  if (!shortest)
    return shortest.takeError();
  auto function = findEntry(**shortest, options);
  if (!function)
    return function.takeError();
  auto report = checkResults(*function, launch, arguments, seed);
  if (!report)
    return report.takeError();
  print("check", *report);
  return llvm::Error::success();
}

static llvm::Error run() {
  using Clock = std::chrono::steady_clock;
  mlir::DialectRegistry registry;
  registerCompilerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = parseModule(file, context);
  if (!module)
    return module.takeError();
  CompileOptions options{target, entry};
  if (grad) {
    llvm::Expected<std::string> name = differentiate(**module, options);
    if (!name)
      return name.takeError();
    options.entry = *name;
  }
  Clock::time_point start = Clock::now();
  llvm::Expected<Artifact> artifact = compile(**module, options);
  if (!artifact)
    return artifact.takeError();
  double ms =
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const LaunchDescription &launch = artifact->launch;
  if (explainFlag) {
    auto text = explain(**module, options, /*asJson=*/false);
    if (!text)
      return text.takeError();
    llvm::outs() << *text;
  }

  // What can go wrong without running goes wrong before.
  llvm::Expected<int64_t> runs = parseRuns(bench);
  if (!runs)
    return runs.takeError();
  auto files = assignOutputFiles(launch, outputs);
  if (!files)
    return files.takeError();
  ArgumentSources sources{inputs, sizes, std::nullopt};
  if (seed.getNumOccurrences())
    sources.seed = seed;
  auto arguments = makeArguments(launch, sources);
  if (!arguments)
    return arguments.takeError();
  auto kernel = loadKernel(*artifact);
  if (!kernel)
    return kernel.takeError();
  print("kernel", llvm::formatv("@{0} for {1} ({2}), compiled in {3:f0} ms",
                                launch.name, launch.target, launch.arch, ms)
                      .str());
  if (llvm::Error error = (*kernel)->launch(*arguments))
    return error;
  for (auto [path, tensor] : llvm::zip(*files, *arguments))
    if (!path.empty())
      if (llvm::Error error = writeNpy(path, tensor))
        return error;
  if (check && !noCheck)
    if (llvm::Error error = checkKernel(**module, options, launch, *arguments))
      return error;
  if (bench.getNumOccurrences()) {
    auto timing = (*kernel)->time(*arguments, *runs);
    if (!timing)
      return timing.takeError();
    auto text = speedText(launch, *arguments, *timing);
    if (!text)
      return text.takeError();
    print("speed", *text);
  }
  if (!grad)
    return llvm::Error::success();
  GradientRun gradient{seed, check && !noCheck, std::nullopt};
  if (bench.getNumOccurrences())
    gradient.runs = *runs;
  options.entry += "_grad";
  return runGradients(**module, options, *arguments, gradient, print);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  if (!parseCommandLine(argc, argv,
                        "Compiles a module with attention, runs it, and "
                        "checks it against an f64 evaluation.\n"))
    return 1;
  if (llvm::Error error = run()) {
    llvm::WithColor::error(llvm::errs(), "attn-run")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
