//===- AttentionFixture.h - Parse an attention op, make its arrays --------===//

#ifndef ATTN_TEST_UNIT_REFERENCE_ATTENTIONFIXTURE_H
#define ATTN_TEST_UNIT_REFERENCE_ATTENTIONFIXTURE_H

#include "attn/Reference/Oracle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <random>

namespace attn {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline double nan() { return std::numeric_limits<double>::quiet_NaN(); }

class AttentionFixture : public ::testing::Test {
protected:
  AttentionFixture() {
    context.loadDialect<AttnDialect, mlir::func::FuncDialect,
                        mlir::arith::ArithDialect, mlir::math::MathDialect,
                        mlir::tensor::TensorDialect,
                        mlir::memref::MemRefDialect>();
  }

  /// The first function of a module; the module lives as long as the fixture.
  mlir::func::FuncOp parseFunction(llvm::StringRef text) {
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context));
    EXPECT_TRUE(modules.back()) << text.str();
    if (!modules.back())
      std::abort();
    return *modules.back()->getOps<mlir::func::FuncOp>().begin();
  }
  AttentionOp parseAttention(llvm::StringRef text) {
    AttentionOp found;
    parseFunction(text).walk([&](AttentionOp op) { found = op; });
    return found;
  }

  Array randomArray(llvm::ArrayRef<int64_t> shape) {
    Array array(shape);
    std::normal_distribution<double> normal;
    for (double &element : array.data)
      element = normal(random);
    return array;
  }

  /// Fails the test on an error and returns an empty result.
  OracleResult evaluate(AttentionOp op, llvm::ArrayRef<Array> operands) {
    llvm::Expected<OracleResult> result = evaluateAttention(op, operands);
    if (result)
      return std::move(*result);
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  std::string errorOf(AttentionOp op, llvm::ArrayRef<Array> operands) {
    llvm::Expected<OracleResult> result = evaluateAttention(op, operands);
    if (result)
      return "no error";
    return llvm::toString(result.takeError());
  }

  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  std::mt19937_64 random{std::random_device{}()};
};

/// An array written out.
inline Array arrayOf(llvm::ArrayRef<int64_t> shape,
                     llvm::ArrayRef<double> elements) {
  Array array(shape);
  EXPECT_EQ(array.data.size(), elements.size());
  array.data.assign(elements.begin(), elements.end());
  return array;
}

} // namespace attn

#endif // ATTN_TEST_UNIT_REFERENCE_ATTENTIONFIXTURE_H
