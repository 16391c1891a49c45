//===- OracleTest.cpp - The numbered constraints, computed by hand --------===//
//
// One test a constraint of attn.attention (C1 to C13; C3 and C12 are about
// types and regions, see OracleRegionTest.cpp). The problems are small enough
// to do on paper: with D = 1, query 1 and scale 1 a key is its own score, and
// with keys ln(w) the probabilities are in the ratio of the weights w.
//
//===----------------------------------------------------------------------===//

#include "AttentionFixture.h"

using namespace attn;
using namespace mlir;

namespace {

/// Attention of `queries` query rows on keys whose scores are given, D = Dv
/// = 1.
struct Rows {
  Array query, key, value;
};
Rows rows(int64_t queries, llvm::ArrayRef<double> weights,
          llvm::ArrayRef<double> values) {
  Rows r;
  int64_t keys = weights.size();
  r.query = Array({1, 1, queries, 1}, 1.0);
  r.key = Array({1, 1, keys, 1});
  for (int64_t j = 0; j < keys; ++j)
    r.key.data[j] = std::log(weights[j]);
  r.value = arrayOf({1, 1, keys, 1}, values);
  return r;
}

class OracleTest : public AttentionFixture {
protected:
  /// One head, D = Dv = 1, sizes open, scale 1, with these clauses. `arguments`
  /// are the function arguments that the clauses name.
  AttentionOp attention(llvm::StringRef clauses,
                        llvm::StringRef arguments = "") {
    std::string text =
        "func.func @f(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x?xf32>, "
        "%v: tensor<?x?x?x?xf32>" +
        arguments.str() +
        ") -> (tensor<?x?x?x?xf32>, tensor<?x?x?xf32>) {\n"
        "  %o, %l = attn.attention %q, %k, %v " +
        clauses.str() +
        " : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>"
        " -> tensor<?x?x?x?xf32>, tensor<?x?x?xf32>\n"
        "  return %o, %l : tensor<?x?x?x?xf32>, tensor<?x?x?xf32>\n}";
    return parseAttention(text);
  }
};

TEST_F(OracleTest, SoftmaxByHand) {
  // Weights 1 and 3: probabilities 1/4 and 3/4.
  Rows r = rows(1, {1, 3}, {10, 20});
  OracleResult result =
      evaluate(attention("scale(1.0)"), {r.query, r.key, r.value});
  EXPECT_NEAR(result.output.data[0], 17.5, 1e-12);
  EXPECT_NEAR(result.lse.data[0], std::log(4.0), 1e-12);
}

TEST_F(OracleTest, C1SizesMustAgree) {
  Array q({1, 1, 2, 3}), k({1, 1, 4, 3}), v({1, 1, 4, 5});
  AttentionOp op = attention("");
  OracleResult result = evaluate(op, {q, k, v});
  EXPECT_EQ(shapeText(result.output.shape), "1x1x2x5");
  EXPECT_EQ(shapeText(result.lse.shape), "1x1x2");
  EXPECT_EQ(errorOf(op, {q, k, Array({1, 1, 5, 5})}),
            "attn.attention expects the value to have the key's sequence "
            "length 4, got 5");
  EXPECT_EQ(errorOf(op, {q, Array({1, 1, 4, 2}), v}),
            "attn.attention expects the key to have the query's head dimension "
            "3, got 2");
  EXPECT_EQ(errorOf(op, {q, Array({2, 1, 4, 3}), v}),
            "attn.attention expects the key to have the query's batch size 1, "
            "got 2");
  EXPECT_EQ(errorOf(op, {q, k}), "attn.attention has 3 inputs, got 2 arrays");
  EXPECT_EQ(errorOf(op, {q, k, Array({4, 5})}),
            "operand #2 of attn.attention is ?x?x?x?, got an array of 4x5");
}

TEST_F(OracleTest, C2GroupsShareKeys) {
  // Six query heads on two key/value heads: heads 0-2 see 10, heads 3-5 see 20.
  OracleResult result =
      evaluate(attention(""), {Array({1, 6, 1, 1}, 1.0), Array({1, 2, 1, 1}),
                               arrayOf({1, 2, 1, 1}, {10, 20})});
  EXPECT_EQ(result.output.data, (std::vector<double>{10, 10, 10, 20, 20, 20}));
  EXPECT_EQ(errorOf(attention(""), {Array({1, 5, 1, 1}), Array({1, 2, 1, 1}),
                                    Array({1, 2, 1, 1})}),
            "attn.attention expects the query heads to be a whole multiple of "
            "the key/value heads, got 5 and 2");
}

TEST_F(OracleTest, C4Scale) {
  // D = 4 and q.k = ln 9: the default scale of 1/2 makes the weight 3.
  Array q({1, 1, 1, 4}, 1.0), v = arrayOf({1, 1, 2, 1}, {0, 1});
  Array k({1, 1, 2, 4});
  k.at({0, 0, 1, 0}) = std::log(9.0);
  auto outputAt = [&](llvm::StringRef clause) {
    return evaluate(attention(clause), {q, k, v}).output.data[0];
  };
  EXPECT_NEAR(outputAt(""), 0.75, 1e-12);
  EXPECT_NEAR(outputAt("scale(1.0)"), 0.9, 1e-12);
  EXPECT_NEAR(outputAt("scale(0.0)"), 0.5, 1e-12);
  EXPECT_NEAR(outputAt("scale(-1.0)"), 0.1, 1e-12);
}

TEST_F(OracleTest, C5Softcap) {
  // c tanh(s/c) with c = 2 and s = 2 atanh(ln(3)/2) is ln 3.
  Array q({1, 1, 1, 1}, 1.0), v = arrayOf({1, 1, 2, 1}, {0, 1});
  Array k = arrayOf({1, 1, 2, 1}, {0, 2 * std::atanh(std::log(3.0) / 2)});
  OracleResult result =
      evaluate(attention("scale(1.0) softcap(2.0)"), {q, k, v});
  EXPECT_NEAR(result.output.data[0], 0.75, 1e-12);
}

TEST_F(OracleTest, C6CausalTopLeftAndBottomRight) {
  // Three keys of weight 1, two queries. Values 1, 10, 100.
  Rows r = rows(2, {1, 1, 1}, {1, 10, 100});
  llvm::SmallVector<Array> operands = {r.query, r.key, r.value};
  OracleResult top = evaluate(attention("causal"), operands);
  EXPECT_NEAR(top.output.data[0], 1, 1e-12);
  EXPECT_NEAR(top.output.data[1], 11.0 / 2, 1e-12);
  // j <= i + (3 - 2).
  OracleResult bottom = evaluate(attention("causal bottom_right"), operands);
  EXPECT_NEAR(bottom.output.data[0], 11.0 / 2, 1e-12);
  EXPECT_NEAR(bottom.output.data[1], 111.0 / 3, 1e-12);
}

TEST_F(OracleTest, C6Window) {
  Rows r = rows(4, {1, 1, 1, 1}, {1, 10, 100, 1000});
  llvm::SmallVector<Array> operands = {r.query, r.key, r.value};
  OracleResult both = evaluate(attention("window(1, 0)"), operands);
  EXPECT_NEAR(both.output.data[0], 1, 1e-12);
  EXPECT_NEAR(both.output.data[2], 110.0 / 2, 1e-12);
  OracleResult left = evaluate(attention("window(0, -1)"), operands);
  EXPECT_NEAR(left.output.data[3], 1000, 1e-12);
  EXPECT_NEAR(left.output.data[1], 1110.0 / 3, 1e-12);
  // Causal and a right bound: the tighter one counts.
  OracleResult causal = evaluate(attention("causal window(-1, 2)"), operands);
  EXPECT_NEAR(causal.output.data[0], 1, 1e-12);
  // A bound as large as it can be hides nothing and does not overflow.
  OracleResult wide = evaluate(
      attention("window(9223372036854775807, 9223372036854775807)"), operands);
  EXPECT_NEAR(wide.output.data[0], 1111.0 / 4, 1e-12);
}

TEST_F(OracleTest, C6QueryOffset) {
  Rows r = rows(1, {1, 1, 1}, {1, 10, 100});
  AttentionOp op = attention("causal query_offset(%p : tensor<?xi32>)",
                             ", %p: tensor<?xi32>");
  auto outputAt = [&](double offset) {
    return evaluate(op, {r.query, r.key, r.value, arrayOf({1}, {offset})})
        .output.data[0];
  };
  EXPECT_NEAR(outputAt(0), 1, 1e-12);
  EXPECT_NEAR(outputAt(1), 11.0 / 2, 1e-12);
  EXPECT_EQ(outputAt(-1), 0);
}

TEST_F(OracleTest, C6OffsetIsPerBatchOrOne) {
  AttentionOp op = attention("causal query_offset(%p : tensor<?xi64>)",
                             ", %p: tensor<?xi64>");
  Array q({2, 1, 1, 1}), k({2, 1, 2, 1}),
      v = arrayOf({2, 1, 2, 1}, {1, 10, 100, 1000});
  OracleResult each = evaluate(op, {q, k, v, arrayOf({2}, {0, 1})});
  EXPECT_NEAR(each.output.data[0], 1, 1e-12);
  EXPECT_NEAR(each.output.data[1], 550, 1e-12);
  EXPECT_EQ(errorOf(op, {q, k, v, Array({1})}),
            "attn.attention expects query_offset of 2, got 1");
  AttentionOp shared = attention("causal query_offset(%p : tensor<1xi64>)",
                                 ", %p: tensor<1xi64>");
  OracleResult one = evaluate(shared, {q, k, v, arrayOf({1}, {1})});
  EXPECT_NEAR(one.output.data[0], 5.5, 1e-12);
}

TEST_F(OracleTest, C7BiasBroadcasts) {
  Rows r = rows(2, {1, 1}, {0, 1});
  AttentionOp op =
      attention("bias(%x : tensor<1x?xf32>)", ", %x: tensor<1x?xf32>");
  Array perKey = arrayOf({1, 2}, {0, std::log(3.0)});
  OracleResult result = evaluate(op, {r.query, r.key, r.value, perKey});
  EXPECT_NEAR(result.output.data[0], 0.75, 1e-12);
  EXPECT_NEAR(result.output.data[1], 0.75, 1e-12);
  op = attention("bias(%x : tensor<?x1xf32>)", ", %x: tensor<?x1xf32>");
  Array perQuery = arrayOf({2, 1}, {0, std::log(3.0)});
  result = evaluate(op, {r.query, r.key, r.value, perQuery});
  EXPECT_NEAR(result.output.data[1], 0.5, 1e-12);
  EXPECT_NEAR(result.lse.data[1], std::log(6.0), 1e-12);
  EXPECT_EQ(errorOf(op, {r.query, r.key, r.value, Array({3, 1})}),
            "attn.attention expects the bias to broadcast to 1x1x2x2, got 3x1");
  // What broadcasts is said by the type, not by the array.
  EXPECT_EQ(errorOf(op, {r.query, r.key, r.value, Array({1, 1})}),
            "attn.attention expects the bias to broadcast to 1x1x2x2, got 1x1; "
            "a size that broadcasts must be 1 in the type");
}

TEST_F(OracleTest, C7LowestFiniteBiasIsANumber) {
  // The only key has the lowest finite bias: it still gets all the weight.
  Rows r = rows(1, {1}, {7});
  AttentionOp op = attention("bias(%x : tensor<?xf32>)", ", %x: tensor<?xf32>");
  double lowest = std::numeric_limits<float>::lowest();
  OracleResult result =
      evaluate(op, {r.query, r.key, r.value, arrayOf({1}, {lowest})});
  EXPECT_EQ(result.output.data[0], 7);
}

TEST_F(OracleTest, C7MaskHides) {
  Rows r = rows(2, {1, 1, 1}, {1, 10, 100});
  AttentionOp op = attention("causal mask(%x : tensor<?x?x1x?xi1>)",
                             ", %x: tensor<?x?x1x?xi1>");
  // Combined by and: the mask hides key 0, causality keys 1 and 2 of row 0.
  OracleResult result =
      evaluate(op, {r.query, r.key, r.value, arrayOf({1, 1, 1, 3}, {0, 1, 1})});
  EXPECT_EQ(result.output.data[0], 0);
  EXPECT_EQ(result.lse.data[0], -kInfinity);
  EXPECT_NEAR(result.output.data[1], 10, 1e-12);
}

TEST_F(OracleTest, C8LengthsAreCounts) {
  AttentionOp op =
      attention("kv_lengths(%x : tensor<?xi32>)", ", %x: tensor<?xi32>");
  Rows r = rows(1, {1, 1, 1}, {1, 10, 100});
  auto resultAt = [&](double length) {
    return evaluate(op, {r.query, r.key, r.value, arrayOf({1}, {length})});
  };
  EXPECT_NEAR(resultAt(2).output.data[0], 5.5, 1e-12);
  EXPECT_NEAR(resultAt(9).output.data[0], 37, 1e-12);
  EXPECT_EQ(resultAt(0).output.data[0], 0);
  EXPECT_EQ(resultAt(-1).lse.data[0], -kInfinity);
}

TEST_F(OracleTest, C9Segments) {
  AttentionOp op =
      attention("segments(%x, %y : tensor<?x?xi32>, tensor<?x?xi32>)",
                ", %x: tensor<?x?xi32>, %y: tensor<?x?xi32>");
  Rows r = rows(3, {1, 1, 1}, {1, 10, 100});
  OracleResult result =
      evaluate(op, {r.query, r.key, r.value, arrayOf({1, 3}, {4, 5, 6}),
                    arrayOf({1, 3}, {4, 5, 4})});
  EXPECT_NEAR(result.output.data[0], 50.5, 1e-12);
  EXPECT_NEAR(result.output.data[1], 10, 1e-12);
  EXPECT_EQ(result.output.data[2], 0);
}

TEST_F(OracleTest, C10RowWithoutKeys) {
  // No key at all.
  OracleResult result =
      evaluate(attention(""), {Array({1, 1, 2, 3}, 1), Array({1, 1, 0, 3}),
                               Array({1, 1, 0, 2})});
  EXPECT_EQ(result.output.data, (std::vector<double>(4, 0.0)));
  EXPECT_EQ(result.lse.data, (std::vector<double>(2, -kInfinity)));
}

TEST_F(OracleTest, C10NoHeadDimension) {
  // D = 0: every score is zero, whatever 1/sqrt(0) is.
  OracleResult result =
      evaluate(attention(""), {Array({1, 1, 1, 0}), Array({1, 1, 2, 0}),
                               arrayOf({1, 1, 2, 1}, {1, 3})});
  EXPECT_NEAR(result.output.data[0], 2, 1e-12);
}

TEST_F(OracleTest, C10HiddenNaNIsNeverSeen) {
  Rows r = rows(2, {1, 1, 1}, {1, 10, nan()});
  r.key.data[2] = nan();
  AttentionOp op = attention("causal");
  OracleResult result = evaluate(op, {r.query, r.key, r.value});
  EXPECT_EQ(result.output.data[0], 1);
  EXPECT_NEAR(result.output.data[1], 5.5, 1e-12);
  // One that is visible is seen.
  r.key.data[2] = 0;
  r.key.data[1] = nan();
  result = evaluate(op, {r.query, r.key, r.value});
  EXPECT_EQ(result.output.data[0], 1);
  EXPECT_TRUE(std::isnan(result.output.data[1]));
  EXPECT_TRUE(std::isnan(result.lse.data[1]));
}

TEST_F(OracleTest, C11Sinks) {
  AttentionOp op = attention("scale(1.0) causal sinks(%x : tensor<?xf32>) "
                             "query_offset(%p : tensor<?xi32>)",
                             ", %x: tensor<?xf32>, %p: tensor<?xi32>");
  // Weights 1 and 3 and a sink of weight 4: 17.5 halved.
  Rows r = rows(2, {1, 3}, {10, 20});
  auto resultAt = [&](double sink) {
    return evaluate(
        op, {r.query, r.key, r.value, arrayOf({1}, {sink}), arrayOf({1}, {0})});
  };
  OracleResult result = resultAt(std::log(4.0));
  EXPECT_NEAR(result.output.data[1], 8.75, 1e-12);
  EXPECT_NEAR(result.lse.data[1], std::log(8.0), 1e-12);
  // A sink of -inf is none.
  EXPECT_NEAR(resultAt(-kInfinity).output.data[1], 17.5, 1e-12);
}

TEST_F(OracleTest, C11SinkWithoutKeys) {
  AttentionOp op =
      attention("sinks(%x : tensor<?xf32>)", ", %x: tensor<?xf32>");
  OracleResult result =
      evaluate(op, {Array({1, 2, 1, 1}), Array({1, 1, 0, 1}),
                    Array({1, 1, 0, 1}), arrayOf({2}, {0.5, -kInfinity})});
  EXPECT_EQ(result.output.data, (std::vector<double>{0, 0}));
  EXPECT_NEAR(result.lse.data[0], 0.5, 1e-12);
  EXPECT_EQ(result.lse.data[1], -kInfinity);
}

TEST_F(OracleTest, C13MemRefForm) {
  AttentionOp op = parseAttention(R"(
    func.func @f(%q: memref<1x1x1x1xf32>, %k: memref<1x1x?x1xf32>,
                 %v: memref<1x1x?x1xf32>, %o: memref<1x1x1x1xf32>) {
      attn.attention %q, %k, %v scale(1.0) outs(%o : memref<1x1x1x1xf32>)
        : memref<1x1x1x1xf32>, memref<1x1x?x1xf32>, memref<1x1x?x1xf32>
      return
    })");
  Rows r = rows(1, {1, 3}, {10, 20});
  OracleResult result = evaluate(op, {r.query, r.key, r.value});
  EXPECT_NEAR(result.output.data[0], 17.5, 1e-12);
  // Destinations may be passed; what is in them does not matter.
  result = evaluate(op, {r.query, r.key, r.value, Array({1, 1, 1, 1}, nan())});
  EXPECT_NEAR(result.output.data[0], 17.5, 1e-12);
}

} // namespace
