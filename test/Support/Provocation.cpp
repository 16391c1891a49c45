//===- Provocation.cpp - Data that leaves the range of a reference --------===//

#include "Provocation.h"
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

} // namespace

std::string attn::provoke(AttentionCase &c, Random &random) {
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
