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

#include "TiledFormFixture.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/IR/Builders.h"

using namespace attn;
using namespace mlir;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Random = std::mt19937_64;

bool chance(Random &random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}
double pick(Random &random, ArrayRef<double> from) {
  return from[random() % from.size()];
}

/// Visits the elements of key or value with the position of their key.
void forEachElement(AttentionCase &c, StringRef name, Layout layout,
                    function_ref<void(double &element, int64_t key)> visit) {
  std::vector<double> &elements = c.find(name)->data.data;
  int64_t width = c.find(name)->data.shape[3];
  int64_t keys = c.shape.kvLength, heads = c.shape.kvHeads;
  for (auto [index, element] : llvm::enumerate(elements)) {
    int64_t row = static_cast<int64_t>(index) / width;
    visit(element, layout == Layout::bhsd ? row % keys : row / heads % keys);
  }
}
void forEachKey(AttentionCase &c, function_ref<void(double &, int64_t)> visit) {
  forEachElement(c, "key", c.keyLayout, visit);
}

/// Each block of keys larger than the one before it, or smaller.
void grow(AttentionCase &c, Random &random) {
  double factor = pick(random, {1.3, 3, 20, 200, 0.3, 0.02});
  double first = factor < 1 ? 300 : pick(random, {1e-3, 0.1, 1});
  forEachKey(c, [&](double &element, int64_t key) {
    element *= std::min(first * std::pow(factor, key / c.blockKey), 1e4);
  });
}

/// Nearly equal scores for the first half of the keys, spread ones after it.
void startTiny(AttentionCase &c, Random &random) {
  double rest = pick(random, {4, 30, 100});
  forEachKey(c, [&](double &element, int64_t key) {
    element *= key < c.shape.kvLength / 2 ? 1e-4 : rest;
  });
}

/// All scores below zero, the first so far that their exponentials are 0.
void startLow(AttentionCase &c, Random &random) {
  double shrink = pick(random, {1, 3, 1000});
  for (double &element : c.find("query")->data.data)
    element = std::fabs(element);
  forEachKey(c, [&](double &element, int64_t key) {
    element = -std::fabs(element) * 1e4 / std::pow(shrink, key / c.blockKey);
  });
}

void scaleUp(AttentionCase &c, Random &random) {
  double factor = pick(random, {12, 1e3, 1e4});
  forEachKey(c, [&](double &element, int64_t) { element *= factor; });
}

void scaleDown(AttentionCase &c, Random &random) {
  double factor = pick(random, {1e-3, 1e-30});
  forEachKey(c, [&](double &element, int64_t) { element *= factor; });
}

/// The first blocks are hidden by whatever hides keys in this problem.
void hideStart(AttentionCase &c, Random &random) {
  int64_t hidden = c.blockKey * (1 + random() % 2);
  if (CaseOperand *ids = c.find("kv_segments"))
    for (auto [index, id] : llvm::enumerate(ids->data.data))
      if (static_cast<int64_t>(index) % c.shape.kvLength < hidden)
        id = -7;
  CaseOperand *mask = c.find("mask");
  if (mask && mask->data.shape.back() == c.shape.kvLength)
    for (auto [index, isVisible] : llvm::enumerate(mask->data.data))
      if (static_cast<int64_t>(index) % c.shape.kvLength < hidden)
        isVisible = 0;
  if (c.find("kv_segments") || mask ||
      c.masks.find("window") != std::string::npos)
    return;
  // A window that is narrow enough starts inside the sweep of later rows.
  c.masks += llvm::formatv(" window({0}, -1)", c.blockKey / 2);
}

void dominateBySinks(AttentionCase &c, Random &random) {
  if (CaseOperand *sinks = c.find("sinks"))
    for (double &sink : sinks->data.data)
      sink = pick(random, {1e30, 1e4, 60, 25, 8, -25, -1e4, -kInfinity});
}

/// A bias of any size, where there is one.
void stretchBias(AttentionCase &c, Random &random) {
  CaseOperand *bias = c.find("bias");
  if (!bias)
    return;
  double factor = pick(random, {1e4, 1e30, 1e-30});
  for (double &element : bias->data.data)
    element *= factor;
}

/// Infinities and NaN in a few places of query or key; NaN in a value where
/// every row sees it (a hidden one may reach other rows, see rule 5).
void breakFew(AttentionCase &c, Random &random) {
  bool hidesNothing = c.masks.empty() && c.maskMod.empty() && !c.find("mask") &&
                      !c.find("kv_lengths") && !c.find("kv_segments");
  auto breakOne = [&](StringRef name, ArrayRef<double> with) {
    std::vector<double> &elements = c.find(name)->data.data;
    if (!elements.empty())
      elements[random() % elements.size()] = pick(random, with);
  };
  breakOne(chance(random, 0.5) ? "query" : "key",
           {kInfinity, -kInfinity, kNaN});
  if (hidesNothing)
    breakOne("value", {kNaN});
}

struct Provocation {
  const char *name;
  void (*apply)(AttentionCase &c, Random &random);
};
constexpr Provocation kProvocations[] = {{"grow", grow},
                                         {"startTiny", startTiny},
                                         {"startLow", startLow},
                                         {"scaleUp", scaleUp},
                                         {"scaleDown", scaleDown},
                                         {"hideStart", hideStart},
                                         {"stretchBias", stretchBias}};

/// Rounds to the element types, within the finite numbers where it was finite.
void roundOperands(AttentionCase &c) {
  MLIRContext context;
  Builder b(&context);
  for (CaseOperand &operand : c.operands) {
    if (operand.element[0] == 'i')
      continue;
    Type type = operand.element == "bf16"  ? Type(b.getBF16Type())
                : operand.element == "f16" ? Type(b.getF16Type())
                : operand.element == "f32" ? Type(b.getF32Type())
                                           : Type(b.getF64Type());
    double largest = operand.name == "key"      ? 2e4
                     : operand.element == "f16" ? 65504
                                                : 3e38;
    for (double &element : operand.data.data)
      element = roundToType(std::isfinite(element)
                                ? std::clamp(element, -largest, largest)
                                : element,
                            type);
  }
}

std::string provoke(AttentionCase &c, Random &random) {
  std::string names;
  for (int n = chance(random, 0.4) ? 2 : 1; n > 0; --n) {
    const Provocation &chosen =
        kProvocations[random() % std::size(kProvocations)];
    chosen.apply(c, random);
    names += std::string(" ") + chosen.name;
  }
  if (chance(random, 0.7))
    dominateBySinks(c, random);
  if (chance(random, 0.2)) {
    breakFew(c, random);
    names += " breakFew";
  }
  roundOperands(c);
  return names;
}

class SoftmaxReferenceTest : public TiledFormFixture {
protected:
  /// A few problems leave every softmax beyond the bound, the exact one too, or
  /// another one by little: rows of two keys alone, say, where each rounding
  /// shows. They must remain few.
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
        !check(c, again, vote, /*slack=*/1.5).empty())
      ADD_FAILURE() << problem << "\nATTN_TEST_SEED=" << seed << names << "\n"
                    << c.text();
    else
      beyond.push_back(seed);
  }

  void checkMany(int count, std::optional<bool> vote = std::nullopt) {
    uint64_t seed = firstSeed();
    for (int n = 0; n < count && !HasFailure(); ++n, ++seed)
      checkProvoked(CaseGenerator(seed).next(), seed, vote);
  }

  void TearDown() override {
    EXPECT_LE(static_cast<int64_t>(beyond.size()), 3 + checked / 20)
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
    for (StringRef softmax : {"exact", "conditional", "stale"}) {
      bool isPlanned = false;
      for (int n = 0; n < 32 && !isPlanned; ++n, ++seed) {
        AttentionCase c = CaseGenerator(seed, range).next();
        isPlanned = c.element != "f64" && plan(c, target);
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
  for (StringRef softmax : {"conditional", "stale"}) {
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      AttentionCase c = CaseGenerator(seed).next();
      c.softmax = softmax.str();
      Random random(seed);
      provoke(c, random);
      wrong += !check(c, random, /*vote=*/false).empty();
    }
    EXPECT_GE(wrong, 5) << softmax.str();
  }
}

} // namespace
