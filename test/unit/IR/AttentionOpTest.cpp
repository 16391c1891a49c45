//===- AttentionOpTest.cpp - What the op tells its users ------------------===//

#include "attn/IR/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace attn;

namespace {

class AttentionOpTest : public ::testing::Test {
protected:
  AttentionOpTest() {
    context.loadDialect<AttnDialect, func::FuncDialect, tensor::TensorDialect,
                        memref::MemRefDialect>();
  }

  /// Parses a function around `body` and returns its attention op.
  AttentionOp parse(const std::string &arguments, const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}", &context);
    AttentionOp found;
    if (module)
      module->walk([&](AttentionOp op) { found = op; });
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

constexpr int64_t kDynamic = ShapedType::kDynamic;

TEST_F(AttentionOpTest, ShapeMergesWhatEachOperandKnows) {
  AttentionOp op = parse(
      "%q: tensor<?x8x?x?xf32>, %k: tensor<2x2x?x64xf32>, "
      "%v: tensor<?x?x48x?xf32>",
      "%o = attn.attention %q, %k, %v : tensor<?x8x?x?xf32>, "
      "tensor<2x2x?x64xf32>, tensor<?x?x48x?xf32> -> tensor<?x?x?x32xf32>");
  ASSERT_TRUE(op);
  AttentionShape shape = op.getShape();
  EXPECT_EQ(shape.batch, 2);
  EXPECT_EQ(shape.queryHeads, 8);
  EXPECT_EQ(shape.kvHeads, 2);
  EXPECT_EQ(shape.queryLength, kDynamic);
  EXPECT_EQ(shape.kvLength, 48);
  EXPECT_EQ(shape.headDim, 64);
  EXPECT_EQ(shape.valueDim, 32);
  EXPECT_DOUBLE_EQ(*op.getScaleValue(), 0.125);
}

TEST_F(AttentionOpTest, EachOperandHasItsOwnLayout) {
  AttentionOp op = parse(
      "%q: tensor<1x5x8x4xf32>, %k: tensor<1x2x7x4xf32>, "
      "%v: tensor<1x7x2x3xf32>",
      "%o = attn.attention %q, %k, %v layout(query = bshd, value = bshd) : "
      "tensor<1x5x8x4xf32>, tensor<1x2x7x4xf32>, tensor<1x7x2x3xf32> -> "
      "tensor<1x8x5x3xf32>");
  ASSERT_TRUE(op);
  AttentionShape shape = op.getShape();
  EXPECT_EQ(shape.queryHeads, 8);
  EXPECT_EQ(shape.queryLength, 5);
  EXPECT_EQ(shape.kvHeads, 2);
  EXPECT_EQ(shape.kvLength, 7);
}

TEST_F(AttentionOpTest, CausalBoundsTheBandOnTheRight) {
  std::string types = " : tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, "
                      "tensor<1x1x4x2xf32> -> tensor<1x1x4x2xf32>";
  std::string arguments = "%q: tensor<1x1x4x2xf32>";
  AttentionOp op = parse(arguments, "%o = attn.attention %q, %q, %q causal "
                                    "window(2, 3)" +
                                        types);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getBandLeft(), std::optional<int64_t>(2));
  EXPECT_EQ(op.getBandRight(), std::optional<int64_t>(0));
  op = parse(arguments, "%o = attn.attention %q, %q, %q" + types);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getBandLeft(), std::nullopt);
  EXPECT_EQ(op.getBandRight(), std::nullopt);
}

TEST_F(AttentionOpTest, TensorFormIsPureMemRefFormWritesItsDestinations) {
  AttentionOp op = parse("%q: tensor<1x1x4x2xf32>",
                         "%o = attn.attention %q, %q, %q : "
                         "tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, "
                         "tensor<1x1x4x2xf32> -> tensor<1x1x4x2xf32>");
  ASSERT_TRUE(op);
  EXPECT_TRUE(isMemoryEffectFree(op));

  op = parse("%q: memref<1x1x4x2xf32>, %o: memref<1x1x4x2xf32>, "
             "%l: memref<1x1x4xf32>",
             "attn.attention %q, %q, %q outs(%o, %l : memref<1x1x4x2xf32>, "
             "memref<1x1x4xf32>) : memref<1x1x4x2xf32>, "
             "memref<1x1x4x2xf32>, memref<1x1x4x2xf32>");
  ASSERT_TRUE(op);
  EXPECT_TRUE(op.returnsLse());
  EXPECT_TRUE(hasEffect<MemoryEffects::Write>(op, op.getOuts()[0]));
  EXPECT_TRUE(hasEffect<MemoryEffects::Write>(op, op.getOuts()[1]));
  EXPECT_FALSE(hasEffect<MemoryEffects::Write>(op, op.getQuery()));
  EXPECT_TRUE(hasEffect<MemoryEffects::Read>(op, op.getQuery()));
}

TEST_F(AttentionOpTest, ResultShapesFollowFromTheOperands) {
  AttentionOp op =
      parse("%q: tensor<?x?x8x4xf16>, %k: tensor<?x2x?x4xf16>, "
            "%v: tensor<?x2x?x6xf16>",
            "%o, %l = attn.attention %q, %k, %v layout(query = bshd) : "
            "tensor<?x?x8x4xf16>, tensor<?x2x?x4xf16>, tensor<?x2x?x6xf16> -> "
            "tensor<?x8x?x?xf16>, tensor<?x8x?xf32>");
  ASSERT_TRUE(op);
  OpBuilder builder(op);
  ReifiedRankedShapedTypeDims sizes;
  ASSERT_TRUE(succeeded(op.reifyResultShapes(builder, sizes)));
  ASSERT_EQ(sizes.size(), 2u);
  ASSERT_EQ(sizes[0].size(), 4u);
  ASSERT_EQ(sizes[1].size(), 3u);
  EXPECT_EQ(getConstantIntValue(sizes[0][1]), std::optional<int64_t>(8));
  // The query's sequence is its dimension 1: a tensor.dim of the query.
  auto dim = sizes[0][2].dyn_cast<Value>().getDefiningOp<tensor::DimOp>();
  ASSERT_TRUE(dim);
  EXPECT_EQ(dim.getSource(), op.getQuery());
  EXPECT_EQ(dim.getConstantIndex(), std::optional<int64_t>(1));
  EXPECT_EQ(getConstantIntValue(sizes[0][3]), std::optional<int64_t>(6));
}

} // namespace
