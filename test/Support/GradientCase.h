//===- GradientCase.h - A backward problem and what to expect ---*- C++ -*-===//
//
// A random attention problem with its forward results, an output gradient, and
// requests for gradients; what the oracle says, and the bounds of the errors.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_GRADIENTCASE_H
#define ATTN_TEST_SUPPORT_GRADIENTCASE_H

#include "CheckedCase.h"

namespace attn {

struct GradientCase {
  /// With NaN where nobody looks, never where somebody does: C20.
  AttentionCase problem;
  /// Output, lse, output gradient and, if there is one, lse gradient.
  std::vector<CaseOperand> forward;
  /// Requests, and one destination a gradient.
  bool wantsBias = false, wantsSinks = false;
  llvm::SmallVector<int64_t> wantedCaptures;
  std::vector<CaseOperand> outs;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  static llvm::Expected<GradientCase> create(AttentionCase problem,
                                             mlir::MLIRContext &context,
                                             std::mt19937_64 &random);

  /// The module; `@g` takes operands, captures, what is of the forward, and
  /// destinations in order.
  std::string text() const;
  /// Says in one line what is wrong with the gradients, or nothing.
  std::string compare(llvm::ArrayRef<Array> gradients) const;

  /// What `compare` compares with, for those who compare elsewhere.
  llvm::ArrayRef<GradientResult> expectedGradients() const { return expected; }
  llvm::ArrayRef<double> errorBounds() const { return bounds; }

private:
  void drawForward(const OracleResult &result, std::mt19937_64 &random);
  void drawRequests(std::mt19937_64 &random);

  llvm::SmallVector<GradientResult> expected;
  llvm::SmallVector<double> bounds;
};

} // namespace attn

#endif // ATTN_TEST_SUPPORT_GRADIENTCASE_H
