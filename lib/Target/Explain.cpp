//===- Explain.cpp - The plan for a person, and as data -------------------===//

#include "Schedules.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace attn;
using namespace attn::planner;
using llvm::formatv;

static std::string sizeText(int64_t size, int64_t assumed) {
  return AttentionProblem::isDynamic(size)
             ? formatv("? (taken as {0})", assumed).str()
             : std::to_string(size);
}

static std::string timeText(double seconds) {
  if (seconds >= 1)
    return formatv("{0:f2} s", seconds);
  if (seconds >= 1e-3)
    return formatv("{0:f2} ms", seconds * 1e3);
  return formatv("{0:f2} us", seconds * 1e6);
}

/// What the op has beside products and softmax.
static std::vector<std::string> extras(const AttentionProblem &p) {
  std::vector<std::string> words;
  auto say = [&](bool condition, const char *word) {
    if (condition)
      words.push_back(word);
  };
  if (p.bandRight && !p.bandLeft && *p.bandRight == 0)
    words.push_back("causal");
  else if (p.bandLeft || p.bandRight)
    words.push_back(formatv("window ({0}, {1})", p.bandLeft.value_or(-1),
                            p.bandRight.value_or(-1)));
  say(p.alignsBottomRight && (p.bandLeft || p.bandRight), "bottom right");
  say(p.hasSoftcap, "softcap");
  say(p.hasScoreMod, "score_mod");
  say(p.hasBias, "bias");
  say(p.hasMask, "mask");
  say(p.hasMaskMod, "mask_mod");
  say(p.hasSegments, "segments");
  say(p.hasKvLengths, "kv_lengths");
  say(p.hasSinks, "sinks");
  say(p.returnsLse, "lse");
  return words;
}

static std::string problemText(const AttentionProblem &p) {
  AttentionProblem s = p.withRepresentativeSizes();
  std::string text = formatv(
      "{0} attention{8}: batch {1}, heads {2} on {3}, {4} queries x {5} "
      "keys, head dimensions {6} and {7}",
      p.elementType, sizeText(p.batch, s.batch),
      sizeText(p.queryHeads, s.queryHeads), sizeText(p.kvHeads, s.kvHeads),
      sizeText(p.queryLength, s.queryLength), sizeText(p.kvLength, s.kvLength),
      p.headDim, p.valueDim, p.isBackward ? " backward" : "");
  for (const std::string &word : extras(p))
    text += ", " + word;
  return text;
}

/// One line that names every decision.
static std::string tilingText(const Tiling &t) {
  std::string text = formatv("{0} queries x {1} keys, {2}", t.blockQuery,
                             t.blockKey, t.product);
  if (t.registerRows > 0)
    text += formatv(" in register tiles of {0} x {1}", t.registerRows,
                    t.registerColumns)
                .str();
  if (t.groups > 1)
    text += formatv(", {0} groups", t.groups).str();
  if (t.stages > 1)
    text += formatv(", {0} key/value stages", t.stages).str();
  if (t.queryStages > 1)
    text += formatv(", {0} query stages", t.queryStages).str();
  if (t.registerRows > 0)
    text += t.pack ? ", keys packed" : ", keys in place";
  if (!t.queryGradient.empty())
    return text + ", query gradient " + t.queryGradient;
  return text + formatv(", {0} softmax", t.softmax).str();
}

static void writeMemory(const Candidate &c, llvm::raw_ostream &os) {
  for (const MemoryBudget &budget : c.budgets) {
    os << formatv("  memory    {0}: {1} of {2}\n", budget.memory,
                  formatBytes(budget.used), formatBytes(budget.limit));
    llvm::ListSeparator comma(", ");
    os << "              ";
    for (const TileUse &use : c.tiles)
      if (use.memory == budget.memory)
        os << comma << use.tile << ' ' << formatBytes(use.bytes);
    os << '\n';
  }
}

static void writeTraffic(const Traffic &t, llvm::raw_ostream &os) {
  os << formatv(
      "  traffic   {0} tiled, {1} in standard attention ({2:f1} times "
      "as much); {3} from main memory once the cache has served\n",
      formatBytes(t.tiled), formatBytes(t.standard),
      t.tiled > 0 ? t.standard / t.tiled : 0.0, formatBytes(t.mainMemory));
}

/// Multiply-adds count as two, masked scores not at all, and what a backward
/// computes twice once.
static double flops(const AttentionProblem &sized) {
  int64_t depth = sized.isBackward ? 3 * sized.headDim + 2 * sized.valueDim
                                   : sized.headDim + sized.valueDim;
  return 2.0 * sized.batch * sized.queryHeads * sized.visiblePairs() * depth;
}

static void writeTime(const Prediction &p, const AttentionProblem &sized,
                      llvm::raw_ostream &os) {
  os << formatv("  time      {0} predicted, bound by {1}", timeText(p.total),
                p.bound);
  if (p.total > 0) {
    double gflops = flops(sized) / p.total * 1e-9;
    os << (gflops < 1e4 ? formatv("; {0:f1} GFLOP/s", gflops).str()
                        : formatv("; {0:f1} TFLOP/s", gflops * 1e-3).str());
  }
  os << formatv("\n              compute {0} (matrix {1}, softmax {2}), cache "
                "{3}, memory {4}\n",
                timeText(p.compute), timeText(p.matrix), timeText(p.softmax),
                timeText(p.cache), timeText(p.memory));
}

std::string attn::explainText(const AttentionProblem &problem,
                              const TilingPlan &plan,
                              const TargetDescription &target) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << problemText(problem) << '\n';
  os << formatv("  target    {0} ({1}), {2} units at {3} MHz; {4}\n",
                target.name, target.arch, target.computeUnits, target.clockMHz,
                target.source);
  os << "  tile      " << tilingText(plan.tiling) << '\n';
  writeMemory(plan.chosen, os);
  writeTraffic(plan.chosen.traffic, os);
  writeTime(plan.chosen.prediction, problem.withRepresentativeSizes(), os);
  for (const std::string &reason : plan.reasons)
    os << "  why       " << reason << '\n';
  constexpr size_t kShown = 3;
  for (const Candidate &c : llvm::ArrayRef(plan.runnersUp).take_front(kShown))
    os << formatv("  next      {0}: {1}\n", tilingText(c.tiling),
                  timeText(c.prediction.total));
  for (const Candidate &c : plan.rejected)
    os << formatv("  rejected  {0}: {1}\n", tilingText(c.tiling), c.rejection);
  os << formatv("  {0} candidates fit, {1} do not\n", plan.numFitting,
                plan.numRejected);
  return text;
}

static llvm::json::Object tilingJson(const Tiling &tiling) {
  llvm::json::Object object;
  Tiling::visitFields(tiling, [&](llvm::StringRef name, const auto &value) {
    object[name] = value;
  });
  return object;
}

static llvm::json::Object candidateJson(const Candidate &c) {
  llvm::json::Array tiles, budgets;
  for (const TileUse &use : c.tiles)
    tiles.push_back(llvm::json::Object{
        {"tile", use.tile}, {"memory", use.memory}, {"bytes", use.bytes}});
  for (const MemoryBudget &budget : c.budgets)
    budgets.push_back(llvm::json::Object{{"memory", budget.memory},
                                         {"used", budget.used},
                                         {"limit", budget.limit}});
  llvm::json::Object object{{"tiling", tilingJson(c.tiling)},
                            {"tiles", std::move(tiles)},
                            {"budgets", std::move(budgets)}};
  if (!c.rejection.empty()) {
    object["rejection"] = c.rejection;
    return object;
  }
  object["traffic_bytes"] =
      llvm::json::Object{{"standard", c.traffic.standard},
                         {"tiled", c.traffic.tiled},
                         {"main_memory", c.traffic.mainMemory}};
  object["predicted_seconds"] = llvm::json::Object{
      {"matrix", c.prediction.matrix},   {"softmax", c.prediction.softmax},
      {"compute", c.prediction.compute}, {"cache", c.prediction.cache},
      {"memory", c.prediction.memory},   {"total", c.prediction.total}};
  object["bound"] = c.prediction.bound;
  return object;
}

llvm::json::Value attn::explainJson(const AttentionProblem &problem,
                                    const TilingPlan &plan,
                                    const TargetDescription &target) {
  AttentionProblem sized = problem.withRepresentativeSizes();
  auto all = [](const std::vector<Candidate> &candidates) {
    llvm::json::Array array;
    for (const Candidate &c : candidates)
      array.push_back(candidateJson(c));
    return array;
  };
  llvm::json::Object result{
      {"problem", llvm::json::Object{{"text", problemText(problem)},
                                     {"batch", sized.batch},
                                     {"query_heads", sized.queryHeads},
                                     {"kv_heads", sized.kvHeads},
                                     {"query_length", sized.queryLength},
                                     {"kv_length", sized.kvLength},
                                     {"head_dim", sized.headDim},
                                     {"value_dim", sized.valueDim},
                                     {"element_type", sized.elementType},
                                     {"flops", flops(sized)}}},
      {"target", target.name},
      {"chosen", candidateJson(plan.chosen)},
      {"reasons", llvm::json::Array(plan.reasons)},
      {"runners_up", all(plan.runnersUp)},
      {"rejected", all(plan.rejected)},
      {"candidates_that_fit", plan.numFitting},
      {"candidates_rejected", plan.numRejected}};
  return result;
}
