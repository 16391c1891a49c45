//===- VulkanKernelTest.cpp - Vulkan kernels against the oracle -----------===//
//
// Random problems go all the way: through the compiler to SPIR-V, by the driver
// onto random data with poisoned outputs, and against the oracle. Each kernel
// runs twice and must give the same bits. Without a driver the problems are
// compiled, and nothing may be refused.
//
// The driver is Mesa's software device under the validation layers, unless the
// environment names another. ATTN_TEST_TARGET names the target. A failure
// prints its seed: ATTN_TEST_SEED=... runs that problem first.
// ATTN_TEST_COUNT=... sets the number of problems.
//
//===----------------------------------------------------------------------===//

#include "CaseLaunch.h"
#include "SoftwareVulkan.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Target/KnownTargets.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "gtest/gtest.h"

using namespace attn;
using namespace mlir;

namespace {

constexpr int kMostFailures = 20;

/// Lengths and depths around the sizes of blocks and quads.
CaseRange range(int64_t mostWork) {
  static constexpr int64_t lengths[] = {1,  2,  3,  5,  7,  15, 16,
                                        17, 31, 33, 63, 65, 97, 130};
  static constexpr int64_t depths[] = {1,  2,  3,  4,  8,  16, 24,
                                       31, 40, 59, 64, 80, 96, 128};
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
  static bool isThere = useSoftwareVulkan();
  return isThere;
}

class VulkanKernels : public ::testing::TestWithParam<const char *> {
protected:
  VulkanKernels() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  static void SetUpTestSuite() { llvm::EnablePrettyStackTrace(); }

  std::string target() {
    const char *given = std::getenv("ATTN_TEST_TARGET");
    return given ? given : GetParam();
  }
  /// Says in one line what is wrong with a problem, or nothing.
  std::string check(const CheckedCase &checked);
  void checkMany(int64_t count, const CaseRange &range);

  MLIRContext context;
};

} // namespace

std::string VulkanKernels::check(const CheckedCase &checked) {
  llvm::Expected<Artifact> artifact = compile(*checked.module, {target(), ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  if (artifact->launch.arguments.size() != argumentsOf(checked.problem).size())
    return "takes another number of arguments";
  return hasDriver() ? launchAndCompare(checked, *artifact) : "";
}

void VulkanKernels::checkMany(int64_t count, const CaseRange &range) {
  int failures = 0;
  bool hasDouble = lookupTarget(target())->findMatrixUnit("fma", "f64");
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed, range);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase c = generator.next();
    if (c.element == "f64" && !hasDouble)
      continue;
    std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) +
                       " ATTN_TEST_TARGET=" + target() + "\n" + c.text();
    // What a crash prints.
    llvm::PrettyStackTraceString onCrash(name.c_str());
    std::string problem;
    auto checked =
        CheckedCase::create(std::move(c), context, random, 20'000'000);
    if (checked)
      problem = check(*checked);
    else
      problem = "no oracle: " + llvm::toString(checked.takeError());
    if (problem.empty())
      continue;
    ++failures;
    ADD_FAILURE() << problem << "\n" << name;
  }
}

TEST_P(VulkanKernels, RandomProblems) {
  checkMany(problemCount(20), range(400'000));
}

TEST_P(VulkanKernels, LongRandomProblems) {
  checkMany(problemCount(300), range(5'000'000));
}

// Workgroups of 32 threads and of many, with and without a subgroup size.
INSTANTIATE_TEST_SUITE_P(Targets, VulkanKernels,
                         ::testing::Values("vulkan", "adreno", "mali"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });
