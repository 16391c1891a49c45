//===- TiledFormTest.cpp - The tiled form against the oracle --------------===//
//
// Random problems, with random tile sizes and with the planner's.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "TiledFormFixture.h"
#include "attn/Target/KnownTargets.h"

using namespace attn;

namespace {

class TiledFormTest : public TiledFormFixture {
protected:
  void checkMany(uint64_t seed, int count);
};

void TiledFormTest::checkMany(uint64_t seed, int count) {
  constexpr int kMostFailures = 20;
  int failures = 0;
  for (int n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase c = generator.next();
    std::string problem = check(c, random);
    failures += !problem.empty();
    EXPECT_EQ(problem, "") << "ATTN_TEST_SEED=" << seed << "\n" << c.text();
  }
}

TEST_F(TiledFormTest, RandomProblems) {
  checkMany(firstSeed(), problemCount(150));
}

/// The tile sizes that the planner gives each known chip, GPUs included.
TEST_F(TiledFormTest, TilesOfEveryTarget) {
  uint64_t seed = firstSeed();
  for (const TargetDescription &target : listTargets()) {
    int planned = 0;
    for (int n = 0; n < 64 && planned < 8; ++n, ++seed) {
      CaseGenerator generator(seed);
      std::mt19937_64 random(seed);
      AttentionCase c = generator.next();
      if (!plan(c, target))
        continue;
      ++planned;
      ASSERT_EQ(check(c, random), "")
          << target.name << ", generator seed " << seed << "\n"
          << c.text();
    }
    EXPECT_GT(planned, 0) << target.name;
  }
}

TEST_F(TiledFormTest, LongRandomProblems) {
  checkMany(firstSeed(), problemCount(4000));
}

} // namespace
