//===- SizeExpressionTest.cpp - Formulas over the sizes of a launch -------===//

#include "attn/Artifact/SizeExpression.h"
#include "gtest/gtest.h"
#include <algorithm>

using namespace attn;

namespace {

const SizeMap kSizes = {{"Sq", 130}, {"Skv", 7}, {"_x1", 3}};

int64_t valueOf(llvm::StringRef text) {
  llvm::Expected<int64_t> value = evaluateSize(text, kSizes);
  if (value)
    return *value;
  ADD_FAILURE() << llvm::toString(value.takeError());
  return -1;
}

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<int64_t> value = evaluateSize(text, kSizes);
  return value ? "no error" : llvm::toString(value.takeError());
}

TEST(SizeExpression, Arithmetic) {
  EXPECT_EQ(valueOf("42"), 42);
  EXPECT_EQ(valueOf(" 2 + 3 * Skv "), 23);
  EXPECT_EQ(valueOf("(2+3)*Skv"), 35);
  EXPECT_EQ(valueOf("10 - 2 - 3"), 5);
  EXPECT_EQ(valueOf("-Skv + -(2)"), -9);
  EXPECT_EQ(valueOf("Sq / 64"), 2);
  EXPECT_EQ(valueOf("Sq % 64"), 2);
  EXPECT_EQ(valueOf("ceildiv(Sq, 64) * _x1"), 9);
  EXPECT_EQ(valueOf("ceildiv(128, 64)"), 2);
  EXPECT_EQ(valueOf("min(Sq, Skv) + max(Sq, Skv)"), 137);
}

TEST(SizeExpression, ClampedSumCountsVisibleKeys) {
  for (int64_t n = 0; n < 9; ++n)
    for (int64_t first = -12; first < 12; ++first)
      for (int64_t limit = 0; limit < 9; ++limit) {
        int64_t expected = 0;
        for (int64_t i = 0; i < n; ++i)
          expected += std::clamp<int64_t>(first + i, 0, limit);
        SizeMap sizes = {{"n", n}, {"f", first}, {"l", limit}};
        llvm::Expected<int64_t> value =
            evaluateSize("clamped_sum(n, f, l)", sizes);
        ASSERT_TRUE(bool(value));
        ASSERT_EQ(*value, expected) << n << " " << first << " " << limit;
      }
}

TEST(SizeExpression, RefusesWhatItCannotCompute) {
  EXPECT_EQ(errorOf("B * 2"), "size expression 'B * 2': unknown size 'B'");
  EXPECT_EQ(errorOf(""), "size expression '': expected a number or a size");
  EXPECT_EQ(errorOf("2 3"), "size expression '2 3': unexpected '3'");
  EXPECT_EQ(errorOf("(2"), "size expression '(2': expected ')'");
  EXPECT_EQ(errorOf("min(2)"),
            "size expression 'min(2)': no function min of 1 arguments");
  EXPECT_EQ(errorOf("12ab"),
            "size expression '12ab': '12ab' is no 64-bit number");
  EXPECT_NE(errorOf("1 / (Skv - 7)").find("division needs"), std::string::npos);
  EXPECT_NE(errorOf("9223372036854775807 + 1").find("does not fit"),
            std::string::npos);
  EXPECT_NE(errorOf("clamped_sum(9223372036854775807, 0, 9223372036854775807)")
                .find("does not fit"),
            std::string::npos);
  EXPECT_NE(errorOf(std::string(100000, '(')).find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(errorOf(std::string(100000, '-')).find("nested too deeply"),
            std::string::npos);
}

} // namespace
