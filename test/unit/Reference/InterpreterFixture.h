//===- InterpreterFixture.h - Runs bodies of functions ----------*- C++ -*-===//

#ifndef ATTN_TEST_UNIT_REFERENCE_INTERPRETERFIXTURE_H
#define ATTN_TEST_UNIT_REFERENCE_INTERPRETERFIXTURE_H

#include "AttentionFixture.h"
#include "attn/Reference/TiledInterpreter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace attn {

class InterpreterTest : public AttentionFixture {
protected:
  InterpreterTest() {
    context.loadDialect<mlir::scf::SCFDialect, mlir::ub::UBDialect,
                        mlir::vector::VectorDialect>();
  }

  std::string run(llvm::StringRef text, std::vector<HostMemRef> &arguments,
                  const TiledRunOptions &options = {}) {
    llvm::Error error = runTiled(parseFunction(text), arguments, options);
    return error ? llvm::toString(std::move(error)) : "";
  }
  /// The body of a function that writes vectors or scalars to %out.
  std::vector<double> outputOf(llvm::StringRef body, int64_t size,
                               llvm::StringRef type = "f32") {
    std::vector<HostMemRef> arguments = {
        HostMemRef::contiguous(Array({size}, nan()))};
    std::string error =
        run("func.func @f(%out: memref<" + std::to_string(size) + "x" +
                type.str() + ">) {\n  %c0 = arith.constant 0 : index\n" +
                body.str() + "\n  return\n}",
            arguments);
    EXPECT_EQ(error, "");
    return arguments[0].elements;
  }
  std::string errorOf(llvm::StringRef body) {
    std::vector<HostMemRef> arguments = {HostMemRef::contiguous(Array({4, 8}))};
    return run("func.func @f(%m: memref<4x8xf32>) {\n" + body.str() +
                   "\n  return\n}",
               arguments);
  }
};

using Elements = std::vector<double>;

} // namespace attn

#endif // ATTN_TEST_UNIT_REFERENCE_INTERPRETERFIXTURE_H
