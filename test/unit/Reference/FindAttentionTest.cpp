//===- FindAttentionTest.cpp - The one attention op of a function ---------===//

#include "AttentionFixture.h"

using namespace attn;
using namespace mlir;

namespace {

class FindAttentionTest : public AttentionFixture {
protected:
  std::string findError(llvm::StringRef text) {
    llvm::Expected<AttentionInFunction> found =
        findAttention(parseFunction(text));
    return found ? "found" : llvm::toString(found.takeError());
  }
};

TEST_F(FindAttentionTest, MapsArgumentsConstantsAndResults) {
  // Arguments in another order, a constant operand, results swapped.
  func::FuncOp function = parseFunction(R"(
    func.func @f(%v: tensor<1x1x2x1xf32>, %k: tensor<1x1x2x1xf32>,
                 %q: tensor<1x1x1x1xf32>)
        -> (tensor<1x1x1xf32>, tensor<1x1x1x1xf32>) {
      %lengths = arith.constant dense<[1]> : tensor<1xi32>
      %open = tensor.cast %k : tensor<1x1x2x1xf32> to tensor<1x1x?x1xf32>
      %e = tensor.empty() : tensor<1x1x1x1xf32>
      %e1 = tensor.empty() : tensor<1x1x1xf32>
      %o, %l = attn.attention %q, %open, %v kv_lengths(%lengths : tensor<1xi32>)
        outs(%e, %e1 : tensor<1x1x1x1xf32>, tensor<1x1x1xf32>)
        : tensor<1x1x1x1xf32>, tensor<1x1x?x1xf32>, tensor<1x1x2x1xf32>
        -> tensor<1x1x1x1xf32>, tensor<1x1x1xf32>
      return %l, %o : tensor<1x1x1xf32>, tensor<1x1x1x1xf32>
    })");
  llvm::Expected<AttentionInFunction> found = findAttention(function);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->operands[0].argument, 2u);
  EXPECT_EQ(found->operands[1].argument, 1u);
  EXPECT_EQ(found->operands[2].argument, 0u);
  ASSERT_TRUE(found->operands[3].constant.has_value());
  EXPECT_EQ(found->operands[3].constant->data, std::vector<double>{1});
  EXPECT_EQ(found->results, (llvm::SmallVector<unsigned>{1, 0}));

  llvm::Expected<llvm::SmallVector<Array>> bound =
      found->bind({arrayOf({1, 1, 2, 1}, {5, 6}), Array({1, 1, 2, 1}),
                   Array({1, 1, 1, 1})});
  ASSERT_TRUE(bool(bound));
  EXPECT_EQ(evaluate(found->op, *bound).output.data, std::vector<double>{5});
}

TEST_F(FindAttentionTest, SaysWhatIsMissing) {
  EXPECT_EQ(findError("func.func @f() { return }"), "no attn.attention in @f");
  EXPECT_EQ(findError("func.func private @g()"), "@g has no body");
  EXPECT_EQ(findError(R"(
    func.func @f(%q: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
      %a = attn.attention %q, %q, %q
        : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
        -> tensor<1x1x1x1xf32>
      %b = attn.attention %q, %q, %a
        : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
        -> tensor<1x1x1x1xf32>
      return %b : tensor<1x1x1x1xf32>
    })"),
            "more than one attn.attention in @f; expected one");
  EXPECT_EQ(findError(R"(
    func.func @f(%q: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
      %n = arith.negf %q : tensor<1x1x1x1xf32>
      %a = attn.attention %q, %n, %q
        : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
        -> tensor<1x1x1x1xf32>
      return %a : tensor<1x1x1x1xf32>
    })"),
            "operand #1 of attn.attention in @f is computed; expected a "
            "function argument or a constant");
  EXPECT_EQ(findError(R"(
    func.func @f(%q: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
      %a = attn.attention %q, %q, %q
        : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>
        -> tensor<1x1x1x1xf32>
      return %q : tensor<1x1x1x1xf32>
    })"),
            "result #0 of @f is not a result of its attn.attention");
}

} // namespace
