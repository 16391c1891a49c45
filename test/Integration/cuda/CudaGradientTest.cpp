//===- CudaGradientTest.cpp - Gradients on a GPU against the oracle -------===//
//
// Random backward problems, compiled for warps with the planner's tiles or with
// tiles at random, half of them deterministic. With a driver they run twice on
// poisoned outputs, are compared with the oracle, and give the same bits where
// they are deterministic; without one they are compiled, and nothing may be
// refused.
//
// ATTN_TEST_TARGET, ATTN_TEST_SEED, ATTN_TEST_COUNT and ATTN_TEST_SAVE as in
// CudaKernelTest.cpp: check_artifacts.py runs what was saved.
//
//===----------------------------------------------------------------------===//

#include "CaseTensors.h"
#include "GradientCase.h"
#include "attn/Artifact/File.h"
#include "attn/Compiler/Compiler.h"
#include "attn/IR/Attn.h"
#include "attn/Runtime/Kernel.h"
#include "attn/Runtime/Npy.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "gtest/gtest.h"
#include <dlfcn.h>

using namespace attn;
using namespace mlir;

namespace {

constexpr int kMostFailures = 10;

bool hasDriver() {
  static bool isThere = dlopen("libcuda.so.1", RTLD_NOW);
  return isThere;
}

CaseRange range() {
  static constexpr int64_t lengths[] = {1,  2,  3,  5,  7,   17,  31,
                                        33, 63, 65, 97, 113, 129, 203};
  static constexpr int64_t depths[] = {1,  2,  8,  16, 24,  40,  48,  59,
                                       64, 72, 80, 96, 111, 128, 192, 256};
  static constexpr int64_t ratios[] = {1, 1, 2, 3, 4, 5, 7};
  CaseRange range;
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  range.mostWork = 3'000'000;
  range.statedTilings = 0;
  return range;
}

std::vector<const CaseOperand *> operandsOf(const GradientCase &c) {
  std::vector<const CaseOperand *> operands;
  for (ArrayRef<CaseOperand> group :
       {ArrayRef(c.problem.operands), ArrayRef(c.problem.captures),
        ArrayRef(c.forward), ArrayRef(c.outs)})
    for (const CaseOperand &operand : group)
      operands.push_back(&operand);
  return operands;
}

class CudaGradients : public ::testing::Test {
protected:
  CudaGradients() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  static void SetUpTestSuite() { llvm::EnablePrettyStackTrace(); }

  /// Says in one line what is wrong with a problem, or nothing.
  std::string check(GradientCase &c, uint64_t seed, bool isDeterministic);
  llvm::Error save(const GradientCase &c, Artifact &artifact,
                   const std::string &base, bool isDeterministic);
  std::string launch(const GradientCase &c, Artifact &artifact,
                     bool isDeterministic);
  void checkMany(int64_t count);

  MLIRContext context;
};

} // namespace

llvm::Error CudaGradients::save(const GradientCase &c, Artifact &artifact,
                                const std::string &base, bool isDeterministic) {
  if (llvm::Error error = artifact.save(base + ".ptx"))
    return error;
  auto write = [&](const std::string &part, ElementType type,
                   const Array &data) -> llvm::Error {
    auto tensor = toTensor(type, data);
    if (!tensor)
      return tensor.takeError();
    return writeNpy(base + "." + part + ".npy", *tensor);
  };
  llvm::json::Array arguments, gradients;
  for (const CaseOperand *operand : operandsOf(c)) {
    SmallVector<int64_t> strides = operand->strides;
    int64_t packed = 1;
    for (int64_t d = strides.size(); c.problem.isTensor && d-- > 0;) {
      strides[d] = packed;
      packed *= operand->data.shape[d];
    }
    bool isOut = llvm::any_of(
        c.outs, [&](const CaseOperand &out) { return &out == operand; });
    arguments.push_back(llvm::json::Object{
        {"name", operand->name},
        {"element", operand->element},
        {"output", isOut},
        {"shape", llvm::json::Array(operand->data.shape)},
        {"strides", llvm::json::Array(strides)},
        {"offset", c.problem.isTensor ? 0 : operand->offset()}});
    if (!isOut)
      if (llvm::Error error =
              write(operand->name, typeOf(*operand), operand->data))
        return error;
  }
  for (auto [out, expected, bound] :
       llvm::zip_equal(c.outs, c.expectedGradients(), c.errorBounds())) {
    double square = 0;
    for (double term : expected.magnitude.data)
      square += std::isfinite(term) ? term * term : 0;
    gradients.push_back(llvm::json::Object{{"name", out.name},
                                           {"magnitude", std::sqrt(square)},
                                           {"bound", bound}});
    if (llvm::Error error =
            write(out.name + ".expected", ElementType::f64, expected.value))
      return error;
  }
  llvm::json::Value description =
      llvm::json::Object{{"module", c.text()},
                         {"arguments", std::move(arguments)},
                         {"gradients", std::move(gradients)},
                         {"deterministic", isDeterministic}};
  return writeFile(base + ".case.json",
                   {llvm::formatv("{0:2}\n", description).str()});
}

std::string CudaGradients::launch(const GradientCase &c, Artifact &artifact,
                                  bool isDeterministic) {
  std::vector<const CaseOperand *> operands = operandsOf(c);
  std::vector<HostTensor> tensors;
  for (auto [argument, operand] :
       llvm::zip_equal(artifact.launch.arguments, operands)) {
    if (!c.problem.isTensor && !operand->isDense) {
      argument.strides.assign(operand->strides.begin(), operand->strides.end());
      argument.offset = operand->offset();
    }
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
    for (HostTensor &out : MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (tensors[a].countPoisoned())
        return operands[a]->name + " was not written whole";
      if (!again)
        first.push_back(bytesOf(tensors[a]));
      else if (isDeterministic && first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs";
    }
  }
  SmallVector<Array> gradients;
  for (const HostTensor &tensor : ArrayRef(tensors).drop_front(firstOut))
    gradients.push_back(toArray(tensor));
  return c.compare(gradients);
}

std::string CudaGradients::check(GradientCase &c, uint64_t seed,
                                 bool isDeterministic) {
  const char *given = std::getenv("ATTN_TEST_TARGET");
  c.module->walk(
      [&](AttentionBackwardOp op) { op.setDeterministic(isDeterministic); });
  llvm::Expected<Artifact> artifact =
      compile(*c.module, {given ? given : "sm_80", ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  if (artifact->launch.arguments.size() != operandsOf(c).size())
    return "takes another number of arguments";
  if (const char *folder = std::getenv("ATTN_TEST_SAVE")) {
    if (std::error_code code = llvm::sys::fs::create_directories(folder))
      return code.message();
    return llvm::toString(save(c, *artifact,
                               std::string(folder) + "/" + std::to_string(seed),
                               isDeterministic));
  }
  return hasDriver() ? launch(c, *artifact, isDeterministic) : "";
}

void CudaGradients::checkMany(int64_t count) {
  int failures = 0;
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed, range());
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase drawn = generator.next();
    drawn.statesTiling = false;
    auto made = GradientCase::create(std::move(drawn), context, random);
    std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) + "\n" +
                       (made ? made->text() : "");
    // What a crash prints.
    llvm::PrettyStackTraceString onCrash(name.c_str());
    std::string problem = made ? check(*made, seed, random() % 2)
                               : llvm::toString(made.takeError());
    failures += !problem.empty();
    EXPECT_EQ(problem, "") << name;
  }
}

TEST_F(CudaGradients, RandomProblems) { checkMany(problemCount(8)); }

TEST_F(CudaGradients, LongRandomProblems) {
  checkMany(problemCount(hasDriver() ? 400 : 25));
}
