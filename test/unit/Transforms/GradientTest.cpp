//===- GradientTest.cpp - The tiled gradients against the oracle ----------===//
//
// Random problems, with random tile sizes. What no query sees is NaN, gaps
// between elements are NaN, destinations are NaN before; inputs and gaps must
// be unchanged after.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "GradientCase.h"
#include "TiledFormFixture.h"

using namespace attn;
using namespace mlir;

namespace {

class GradientTest : public TiledFormFixture {
protected:
  std::string check(AttentionCase drawn, std::mt19937_64 &random);
  void checkMany(uint64_t seed, int count);
};

std::string GradientTest::check(AttentionCase drawn, std::mt19937_64 &random) {
  llvm::Expected<GradientCase> made =
      GradientCase::create(std::move(drawn), context, random);
  if (!made)
    return llvm::toString(made.takeError());
  const GradientCase &c = *made;
  bool isTensor = c.problem.isTensor;
  std::string error = tile(*c.module, isTensor);
  if (!error.empty())
    return error + "\n" + c.text();

  std::vector<HostMemRef> inputs, gradients;
  for (ArrayRef<CaseOperand> group :
       {ArrayRef(c.problem.operands), ArrayRef(c.problem.captures),
        ArrayRef(c.forward)})
    for (const CaseOperand &operand : group)
      inputs.push_back(asArgument(operand, isTensor));
  for (CaseOperand out : c.outs) {
    llvm::fill(out.data.data, std::numeric_limits<double>::quiet_NaN());
    gradients.push_back(asArgument(out, isTensor));
  }
  error = runChecked(*c.module, inputs, gradients, random() & 1);
  if (!error.empty())
    return error + "\n" + c.text();
  SmallVector<Array> arrays;
  for (const HostMemRef &gradient : gradients)
    arrays.push_back(gradient.toArray());
  error = c.compare(arrays);
  return error.empty() ? error : error + "\n" + c.text();
}

void GradientTest::checkMany(uint64_t seed, int count) {
  constexpr int kMostFailures = 10;
  int failures = 0;
  for (int n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase drawn = generator.next();
    drawn.softmax = "exact";
    std::string problem = check(std::move(drawn), random);
    failures += !problem.empty();
    EXPECT_EQ(problem, "") << "ATTN_TEST_SEED=" << seed;
  }
}

TEST_F(GradientTest, RandomProblems) {
  checkMany(firstSeed(), problemCount(150));
}

TEST_F(GradientTest, LongRandomProblems) {
  checkMany(firstSeed(), problemCount(3000));
}

} // namespace
