//===- CudaKernelTest.cpp - GPU kernels against the oracle ----------------===//
//
// Random problems go all the way: through the compiler to PTX, by the driver
// onto random data with poisoned outputs, and against the oracle. Each kernel
// runs twice and must give the same bits. Without a driver the problems are
// compiled, and nothing may be refused.
//
// ATTN_TEST_TARGET names the target. Problems as small as these go to warps;
// RandomWarpgroups states tiles of warpgroups, at random, for Hopper. A failure
// prints its seed: ATTN_TEST_SEED=... runs that problem first.
// ATTN_TEST_COUNT=... sets the number of problems.
//
// Where compiler and GPU are not on one machine, ATTN_TEST_SAVE=FOLDER writes
// problems in place of running them: N.ptx and its launch description, the
// inputs, what the oracle expects and the bounds of the error in N.case.json.
// test/Integration/cuda/check_artifacts.py FOLDER runs and compares them.
//
//===----------------------------------------------------------------------===//

#include "CaseLaunch.h"
#include "attn/Artifact/File.h"
#include "attn/Compiler/Compiler.h"
#include "attn/IR/Attn.h"
#include "attn/Runtime/Npy.h"
#include "attn/Target/AttentionProblem.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <dlfcn.h>

using namespace attn;
using namespace mlir;

namespace {

constexpr int kMostFailures = 20;

std::string targetName() {
  const char *given = std::getenv("ATTN_TEST_TARGET");
  return given ? given : "sm_80";
}

CaseRange range(int64_t mostWork) {
  static constexpr int64_t lengths[] = {1,  2,  3,  5,   7,   17,  31, 33,
                                        63, 65, 97, 113, 129, 203, 257};
  static constexpr int64_t depths[] = {1,   2,   8,   16,  24, 40,  48,
                                       59,  64,  72,  80,  96, 111, 128,
                                       160, 192, 256, 320, 512};
  static constexpr int64_t ratios[] = {1, 1, 2, 3, 4, 5, 6, 7, 8};
  CaseRange range;
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  range.mostWork = mostWork;
  range.statedTilings = 0;
  return range;
}

/// A number of `from`.
int64_t pick(std::mt19937_64 &random, llvm::ArrayRef<int64_t> from) {
  return from[random() % from.size()];
}

/// Warpgroups, stages and a softmax for a problem that TMA and wgmma take, or
/// nothing.
std::optional<Tiling> drawWarpgroups(const AttentionProblem &problem,
                                     std::mt19937_64 &random) {
  int64_t chunks = llvm::divideCeil(problem.headDim, 64);
  int64_t valueChunks = llvm::divideCeil(problem.valueDim, 64);
  bool has16Bits =
      problem.elementType == "f16" || problem.elementType == "bf16";
  if (!has16Bits || !problem.hasTensorMaps || problem.kvLength == 0 ||
      problem.headDim == 0 || problem.valueDim == 0 ||
      problem.valueDim % 8 != 0 || chunks > 4 || valueChunks > chunks)
    return std::nullopt;
  Tiling tiling;
  tiling.product = "wgmma";
  tiling.softmax = std::array{"exact", "conditional", "stale"}[random() % 3];
  bool canRaise = problem.elementType == "bf16" && !problem.returnsLse;
  if (canRaise && random() % 2)
    tiling.softmax = "raised";
  tiling.groups = pick(random, chunks > 2 ? llvm::ArrayRef<int64_t>{1, 2}
                                          : llvm::ArrayRef<int64_t>{1, 2, 3});
  tiling.blockQuery = 64 * tiling.groups;
  tiling.blockKey = pick(random, {16, 32, 48, 64});
  tiling.queryStages = pick(random, {1, 2});
  constexpr int64_t kShared = 227 << 10;
  int64_t query = tiling.queryStages * tiling.blockQuery * chunks * 128;
  int64_t stage = tiling.blockKey * (chunks + valueChunks) * 128;
  int64_t most = std::min<int64_t>(4, (kShared - 4096 - query) / stage);
  tiling.stages = 1 + random() % most;
  return tiling;
}

bool hasDriver() {
  static bool isThere = dlopen("libcuda.so.1", RTLD_NOW);
  return isThere;
}

class CudaKernels : public ::testing::Test {
protected:
  CudaKernels() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  static void SetUpTestSuite() { llvm::EnablePrettyStackTrace(); }

  /// Says in one line what is wrong with a problem, or nothing.
  std::string check(const CheckedCase &checked, uint64_t seed,
                    const std::string &target);
  llvm::Error save(const CheckedCase &checked, Artifact &artifact,
                   const std::string &base);
  void checkMany(int64_t count, const CaseRange &range);
  void checkWarpgroups(int64_t count);
  /// Evaluates a problem, states `tiling` for it, and checks its kernel. False
  /// when something is wrong, which is reported.
  bool checkOne(AttentionCase problem, uint64_t seed, const std::string &target,
                std::optional<Tiling> tiling = std::nullopt);

  MLIRContext context;
};

} // namespace

llvm::Error CudaKernels::save(const CheckedCase &checked, Artifact &artifact,
                              const std::string &base) {
  const AttentionCase &c = checked.problem;
  if (llvm::Error error = artifact.save(base + ".ptx"))
    return error;
  auto write = [&](const std::string &part, ElementType type,
                   const Array &data) -> llvm::Error {
    auto tensor = toTensor(type, data);
    if (!tensor)
      return tensor.takeError();
    return writeNpy(base + "." + part + ".npy", *tensor);
  };
  llvm::json::Array arguments;
  for (const CaseOperand *operand : argumentsOf(c)) {
    // A tensor's buffer is packed.
    llvm::SmallVector<int64_t> strides = operand->strides;
    int64_t packed = 1;
    for (int64_t d = strides.size(); c.isTensor && d-- > 0;) {
      strides[d] = packed;
      packed *= operand->data.shape[d];
    }
    bool isOut = llvm::any_of(
        c.outs, [&](const CaseOperand &out) { return &out == operand; });
    arguments.push_back(
        llvm::json::Object{{"name", operand->name},
                           {"element", operand->element},
                           {"output", isOut},
                           {"shape", llvm::json::Array(operand->data.shape)},
                           {"strides", llvm::json::Array(strides)},
                           {"offset", c.isTensor ? 0 : operand->offset()}});
    if (!isOut)
      if (llvm::Error error =
              write(operand->name, typeOf(*operand), operand->data))
        return error;
  }
  const OracleResult &expected = checked.expectedResult();
  Array mask;
  mask.shape = {c.shape.batch, c.shape.queryHeads, c.shape.queryLength};
  mask.data.assign(checked.comparedMask().begin(),
                   checked.comparedMask().end());
  if (llvm::Error error = write("expected", ElementType::f64, expected.output))
    return error;
  if (c.wantsLse)
    if (llvm::Error error = write("lse", ElementType::f64, expected.lse))
      return error;
  if (llvm::Error error = write("compared", ElementType::i1, mask))
    return error;
  llvm::json::Value description =
      llvm::json::Object{{"module", c.text()},
                         {"arguments", std::move(arguments)},
                         {"bshd", c.outputLayout == Layout::bshd},
                         {"lse", c.wantsLse},
                         {"output_bound", checked.outputBound()},
                         {"lse_bound", checked.logSumExpBound()}};
  return writeFile(base + ".case.json",
                   {llvm::formatv("{0:2}\n", description).str()});
}

std::string CudaKernels::check(const CheckedCase &checked, uint64_t seed,
                               const std::string &target) {
  llvm::Expected<Artifact> artifact = compile(*checked.module, {target, ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  if (artifact->launch.arguments.size() != argumentsOf(checked.problem).size())
    return "takes another number of arguments";
  if (const char *folder = std::getenv("ATTN_TEST_SAVE")) {
    if (std::error_code code = llvm::sys::fs::create_directories(folder))
      return code.message();
    return llvm::toString(save(
        checked, *artifact, std::string(folder) + "/" + std::to_string(seed)));
  }
  return hasDriver() ? launchAndCompare(checked, *artifact) : "";
}

bool CudaKernels::checkOne(AttentionCase c, uint64_t seed,
                           const std::string &target,
                           std::optional<Tiling> tiling) {
  std::mt19937_64 random(seed * 7919 + 1);
  std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) +
                     " ATTN_TEST_TARGET=" + target + "\n" + c.text();
  // What a crash prints.
  llvm::PrettyStackTraceString onCrash(name.c_str());
  std::string problem;
  auto checked = CheckedCase::create(std::move(c), context, random, 20'000'000);
  if (checked) {
    if (tiling)
      checked->module->walk([&](AttentionOp op) {
        op.setTilingAttr(TilingAttr::get(&context, *tiling));
      });
    problem = check(*checked, seed, target);
  } else {
    problem = "no oracle: " + llvm::toString(checked.takeError());
  }
  if (problem.empty())
    return true;
  ADD_FAILURE() << problem << "\n" << name;
  return false;
}

void CudaKernels::checkMany(int64_t count, const CaseRange &range) {
  int failures = 0;
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed)
    failures +=
        !checkOne(CaseGenerator(seed, range).next(), seed, targetName());
}

/// Most problems are not for warpgroups: seeds go on until `count` were.
void CudaKernels::checkWarpgroups(int64_t count) {
  CaseRange drawn = range(4'000'000);
  static constexpr int64_t depths[] = {8,  16, 24,  40,  48,  64,  72,
                                       80, 96, 128, 160, 192, 200, 256};
  drawn.depths = depths;
  drawn.hasElementMasks = false;
  drawn.hasNoKeys = false;
  int failures = 0;
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++seed) {
    AttentionCase c = CaseGenerator(seed, drawn).next();
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(c.text(), &context);
    ASSERT_TRUE(module);
    std::mt19937_64 random(seed);
    std::optional<Tiling> tiling;
    module->walk([&](AttentionOp op) {
      tiling = drawWarpgroups(getProblem(op), random);
    });
    if (!tiling)
      continue;
    ++n;
    failures += !checkOne(std::move(c), seed, "h200", tiling);
  }
}

TEST_F(CudaKernels, RandomProblems) {
  checkMany(problemCount(12), range(400'000));
}

TEST_F(CudaKernels, RandomWarpgroups) { checkWarpgroups(problemCount(6)); }

TEST_F(CudaKernels, LongRandomProblems) {
  checkMany(problemCount(hasDriver() ? 600 : 25), range(50'000'000));
}
