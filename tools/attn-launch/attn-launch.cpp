//===- attn-launch.cpp - Launch an artifact -------------------------------===//
//
// The running half of attn-run: it knows of a kernel what the launch
// description says, and holds no compiler.
//
//===----------------------------------------------------------------------===//

#include "../CommandLine.h"
#include "attn/Runtime/Arguments.h"
#include "attn/Runtime/Npy.h"
#include "attn/Runtime/Report.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace attn;

static cl::OptionCategory category("attn-launch");
static cl::opt<std::string> file(cl::Positional, cl::Required,
                                 cl::desc("ARTIFACT"), cl::cat(category));
static cl::list<std::string>
    inputs("input",
           cl::desc("Elements of an input; without a name, of the next one"),
           cl::value_desc("[name=]file.npy"), cl::cat(category));
static cl::list<std::string> sizes("size", cl::CommaSeparated,
                                   cl::desc("Sizes that the description names"),
                                   cl::value_desc("name=number,..."),
                                   cl::cat(category));
static cl::opt<uint64_t> seed("seed",
                              cl::desc("Make up the inputs without a file"),
                              cl::value_desc("number"), cl::cat(category));
static cl::list<std::string>
    outputs("output",
            cl::desc("Where an output goes; without a name, the next one"),
            cl::value_desc("[name=]file.npy"), cl::cat(category));
static cl::opt<std::string>
    bench("bench", cl::ValueOptional,
          cl::desc("Time this many runs; without a number, for a second"),
          cl::value_desc("runs"), cl::cat(category));

static llvm::Error run() {
  llvm::Expected<Artifact> artifact = Artifact::load(file);
  if (!artifact)
    return artifact.takeError();
  const LaunchDescription &launch = artifact->launch;
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
  if (llvm::Error error = (*kernel)->launch(*arguments))
    return error;
  for (auto [path, tensor] : llvm::zip(*files, *arguments))
    if (!path.empty())
      if (llvm::Error error = writeNpy(path, tensor))
        return error;
  if (bench.getNumOccurrences()) {
    auto timing = (*kernel)->time(*arguments, *runs);
    if (!timing)
      return timing.takeError();
    auto text = speedText(launch, *arguments, *timing);
    if (!text)
      return text.takeError();
    llvm::outs() << *text << "\n";
  }
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  if (!parseCommandLine(argc, argv,
                        "Launches a compiled kernel, dumps and times it.\n"))
    return 1;
  if (llvm::Error error = run()) {
    llvm::WithColor::error(llvm::errs(), "attn-launch")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
