//===- GradientKernelTest.cpp - Compiled gradients against the oracle -----===//
//
// Random backward problems, compiled for the host with the planner's tiles, run
// twice and on one thread, which must give the same bits, and compared with the
// oracle.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "GradientLaunch.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/Cpu/CpuKernel.h"
#include "gtest/gtest.h"
#include <dlfcn.h>

using namespace attn;
using namespace mlir;

namespace {

class GradientKernels : public ::testing::Test {
protected:
  GradientKernels() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  std::string check(const GradientCase &c);
  void checkMany(uint64_t seed, int64_t count);

  MLIRContext context;
};

std::string GradientKernels::check(const GradientCase &c) {
  llvm::Expected<Artifact> artifact = compile(*c.module, {"cpu", ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  auto setThreads = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  constexpr int kThreads[] = {0, 0, 1, 3};
  return launchAndCompare(c, *artifact, std::size(kThreads), [&](int run) {
    if (kThreads[run] && setThreads)
      setThreads(kThreads[run]);
  });
}

void GradientKernels::checkMany(uint64_t seed, int64_t count) {
  constexpr int kMostFailures = 5;
  int failures = 0;
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase drawn = generator.next();
    drawn.statesTiling = false;
    auto made = GradientCase::create(std::move(drawn), context, random);
    std::string problem =
        made ? check(*made) : llvm::toString(made.takeError());
    failures += !problem.empty();
    EXPECT_EQ(problem, "") << "ATTN_TEST_SEED=" << seed << "\n"
                           << (made ? made->text() : "");
  }
}

TEST_F(GradientKernels, RandomProblems) {
  checkMany(firstSeed(), problemCount(6));
}

TEST_F(GradientKernels, LongRandomProblems) {
  checkMany(firstSeed(), problemCount(500));
}

} // namespace
