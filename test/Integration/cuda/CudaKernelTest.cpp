//===- CudaKernelTest.cpp - GPU kernels against the oracle ----------------===//
//
// Random problems go all the way: through the compiler to PTX, by the driver
// onto random data with poisoned outputs, and against the oracle. Each kernel
// runs twice and must give the same bits. Without a driver the problems are
// compiled, and nothing may be refused.
//
// ATTN_TEST_TARGET names the target. A failure prints its seed:
// ATTN_TEST_SEED=... runs that problem first. ATTN_TEST_COUNT=... sets the
// number of problems.
//
// Where compiler and GPU are not on one machine, ATTN_TEST_SAVE=FOLDER writes
// problems in place of running them: N.ptx and its launch description, the
// inputs, what the oracle expects and the bounds of the error in N.case.json.
// test/Integration/cuda/check_artifacts.py FOLDER runs and compares them.
//
//===----------------------------------------------------------------------===//

#include "CaseTensors.h"
#include "attn/Artifact/File.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/Kernel.h"
#include "attn/Runtime/Npy.h"
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
  std::string check(const CheckedCase &checked, uint64_t seed);
  std::string run(const CheckedCase &checked, Artifact &artifact);
  llvm::Error save(const CheckedCase &checked, Artifact &artifact,
                   const std::string &base);
  void checkMany(int64_t count, const CaseRange &range);

  MLIRContext context;
};

} // namespace

std::string CudaKernels::run(const CheckedCase &checked, Artifact &artifact) {
  const AttentionCase &c = checked.problem;
  stateDistances(c, artifact);
  std::vector<const CaseOperand *> operands = argumentsOf(c);
  std::vector<HostTensor> tensors;
  for (const CaseOperand *operand : operands) {
    auto tensor = toTensor(typeOf(*operand), operand->data);
    if (!tensor)
      return llvm::toString(tensor.takeError());
    tensors.push_back(std::move(*tensor));
  }
  auto kernel = loadKernel(artifact);
  if (!kernel)
    return llvm::toString(kernel.takeError());
  size_t firstOut = operands.size() - c.outs.size();
  std::vector<std::vector<char>> first;
  for (int again : {0, 1}) {
    for (HostTensor &out : llvm::MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (int64_t unwritten = tensors[a].countPoisoned())
        return operands[a]->name + ": " + std::to_string(unwritten) +
               " elements were not written";
      if (!again)
        first.push_back(bytesOf(tensors[a]));
      else if (first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs";
    }
  }
  return checked.compare(toArray(tensors[firstOut]), toArray(tensors.back()));
}

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

std::string CudaKernels::check(const CheckedCase &checked, uint64_t seed) {
  llvm::Expected<Artifact> artifact =
      compile(*checked.module, {targetName(), ""});
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
  return hasDriver() ? run(checked, *artifact) : "";
}

void CudaKernels::checkMany(int64_t count, const CaseRange &range) {
  int failures = 0;
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed, range);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase c = generator.next();
    std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) +
                       " ATTN_TEST_TARGET=" + targetName() + "\n" + c.text();
    // What a crash prints.
    llvm::PrettyStackTraceString onCrash(name.c_str());
    std::string problem;
    auto checked =
        CheckedCase::create(std::move(c), context, random, 20'000'000);
    if (checked)
      problem = check(*checked, seed);
    else
      problem = "no oracle: " + llvm::toString(checked.takeError());
    if (problem.empty())
      continue;
    ++failures;
    ADD_FAILURE() << problem << "\n" << name;
  }
}

TEST_F(CudaKernels, RandomProblems) {
  checkMany(problemCount(12), range(400'000));
}

TEST_F(CudaKernels, LongRandomProblems) {
  checkMany(problemCount(hasDriver() ? 600 : 25), range(50'000'000));
}
