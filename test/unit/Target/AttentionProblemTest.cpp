//===- AttentionProblemTest.cpp - From the op to the planner's question ---===//

#include "attn/Target/AttentionProblem.h"
#include "Problems.h"
#include "attn/IR/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace attn;

namespace {

class GetProblem : public ::testing::Test {
protected:
  GetProblem() { context.loadDialect<AttnDialect, func::FuncDialect>(); }

  AttentionProblem parse(const std::string &arguments,
                         const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}", &context);
    AttentionProblem problem;
    if (!module) {
      ADD_FAILURE() << "does not parse: " << body;
      return problem;
    }
    module->walk([&](AttentionOp op) { problem = getProblem(op); });
    return problem;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(GetProblem, ReadsSizesTypeAndExtras) {
  AttentionProblem p = parse(
      "%q: tensor<2x8x?x64xbf16>, %k: tensor<2x2x512x64xbf16>, "
      "%v: tensor<2x2x512x32xbf16>, %n: tensor<2xi32>, %s: tensor<8xf32>",
      "%o, %l = attn.attention %q, %k, %v kv_lengths(%n : tensor<2xi32>) "
      "sinks(%s : tensor<8xf32>) softcap(20.0) window(127, -1) bottom_right "
      "causal : tensor<2x8x?x64xbf16>, tensor<2x2x512x64xbf16>, "
      "tensor<2x2x512x32xbf16> -> tensor<2x8x?x32xbf16>, tensor<2x8x?xf32>");
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.queryHeads, 8);
  EXPECT_EQ(p.kvHeads, 2);
  EXPECT_TRUE(AttentionProblem::isDynamic(p.queryLength));
  EXPECT_EQ(p.kvLength, 512);
  EXPECT_EQ(p.headDim, 64);
  EXPECT_EQ(p.valueDim, 32);
  EXPECT_EQ(p.elementType, "bf16");
  EXPECT_EQ(p.elementBytes(), 2);
  EXPECT_EQ(p.accumulatorBytes(), 4);
  EXPECT_EQ(p.bandLeft, 127);
  EXPECT_EQ(p.bandRight, 0);
  EXPECT_TRUE(p.alignsBottomRight);
  EXPECT_TRUE(p.hasSoftcap && p.hasKvLengths && p.hasSinks && p.returnsLse);
  EXPECT_FALSE(p.hasBias || p.hasMask || p.hasScoreMod || p.hasMaskMod);
}

TEST_F(GetProblem, TensorMapsNeedWholeUnits) {
  auto problem = [&](const std::string &type, const std::string &output) {
    return parse("%q: " + type + ", %k: " + type + ", %v: " + type +
                     ", %o: " + output,
                 "attn.attention %q, %k, %v outs(%o : " + output +
                     ") : " + type + ", " + type + ", " + type);
  };
  auto hasTensorMaps = [&](const std::string &type, const std::string &output) {
    return problem(type, output).hasTensorMaps;
  };
  std::string whole = "memref<2x8x?x64xbf16>", odd = "memref<2x8x?x60xbf16>";
  EXPECT_TRUE(hasTensorMaps(whole, whole));
  EXPECT_FALSE(hasTensorMaps(odd, odd));
  EXPECT_FALSE(hasTensorMaps(whole, "memref<2x8x?x64xf32>"));
  auto strided = [](const std::string &strides) {
    return "memref<2x8x?x60xbf16, strided<[" + strides + ", 1], offset: ?>>";
  };
  EXPECT_TRUE(hasTensorMaps(strided("?, ?, ?"), strided("?, ?, 64")));
  EXPECT_FALSE(hasTensorMaps(strided("?, 100, ?"), strided("?, ?, ?")));
  std::string behind =
      "memref<2x8x?x64xbf16, strided<[51200, 6400, 64, 1], offset: 4>>";
  EXPECT_FALSE(hasTensorMaps(behind, behind));

  auto dependsOnLaunch = [&](const std::string &type,
                             const std::string &output) {
    return problem(type, output).mapsDependOnLaunch;
  };
  std::string known = "memref<2x8x?x64xbf16, strided<[51200, 6400, 64, 1]>>";
  EXPECT_FALSE(dependsOnLaunch(whole, whole));
  EXPECT_FALSE(dependsOnLaunch(known, known));
  EXPECT_FALSE(dependsOnLaunch(odd, odd));
  std::string open = "memref<2x8x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>";
  EXPECT_TRUE(dependsOnLaunch(open, known));
  EXPECT_TRUE(dependsOnLaunch(whole, open));
  // No launch can make up for the stride that is known.
  EXPECT_FALSE(dependsOnLaunch(strided("?, 100, ?"), strided("?, ?, ?")));
}

TEST(AttentionProblem, DynamicSizesGetALongSequence) {
  AttentionProblem p;
  p.headDim = p.valueDim = 64;
  AttentionProblem sized = p.withRepresentativeSizes();
  EXPECT_EQ(sized.batch, 1);
  EXPECT_EQ(sized.queryLength, 4096);
  EXPECT_EQ(sized.kvLength, 4096);
  EXPECT_EQ(sized.queryHeads, 16);
  EXPECT_EQ(sized.kvHeads, 16);

  p.kvHeads = 6;
  p.kvLength = 100;
  sized = p.withRepresentativeSizes();
  EXPECT_EQ(sized.queryHeads % sized.kvHeads, 0);
  EXPECT_EQ(sized.queryLength, 100);
}

/// Pairs and ranges by the definition of the band, one pair at a time.
TEST(AttentionProblem, BandCountsMatchTheDefinition) {
  for (int64_t queries : {1, 5, 16})
    for (int64_t keys : {1, 7, 16, 30})
      for (int64_t left : {-1, 0, 3, 100})
        for (int64_t right : {-1, 0, 2, 100})
          for (bool bottomRight : {false, true}) {
            AttentionProblem p = makeProblem("f32", queries, 8);
            p.kvLength = keys;
            p.alignsBottomRight = bottomRight;
            if (left >= 0)
              p.bandLeft = left;
            if (right >= 0)
              p.bandRight = right;
            int64_t offset = bottomRight ? keys - queries : 0;
            int64_t pairs = 0, lo = keys, hi = 0;
            for (int64_t i = 0; i < queries; ++i)
              for (int64_t j = 0; j < keys; ++j)
                if ((left < 0 || j >= i + offset - left) &&
                    (right < 0 || j <= i + offset + right)) {
                  ++pairs;
                  lo = std::min(lo, j);
                  hi = std::max(hi, j + 1);
                }
            EXPECT_EQ(p.visiblePairs(), pairs)
                << queries << ' ' << keys << ' ' << left << ' ' << right;
            AttentionProblem::KeyRange range = p.visibleKeys(0, queries - 1);
            if (pairs > 0) {
              EXPECT_LE(range.lo, lo);
              EXPECT_GE(range.hi, hi);
            } else {
              EXPECT_GE(range.lo, range.hi);
            }
          }
}

} // namespace
