//===- GradientKernelTest.cpp - Vulkan gradients against the oracle -------===//
//
// Random backward problems, compiled to SPIR-V with the planner's tiles, run
// twice, which must give the same bits, and compared with the oracle. The
// driver is Mesa's software device under the validation layers, unless the
// environment names another; without one the problems are compiled, and nothing
// may be refused. ATTN_TEST_TARGET names the target.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "GradientLaunch.h"
#include "SoftwareVulkan.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Target/KnownTargets.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "gtest/gtest.h"

using namespace attn;
using namespace mlir;

namespace {

/// Lengths and depths around the sizes of blocks and quads. A software device
/// ends the loops of a thread after 65,535 turns.
CaseRange range(int64_t mostWork) {
  static constexpr int64_t lengths[] = {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65};
  static constexpr int64_t depths[] = {1,  2,  3,  4,  8,  16, 24,
                                       31, 40, 59, 64, 80, 96, 128};
  static constexpr int64_t ratios[] = {1, 1, 2, 3, 4, 5, 6, 7, 8};
  CaseRange range;
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  range.mostWork = mostWork;
  return range;
}

bool hasDriver() {
  static bool isThere = useSoftwareVulkan();
  return isThere;
}

class VulkanGradients : public ::testing::TestWithParam<const char *> {
protected:
  VulkanGradients() {
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
  std::string check(const GradientCase &c);
  void checkMany(int64_t count, const CaseRange &range);

  MLIRContext context;
};

std::string VulkanGradients::check(const GradientCase &c) {
  llvm::Expected<Artifact> artifact = compile(*c.module, {target(), ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  return hasDriver() ? launchAndCompare(c, *artifact, /*runs=*/2) : "";
}

void VulkanGradients::checkMany(int64_t count, const CaseRange &range) {
  constexpr int kMostFailures = 5;
  int failures = 0;
  bool hasDouble = lookupTarget(target())->findMatrixUnit("fma", "f64");
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed, range);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase drawn = generator.next();
    if (drawn.element == "f64" && !hasDouble)
      continue;
    drawn.statesTiling = false;
    std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) +
                       " ATTN_TEST_TARGET=" + target() + "\n";
    auto made = GradientCase::create(std::move(drawn), context, random);
    if (made)
      name += made->text();
    // What a crash prints.
    llvm::PrettyStackTraceString onCrash(name.c_str());
    std::string problem =
        made ? check(*made) : llvm::toString(made.takeError());
    failures += !problem.empty();
    EXPECT_EQ(problem, "") << name;
  }
}

TEST_P(VulkanGradients, RandomProblems) {
  checkMany(problemCount(6), range(100'000));
}

TEST_P(VulkanGradients, LongRandomProblems) {
  checkMany(problemCount(200), range(1'000'000));
}

// Workgroups of 32 threads and of many, with and without a subgroup size.
INSTANTIATE_TEST_SUITE_P(Targets, VulkanGradients,
                         ::testing::Values("vulkan", "adreno", "mali"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

} // namespace
