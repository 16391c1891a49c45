//===- attn-fuzz.cpp - Malformed modules must give an error ---------------===//
//
//   attn-fuzz [--seed=N] [--count=N | --seconds=N] [--only=N]
//             [--pipeline=PASSES] FILE.mlir...
//
// Changes a few tokens of the modules in the files (split at `// -----`) and
// gives the result to the parser and the verifier. A refused module must have
// given an error; an accepted one is canonicalised, asked for what the op tells
// its users, and must print as a text that parses to the same print; then the
// passes of --pipeline take it, or refuse it with an error. A crash or a hang
// leaves the module in crash-SEED-NUMBER.mlir.
//
// Everything runs in this process: a thousand modules a second instead of
// thirty.
//
//===----------------------------------------------------------------------===//

#include "Mutator.h"
#include "attn/IR/Attn.h"
#include "attn/Pipelines/Registration.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

using namespace mlir;

namespace cl = llvm::cl;
static cl::list<std::string> files(cl::Positional, cl::OneOrMore,
                                   cl::desc("FILE.mlir..."));
static cl::opt<uint64_t> seed("seed", cl::init(1), cl::desc("names the run"));
static cl::opt<uint64_t> count("count", cl::init(0),
                               cl::desc("modules to try"));
static cl::opt<uint64_t> seconds("seconds", cl::init(0),
                                 cl::desc("time to take"));
static cl::opt<std::string>
    pipeline("pipeline",
             cl::desc("passes for the accepted modules; they may refuse"));
static cl::opt<int64_t> only("only", cl::init(-1),
                             cl::desc("print module N and try it alone"));

//===----------------------------------------------------------------------===//
// Crashes and hangs
//===----------------------------------------------------------------------===//

namespace {
constexpr unsigned kSecondsPerModule = 20;
std::string current;
char crashFile[64];
} // namespace

/// Saves the module that was being worked on. Only async-signal-safe calls.
static void saveAndExit(int signal) {
  auto say = [](const char *text) {
    (void)!::write(STDERR_FILENO, text, std::char_traits<char>::length(text));
  };
  int file = ::open(crashFile, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  (void)!::write(file, current.data(), current.size());
  say(signal == SIGALRM ? "attn-fuzz: hang, module saved in "
                        : "attn-fuzz: crash, module saved in ");
  say(crashFile);
  say("\n");
  ::_exit(1);
}

//===----------------------------------------------------------------------===//
// One module
//===----------------------------------------------------------------------===//

namespace {
enum class Outcome { refused, accepted, wrong };
}

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  return text;
}

/// Calls what embedders call; the answers are in the unit tests.
static void askEverything(ModuleOp module) {
  module.walk([](attn::AttentionOpInterface op) {
    (void)op.getShape();
    (void)op.getScaleValue();
    (void)op.getBandLeft();
    (void)op.getBandRight();
    (void)isMemoryEffectFree(op);
    OpBuilder builder(op);
    ReifiedRankedShapedTypeDims sizes;
    (void)reifyResultShapes(builder, op, sizes);
  });
}

/// What crashes LLVM 22 itself before anything of ours is asked.
static bool crashesUpstream(llvm::StringRef text) {
  return text.contains("array<index");
}

static Outcome tryModule(MLIRContext &context) {
  unsigned errors = 0;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
  });
  auto wrong = [&](const char *what) {
    llvm::errs() << "attn-fuzz: " << what << ":\n" << current << "\n";
    return Outcome::wrong;
  };
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(current, &context);
  if (!module)
    return errors ? Outcome::refused : wrong("refused without an error");
  std::string printed = print(*module);
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(printed, &context);
  if (!again || print(*again) != printed)
    return wrong("the printed module is not the module");

  PassManager passes(&context);
  passes.addPass(createCanonicalizerPass());
  if (failed(passes.run(*module)) || failed(verify(*module)))
    return wrong("canonicalisation breaks the module");
  askEverything(*module);
  if (pipeline.empty())
    return Outcome::accepted;

  PassManager road(&context);
  if (failed(parsePassPipeline(pipeline, road)))
    return wrong("--pipeline does not parse");
  unsigned before = errors;
  if (failed(road.run(*module)) && errors == before)
    return wrong("the pipeline failed without an error");
  return Outcome::accepted;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  attn::registerAttnDialects(registry);
  return registry;
}

static std::string withoutComments(llvm::StringRef text) {
  std::string result;
  for (llvm::StringRef line : llvm::split(text, '\n'))
    if (!line.trim().starts_with("//"))
      (result += line) += '\n';
  return result;
}

/// The modules of the files, and the generic form of those that parse.
static std::vector<std::string> readSeeds(const DialectRegistry &registry) {
  std::vector<std::string> seeds;
  MLIRContext context(registry);
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
  for (const std::string &file : files) {
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer) {
      llvm::errs() << "attn-fuzz: cannot read " << file << "\n";
      std::exit(1);
    }
    llvm::SmallVector<llvm::StringRef> parts;
    (*buffer)->getBuffer().split(parts, "// -----");
    for (llvm::StringRef text : parts) {
      std::string part = withoutComments(text);
      // LLVM 22's own parser of linalg.transpose crashes on a bad permutation.
      if (part.find("linalg.") == std::string::npos)
        seeds.push_back(part);
      auto module = parseSourceString<ModuleOp>(part, &context);
      if (!module)
        continue;
      std::string generic;
      llvm::raw_string_ostream os(generic);
      module->print(os, OpPrintingFlags().printGenericOpForm());
      seeds.push_back(generic);
    }
  }
  return seeds;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "mutates modules\n");
  attn::registerAttnPasses();
  DialectRegistry registry = makeRegistry();
  attn::fuzz::Mutator mutator(readSeeds(registry));
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, saveAndExit);

  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::unique_ptr<MLIRContext> context;
  uint64_t outcomes[3] = {}, number = only < 0 ? 0 : only;
  for (uint64_t tried = 0;; ++tried, ++number) {
    if (only >= 0
            ? tried == 1
            : (count && tried == count) || (seconds && elapsed() > seconds))
      break;
    // Types and attributes live as long as their context.
    if (tried % 500 == 0)
      context = std::make_unique<MLIRContext>(registry,
                                              MLIRContext::Threading::DISABLED);
    current = mutator.mutate(seed, number);
    if (crashesUpstream(current))
      continue;
    std::snprintf(crashFile, sizeof(crashFile), "crash-%llu-%llu.mlir",
                  static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(number));
    if (only >= 0)
      llvm::errs() << current << "\n";
    ::alarm(kSecondsPerModule);
    Outcome outcome = tryModule(*context);
    ::alarm(0);
    ++outcomes[static_cast<int>(outcome)];
    if (outcome == Outcome::wrong)
      llvm::errs() << "attn-fuzz: that was --seed=" << seed
                   << " --only=" << number << "\n";
    if (tried % 10000 == 9999)
      llvm::errs() << "attn-fuzz: " << tried + 1 << " modules, "
                   << static_cast<int>(elapsed()) << " s\n";
  }
  auto [refused, accepted, wrong] = outcomes;
  llvm::outs() << "attn-fuzz: seed " << seed << ": " << refused
               << " refused with an error, " << accepted << " accepted, "
               << wrong << " wrong, " << static_cast<int>(elapsed()) << " s\n";
  // A run that only ever refuses, or never does, tests nothing.
  return wrong != 0 || (only < 0 && (refused == 0 || accepted == 0));
}
