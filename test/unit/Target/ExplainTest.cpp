//===- ExplainTest.cpp - The plan for a person, and as data ---------------===//

#include "Problems.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

using namespace attn;

namespace {

TEST(Explain, TextSaysSizesMemoryTrafficAndTime) {
  AttentionProblem p = makeProblem("f32", 2048, 64, true);
  p.queryLength = p.kvLength = AttentionProblem::kDynamic;
  p.returnsLse = true;
  TargetDescription target = targetNamed("cpu:avx512");
  std::string text = explainText(p, plan(p, target), target);
  for (const char *phrase :
       {"f32 attention: batch 2, heads 8 on 8, ? (taken as 4096) queries x ? "
        "(taken as 4096) keys, head dimensions 64 and 64, causal, lse\n",
        "  target    cpu:avx512 (x86-64-v4), 16 units at 2500 MHz; ",
        " in register tiles of 6 x 64, keys packed, exact softmax\n",
        "  memory    L2 cache: ", " of 768 KiB\n", "query ", "key panels ",
        "in standard attention", "predicted, bound by matrix products",
        "  why       block_query 516: the best with ", "  next      ",
        " candidates fit, 1 do not\n"})
    EXPECT_NE(text.find(phrase), std::string::npos) << phrase << "\n" << text;
  EXPECT_LE(llvm::StringRef(text).count('\n'), 22u) << text;
}

TEST(Explain, TextSaysWhatDidNotFit) {
  AttentionProblem p = makeProblem("f32", 2048, 256);
  TargetDescription target = targetNamed("cpu:avx2");
  std::string text = explainText(p, plan(p, target), target);
  EXPECT_NE(text.find("  rejected  "), std::string::npos) << text;
  EXPECT_NE(text.find(" of L2 cache, the budget is 192 KiB\n"),
            std::string::npos)
      << text;
}

TEST(Explain, JsonHoldsTheSame) {
  AttentionProblem p = makeProblem("bf16", 4096, 128);
  TargetDescription target = targetNamed("h200");
  TilingPlan chosen = plan(p, target);
  llvm::json::Value value = explainJson(p, chosen, target);
  const llvm::json::Object &object = *value.getAsObject();
  EXPECT_EQ(object.getString("target"), "h200");
  const llvm::json::Object *tiling =
      object.getObject("chosen")->getObject("tiling");
  ASSERT_TRUE(tiling);
  EXPECT_EQ(tiling->getInteger("block_query"), chosen.tiling.blockQuery);
  EXPECT_EQ(tiling->getInteger("query_stages"), chosen.tiling.queryStages);
  EXPECT_EQ(tiling->getString("product"), "wgmma");
  EXPECT_EQ(object.getArray("runners_up")->size(), chosen.runnersUp.size());
  EXPECT_EQ(object.getObject("chosen")->getString("bound"),
            chosen.chosen.prediction.bound);
  // It survives being printed.
  std::string text = llvm::formatv("{0}", value).str();
  EXPECT_TRUE(bool(llvm::json::parse(text)));
}

} // namespace
