//===- SoftmaxReferenceTest.cpp - References under provocation ------------===//
//
// Random problems whose data is made to leave the range of a reference that
// stays behind: keys that grow along the sweep, first blocks that are hidden or
// nearly so, huge and tiny scores, sinks that dominate, infinities and NaN.
// Every kind of softmax must stay within the error bound of the oracle.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first.
//
//===----------------------------------------------------------------------===//

#include "Provocation.h"
#include "TiledFormFixture.h"
#include "attn/Target/KnownTargets.h"

using namespace attn;
using namespace mlir;

namespace {

using Random = std::mt19937_64;

/// Whether a raised reference can be had.
bool canRaise(const AttentionCase &c) {
  return c.element == "bf16" && !c.wantsLse;
}

class SoftmaxReferenceTest : public TiledFormFixture {
protected:
  void checkProvoked(AttentionCase c, uint64_t seed,
                     std::optional<bool> vote = std::nullopt) {
    Random random(seed * 7919 + 1);
    std::string names = provoke(c, random);
    Random same = random, again = random;
    std::string problem = check(c, random, vote);
    ++checked;
    if (problem.empty())
      return;
    AttentionCase exact = c;
    exact.softmax = "exact";
    if (c.softmax != "exact" && check(exact, same).empty() &&
        !check(c, again, vote, kProvokedSlack).empty())
      ADD_FAILURE() << problem << "\nATTN_TEST_SEED=" << seed << names << "\n"
                    << c.text();
    else
      beyond.push_back(seed);
  }

  void checkMany(int count, std::optional<bool> vote = std::nullopt) {
    uint64_t seed = firstSeed();
    for (int n = 0; n < count && !HasFailure(); ++n, ++seed) {
      AttentionCase c = CaseGenerator(seed).next();
      // Blocks of a few keys add up equal probabilities one by one, which f32
      // and f64 show (docs/Rationale.md).
      if (c.element == "f32" || c.element == "f64")
        c.blockKey = std::max<int64_t>(c.blockKey, 16);
      // Those that matrix units of a GPU map.
      if (seed % 2 == 0)
        c.product = "wgmma";
      if (canRaise(c) && c.softmax != "exact")
        c.softmax = "raised";
      checkProvoked(std::move(c), seed, vote);
    }
  }

  void TearDown() override {
    EXPECT_LE(static_cast<int64_t>(beyond.size()), mostBeyond(checked))
        << "too many are beyond the bound, the last from seed "
        << beyond.back();
  }

  int64_t checked = 0;
  std::vector<uint64_t> beyond;
};

TEST_F(SoftmaxReferenceTest, SmallTiles) { checkMany(problemCount(300)); }

TEST_F(SoftmaxReferenceTest, LongSmallTiles) { checkMany(problemCount(4000)); }

/// Keys and rows enough for several blocks of every planned size.
CaseRange longRange() {
  static constexpr int64_t lengths[] = {67, 130, 257, 300, 513};
  static constexpr int64_t depths[] = {8, 16, 40, 64};
  static constexpr int64_t ratios[] = {1, 2};
  CaseRange range = CaseRange::small();
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  range.mostWork = 3'000'000;
  return range;
}

TEST_F(SoftmaxReferenceTest, TilesOfEveryGpu) {
  uint64_t seed = firstSeed();
  CaseRange range = longRange();
  for (const TargetDescription &target : listTargets()) {
    if (target.family == "cpu")
      continue;
    for (StringRef softmax : {"exact", "conditional", "stale", "raised"}) {
      // It is planned for wgmma alone; some targets have no bf16.
      if (softmax == "raised" && target.family != "cuda")
        continue;
      bool isPlanned = false;
      for (int n = 0; n < 200 && !isPlanned; ++n, ++seed) {
        AttentionCase c = CaseGenerator(seed, range).next();
        isPlanned = c.element != "f64" && plan(c, target) &&
                    (softmax != "raised" || canRaise(c));
        if (!isPlanned)
          continue;
        c.softmax = softmax.str();
        checkProvoked(c, seed);
        ASSERT_FALSE(HasFailure()) << target.name;
      }
      EXPECT_TRUE(isPlanned) << target.name;
    }
  }
}

/// More rescaling than the vote asks for changes no result: a back end may
/// vote more cautiously, or take the first block apart.
TEST_F(SoftmaxReferenceTest, RescalingIsAlwaysRight) {
  checkMany(problemCount(100), /*vote=*/true);
}

/// These tests would notice a vote that is lost.
TEST_F(SoftmaxReferenceTest, WithoutVotesResultsAreWrong) {
  for (StringRef softmax : {"conditional", "stale", "raised"}) {
    int wrong = 0;
    uint64_t most = softmax == "raised" ? 400 : 40;
    for (uint64_t seed = 1; seed <= most; ++seed) {
      AttentionCase c = CaseGenerator(seed).next();
      if (softmax == "raised" && !canRaise(c))
        continue;
      c.softmax = softmax.str();
      Random random(seed);
      provoke(c, random);
      wrong += !check(c, random, /*vote=*/false).empty();
    }
    EXPECT_GE(wrong, 5) << softmax.str();
  }
}

} // namespace
