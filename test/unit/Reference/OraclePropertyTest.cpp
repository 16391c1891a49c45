//===- OraclePropertyTest.cpp - What holds for any attention --------------===//

#include "AttentionFixture.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace attn;
using namespace mlir;

namespace {

constexpr int64_t kBatch = 2, kHeads = 6, kKvHeads = 2, kQueries = 7,
                  kKeys = 11, kDepth = 5, kWidth = 3;

class OraclePropertyTest : public AttentionFixture {
protected:
  AttentionOp attention(llvm::StringRef clauses) {
    return parseAttention(
        "func.func @f(%q: tensor<?x?x?x?xf32>, %k: tensor<?x?x?x?xf32>, "
        "%v: tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32> {\n"
        "  %o = attn.attention %q, %k, %v " +
        clauses.str() +
        " : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>"
        " -> tensor<?x?x?x?xf32>\n"
        "  return %o : tensor<?x?x?x?xf32>\n}");
  }
  Array query = randomArray({kBatch, kHeads, kQueries, kDepth});
  Array key = randomArray({kBatch, kKvHeads, kKeys, kDepth});
  Array value = randomArray({kBatch, kKvHeads, kKeys, kWidth});

  /// [B, H, S, D] with the keys in another order, or a range of them.
  static Array takeKeys(const Array &array, llvm::ArrayRef<int64_t> which) {
    Array taken({array.shape[0], array.shape[1],
                 static_cast<int64_t>(which.size()), array.shape[3]});
    for (int64_t b = 0; b < taken.shape[0]; ++b)
      for (int64_t h = 0; h < taken.shape[1]; ++h)
        for (auto [j, from] : llvm::enumerate(which))
          for (int64_t d = 0; d < taken.shape[3]; ++d)
            taken.at({b, h, static_cast<int64_t>(j), d}) =
                array.at({b, h, from, d});
    return taken;
  }
  static Array swapHeadsAndSequence(const Array &array) {
    Array swapped(
        {array.shape[0], array.shape[2], array.shape[1], array.shape[3]});
    for (int64_t b = 0; b < array.shape[0]; ++b)
      for (int64_t h = 0; h < array.shape[1]; ++h)
        for (int64_t s = 0; s < array.shape[2]; ++s)
          for (int64_t d = 0; d < array.shape[3]; ++d)
            swapped.at({b, s, h, d}) = array.at({b, h, s, d});
    return swapped;
  }
};

TEST_F(OraclePropertyTest, ProbabilitiesSumToOne) {
  Array ones(value.shape, 1.0);
  OracleResult result = evaluate(attention("causal"), {query, key, ones});
  for (double element : result.output.data)
    EXPECT_NEAR(element, 1, 1e-12);
}

TEST_F(OraclePropertyTest, OrderOfKeysDoesNotMatter) {
  llvm::SmallVector<int64_t> order(kKeys);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  OracleResult a = evaluate(attention(""), {query, key, value});
  OracleResult b = evaluate(
      attention(""), {query, takeKeys(key, order), takeKeys(value, order)});
  EXPECT_LT(relativeError(a.output, b.output), 1e-13);
  EXPECT_LT(relativeError(a.lse, b.lse), 1e-13);
}

TEST_F(OraclePropertyTest, GroupsAreRepeatedHeads) {
  auto repeated = [](const Array &array) {
    Array all({kBatch, kHeads, array.shape[2], array.shape[3]});
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t s = 0; s < array.shape[2]; ++s)
          for (int64_t d = 0; d < array.shape[3]; ++d)
            all.at({b, h, s, d}) = array.at({b, h / (kHeads / kKvHeads), s, d});
    return all;
  };
  OracleResult a = evaluate(attention("causal"), {query, key, value});
  OracleResult b =
      evaluate(attention("causal"), {query, repeated(key), repeated(value)});
  EXPECT_EQ(a.output.data, b.output.data);
  EXPECT_EQ(a.lse.data, b.lse.data);
}

TEST_F(OraclePropertyTest, LseIsTheLogOfTheSum) {
  OracleResult result = evaluate(attention("scale(0.3)"), {query, key, value});
  for (int64_t h = 0; h < kHeads; ++h) {
    double sum = 0;
    for (int64_t j = 0; j < kKeys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < kDepth; ++d)
        score += query.at({1, h, 4, d}) * key.at({1, h / 3, j, d});
      sum += std::exp(0.3 * score);
    }
    EXPECT_NEAR(result.lse.at({1, h, 4}), std::log(sum), 1e-12);
  }
}

TEST_F(OraclePropertyTest, SplitOverKeysMergesByLse) {
  llvm::SmallVector<int64_t> all(kKeys);
  std::iota(all.begin(), all.end(), 0);
  auto part = [&](llvm::ArrayRef<int64_t> which) {
    return evaluate(attention(""),
                    {query, takeKeys(key, which), takeKeys(value, which)});
  };
  llvm::ArrayRef<int64_t> keys(all);
  OracleResult left = part(keys.take_front(4)),
               right = part(keys.drop_front(4)), whole = part(keys);
  Array merged(whole.output.shape), lse(whole.lse.shape);
  for (int64_t row = 0; row < lse.size(); ++row) {
    lse.data[row] =
        std::log(std::exp(left.lse.data[row]) + std::exp(right.lse.data[row]));
    for (int64_t d = 0; d < kWidth; ++d)
      merged.data[row * kWidth + d] =
          std::exp(left.lse.data[row] - lse.data[row]) *
              left.output.data[row * kWidth + d] +
          std::exp(right.lse.data[row] - lse.data[row]) *
              right.output.data[row * kWidth + d];
  }
  EXPECT_LT(relativeError(merged, whole.output), 1e-13);
  EXPECT_LT(relativeError(lse, whole.lse), 1e-13);
}

TEST_F(OraclePropertyTest, LayoutsOnlyMoveElements) {
  OracleResult a = evaluate(attention("causal"), {query, key, value});
  OracleResult b =
      evaluate(attention("causal layout(bshd)"),
               {swapHeadsAndSequence(query), swapHeadsAndSequence(key),
                swapHeadsAndSequence(value)});
  EXPECT_EQ(b.output.data, swapHeadsAndSequence(a.output).data);
  EXPECT_EQ(b.lse.data, a.lse.data);
  // Each operand may have its own.
  OracleResult c = evaluate(attention("causal layout(key = bshd)"),
                            {query, swapHeadsAndSequence(key), value});
  EXPECT_EQ(c.output.data, a.output.data);
}

TEST_F(OraclePropertyTest, StraightforwardIsNearAndNotEqual) {
  AttentionOp op = attention("");
  roundToType(query, mlir::Float32Type::get(&context));
  roundToType(key, mlir::Float32Type::get(&context));
  roundToType(value, mlir::Float32Type::get(&context));
  OracleResult exact = evaluate(op, {query, key, value});
  llvm::Expected<OracleResult> single =
      evaluateStraightforward(op, {query, key, value});
  ASSERT_TRUE(bool(single));
  double error = relativeError(single->output, exact.output);
  EXPECT_GT(error, 1e-9);
  EXPECT_LT(error, 1e-6);
  // Of 60 rows' errors, a share is left to luck; of one row's, all.
  double bound = errorBound(op, single->output, exact.output);
  EXPECT_GE(bound, 1.5 * error);
  EXPECT_LT(bound, 1.5 * 1.5 * error + 4e-7);
  auto firstRow = [](const Array &array) {
    Array row({1, array.shape.back()});
    std::copy_n(array.data.begin(), row.data.size(), row.data.begin());
    return row;
  };
  Array got = firstRow(single->output), expected = firstRow(exact.output);
  EXPECT_GE(errorBound(op, got, expected), 3 * relativeError(got, expected));
}

TEST_F(OraclePropertyTest, AnLseNearZeroIsMeasuredAgainstOne) {
  Array expected({4}), got({4});
  expected.data = {1e-9, 1, -std::numeric_limits<double>::infinity(), 3};
  got.data = expected.data;
  EXPECT_EQ(lseError(got, expected), 0);
  got.data[0] += 1e-7;
  EXPECT_NEAR(lseError(got, expected), 1e-7 / std::sqrt(11.0), 1e-12);
  got.data[2] = -1e30;
  EXPECT_EQ(lseError(got, expected), std::numeric_limits<double>::infinity());
}

TEST_F(OraclePropertyTest, DoubleHasSomethingToCompareWith) {
  AttentionOp op = parseAttention(R"(
    func.func @f(%q: tensor<?x?x?x?xf64>) -> tensor<?x?x?x?xf64> {
      %o = attn.attention %q, %q, %q
        : tensor<?x?x?x?xf64>, tensor<?x?x?x?xf64>, tensor<?x?x?x?xf64>
        -> tensor<?x?x?x?xf64>
      return %o : tensor<?x?x?x?xf64>
    })");
  Array x = randomArray({1, 2, 30, 20});
  OracleResult exact = evaluate(op, {x, x, x});
  llvm::Expected<OracleResult> straight =
      evaluateStraightforward(op, {x, x, x});
  ASSERT_TRUE(bool(straight));
  double error = relativeError(straight->output, exact.output);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1e-14);
}

} // namespace
