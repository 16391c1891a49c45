//===- GradientKernelTest.cpp - Compiled gradients against the oracle -----===//
//
// Random backward problems, compiled for the host with the planner's tiles, run
// twice and on one thread, which must give the same bits, and compared with the
// oracle.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "CaseTensors.h"
#include "GradientCase.h"
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
  std::vector<const CaseOperand *> operands;
  for (ArrayRef<CaseOperand> group :
       {ArrayRef(c.problem.operands), ArrayRef(c.problem.captures),
        ArrayRef(c.forward), ArrayRef(c.outs)})
    for (const CaseOperand &operand : group)
      operands.push_back(&operand);
  llvm::Expected<Artifact> artifact = compile(*c.module, {"cpu", ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  if (artifact->launch.arguments.size() != operands.size())
    return "takes another number of arguments";
  std::vector<HostTensor> tensors;
  for (auto [argument, operand] :
       llvm::zip_equal(artifact->launch.arguments, operands)) {
    if (!c.problem.isTensor && !operand->isDense) {
      argument.strides.assign(operand->strides.begin(), operand->strides.end());
      argument.offset = operand->offset();
    }
    auto tensor = toTensor(typeOf(*operand), operand->data);
    if (!tensor)
      return llvm::toString(tensor.takeError());
    tensors.push_back(std::move(*tensor));
  }
  auto kernel = loadKernel(*artifact);
  if (!kernel)
    return llvm::toString(kernel.takeError());

  auto setThreads = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  size_t firstOut = operands.size() - c.outs.size();
  std::vector<std::vector<char>> first;
  for (int threads : {0, 0, 1, 3}) {
    if (threads && setThreads)
      setThreads(threads);
    for (HostTensor &out : MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (tensors[a].countPoisoned())
        return operands[a]->name + " was not written whole";
      if (first.size() < c.outs.size())
        first.push_back(bytesOf(tensors[a]));
      else if (first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs";
    }
  }
  SmallVector<Array> gradients;
  for (const HostTensor &tensor : ArrayRef(tensors).drop_front(firstOut))
    gradients.push_back(toArray(tensor));
  return c.compare(gradients);
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
