//===- OracleRegionTest.cpp - score_mod, mask_mod and rounding (C3, C12) --===//

#include "AttentionFixture.h"

using namespace attn;
using namespace mlir;

namespace {

class OracleRegionTest : public AttentionFixture {
protected:
  /// One query of value 1 on two keys, scale 1; the clauses may capture %c.
  AttentionOp attention(llvm::StringRef clauses,
                        llvm::StringRef capture = "tensor<8xf32>") {
    std::string c = capture.str();
    return parseAttention(
        "func.func @f(%q: tensor<1x1x1x1xf32>, %k: tensor<1x1x2x1xf32>, "
        "%v: tensor<1x1x2x1xf32>, %c: " +
        c +
        ") -> tensor<1x1x1x1xf32> {\n"
        "  %o = attn.attention %q, %k, %v scale(1.0) captures(%c : " +
        c + ") " + clauses.str() +
        " : tensor<1x1x1x1xf32>, tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>"
        " -> tensor<1x1x1x1xf32>\n"
        "  return %o : tensor<1x1x1x1xf32>\n}");
  }
  llvm::SmallVector<Array> operands(Array capture) {
    return {Array({1, 1, 1, 1}, 1.0), arrayOf({1, 1, 2, 1}, {0, 1}),
            arrayOf({1, 1, 2, 1}, {0, 1}), std::move(capture)};
  }
  /// The output is the probability of key 1, and its logit the difference of
  /// the two modified scores.
  double scoreDifference(AttentionOp op, Array capture) {
    double p = evaluate(op, operands(std::move(capture))).output.data[0];
    return std::log(p / (1 - p));
  }
};

TEST_F(OracleRegionTest, ScoreModReadsCaptures) {
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %x = tensor.extract %t[%j] : tensor<8xf32>
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    })");
  EXPECT_NEAR(scoreDifference(op, arrayOf({8}, {0.5, 2, 0, 0, 0, 0, 0, 0})),
              2.5, 1e-12);
}

TEST_F(OracleRegionTest, MaskModHides) {
  AttentionOp op = attention(R"(
    mask_mod(%b, %h, %i, %j, %t) {
      %ok = arith.cmpi eq, %i, %j : index
      attn.yield %ok : i1
    })");
  EXPECT_EQ(evaluate(op, operands(Array({8}))).output.data[0], 0);
}

TEST_F(OracleRegionTest, MaskModReadsBooleans) {
  AttentionOp op = attention(R"(
    mask_mod(%b, %h, %i, %j, %t) {
      %ok = tensor.extract %t[%i, %j] : tensor<1x2xi1>
      attn.yield %ok : i1
    })",
                             "tensor<1x2xi1>");
  EXPECT_EQ(evaluate(op, operands(arrayOf({1, 2}, {0, 1}))).output.data[0], 1);
}

TEST_F(OracleRegionTest, RegionRunsForVisiblePairsOnly) {
  // Key 1 would be read out of range, and is hidden by the mask region.
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %x = tensor.extract %t[%j] : tensor<1xf32>
      attn.yield %x : f32
    } mask_mod(%b, %h, %i, %j, %t) {
      %zero = arith.constant 0 : index
      %ok = arith.cmpi sle, %j, %zero : index
      attn.yield %ok : i1
    })",
                             "tensor<1xf32>");
  EXPECT_EQ(evaluate(op, operands(Array({1}))).output.data[0], 0);
}

TEST_F(OracleRegionTest, RangeErrorSaysWhere) {
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %nine = arith.constant 8 : index
      %p = arith.addi %j, %nine : index
      %x = tensor.extract %t[%h, %p] : tensor<1x9xf32>
      attn.yield %x : f32
    })",
                             "tensor<1x9xf32>");
  EXPECT_EQ(errorOf(op, operands(Array({1, 9}))),
            "score_mod reads captures #0 at [0, 9], size 1x9: batch 0, head 0, "
            "query 0, key 1");
}

TEST_F(OracleRegionTest, DivisionByZeroSaysWhere) {
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %one = arith.constant 1 : index
      %d = arith.divui %one, %j : index
      attn.yield %s : f32
    })");
  EXPECT_EQ(errorOf(op, operands(Array({8}))),
            "score_mod divides by zero in arith.divui: batch 0, head 0, query "
            "0, key 0");
}

TEST_F(OracleRegionTest, UnknownOpIsNamed) {
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %a, %o = arith.addui_extended %i, %j : index, i1
      attn.yield %s : f32
    })");
  EXPECT_EQ(errorOf(op, operands(Array({8}))),
            "the reference does not know arith.addui_extended (in score_mod)");
}

TEST_F(OracleRegionTest, ArithmeticIsExactUntilTruncated) {
  // 1/3 in f32 would be off by 1e-8.
  AttentionOp exact = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %three = arith.constant 3.0 : f32
      %r = arith.divf %s, %three : f32
      attn.yield %r : f32
    })");
  EXPECT_NEAR(scoreDifference(exact, Array({8})), 1.0 / 3, 1e-14);
  AttentionOp truncated = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %three = arith.constant 3.0 : f32
      %r = arith.divf %s, %three : f32
      %low = arith.truncf %r : f32 to bf16
      %high = arith.extf %low : bf16 to f32
      attn.yield %high : f32
    })");
  EXPECT_NEAR(scoreDifference(truncated, Array({8})), 0.333984375, 1e-14);
}

TEST_F(OracleRegionTest, IntegersWrapAndCompare) {
  // i8: 127 + j is -128 at j = 1; as unsigned it is 128.
  AttentionOp op = attention(R"(
    score_mod(%s, %b, %h, %i, %j, %t) {
      %max = arith.constant 127 : i8
      %j8 = arith.index_cast %j : index to i8
      %sum = arith.addi %max, %j8 : i8
      %f = arith.sitofp %sum : i8 to f32
      %u = arith.uitofp %sum : i8 to f32
      %isNegative = arith.cmpi slt, %sum, %max : i8
      %picked = arith.select %isNegative, %u, %f : f32
      attn.yield %picked : f32
    })");
  EXPECT_NEAR(scoreDifference(op, Array({8})), 1, 1e-12);
}

TEST_F(OracleRegionTest, C3StraightforwardRounds) {
  // A value of 1 + 2^-12 is no bf16; the straightforward result is rounded.
  AttentionOp op = parseAttention(R"(
    func.func @f(%q: tensor<1x1x1x1xbf16>) -> tensor<1x1x1x1xbf16> {
      %o = attn.attention %q, %q, %q
        : tensor<1x1x1x1xbf16>, tensor<1x1x1x1xbf16>, tensor<1x1x1x1xbf16>
        -> tensor<1x1x1x1xbf16>
      return %o : tensor<1x1x1x1xbf16>
    })");
  Array x({1, 1, 1, 1}, 1 + std::ldexp(1, -12));
  llvm::Expected<OracleResult> rounded = evaluateStraightforward(op, {x, x, x});
  ASSERT_TRUE(bool(rounded));
  EXPECT_EQ(rounded->output.data[0], 1);
  EXPECT_EQ(evaluate(op, {x, x, x}).output.data[0], x.data[0]);
}

TEST(ArrayTest, RoundsToNearestEven) {
  MLIRContext context;
  mlir::Builder b(&context);
  EXPECT_EQ(roundToType(1 + 0x1p-8, b.getBF16Type()), 1);
  EXPECT_EQ(roundToType(1 + 0x1.8p-7, b.getBF16Type()), 1 + 0x1p-6);
  // Between 1 and the next bf16, by less than an f32 can tell: not twice.
  EXPECT_EQ(roundToType(1 + 0x1p-8 + 0x1p-40, b.getBF16Type()), 1 + 0x1p-7);
  EXPECT_EQ(roundToType(65519, b.getF16Type()), 65504);
  EXPECT_EQ(roundToType(65520, b.getF16Type()), kInfinity);
  EXPECT_EQ(roundToType(0x1p-25, b.getF16Type()), 0);
  EXPECT_EQ(roundToType(0x1.8p-25, b.getF16Type()), 0x1p-24);
  EXPECT_EQ(roundToType(448, b.getType<Float8E4M3FNType>()), 448);
  EXPECT_EQ(roundToType(200, b.getI8Type()), -56);
}

TEST(ArrayTest, EncodesAndDecodes) {
  MLIRContext context;
  mlir::Builder b(&context);
  Array array = arrayOf({5}, {1, -2.5, 0, kInfinity, 0.099975586});
  for (Type type : {Type(b.getF16Type()), Type(b.getBF16Type()),
                    Type(b.getF32Type()), Type(b.getF64Type())}) {
    Array rounded = array, back({5});
    roundToType(rounded, type);
    std::vector<char> bytes(5 * elementBytes(type));
    encode(array, type, bytes.data());
    decode(bytes.data(), type, back);
    EXPECT_EQ(back.data, rounded.data);
  }
  Array integers = arrayOf({3}, {-1, 0, 1}), back({3});
  std::vector<char> bytes(3 * 8);
  encode(integers, b.getI64Type(), bytes.data());
  decode(bytes.data(), b.getI64Type(), back);
  EXPECT_EQ(back.data, integers.data);
  Array booleans = arrayOf({3}, {1, 0, 1});
  encode(booleans, b.getI1Type(), bytes.data());
  EXPECT_EQ(bytes[0], 1);
  decode(bytes.data(), b.getI1Type(), back);
  EXPECT_EQ(back.data, booleans.data);
}

TEST(ArrayTest, RelativeErrorOfNonFinite) {
  Array a = arrayOf({3}, {3, 4, nan()}), b = arrayOf({3}, {3, 4, nan()});
  EXPECT_EQ(relativeError(a, b), 0);
  b.data = {3, 5, nan()};
  EXPECT_NEAR(relativeError(b, a), 0.2, 1e-15);
  b.data = {3, 4, 0};
  EXPECT_EQ(relativeError(b, a), kInfinity);
  EXPECT_EQ(relativeError(a, b), kInfinity);
  a.data = {0, 0, -kInfinity};
  b.data = {0, 0, kInfinity};
  EXPECT_EQ(relativeError(a, b), kInfinity);
}

} // namespace
