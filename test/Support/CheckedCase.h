//===- CheckedCase.h - A problem and what to expect of it -------*- C++ -*-===//
//
// A random problem as it is given to a kernel, with NaN and infinity wherever
// the op promises not to look, and the oracle's answer with the bound of the
// error.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_CHECKEDCASE_H
#define ATTN_TEST_SUPPORT_CHECKEDCASE_H

#include "RandomAttention.h"
#include "attn/Reference/Oracle.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attn {

struct CheckedCase {
  AttentionCase problem;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  /// Poisons `problem` and evaluates it. `mostWork` bounds the multiply-adds
  /// of the oracle; beyond, rows are drawn from all. `poisonsVisible`: now and
  /// then what some rows see is poison too.
  static llvm::Expected<CheckedCase> create(AttentionCase problem,
                                            mlir::MLIRContext &context,
                                            std::mt19937_64 &random,
                                            int64_t mostWork = 200'000'000,
                                            bool poisonsVisible = true);

  /// Says in one line what is wrong with the results, or nothing. `lse` is
  /// read when the problem has one. `slack` multiplies the bounds. With
  /// ATTN_TEST_FIGURES, appends a line of the errors to that file.
  std::string compare(const Array &output, const Array &lse,
                      double slack = 1) const;

  /// What `compare` compares with, for those who compare elsewhere.
  const OracleResult &expectedResult() const { return expected; }
  double outputBound() const { return bound; }
  double logSumExpBound() const { return lseBound; }
  /// [B, Hq, Sq]: the rows that are compared; the oracle left out the others.
  llvm::ArrayRef<char> comparedMask() const { return isCompared; }

private:
  llvm::Error findVisible(mlir::MLIRContext &context, int64_t mostWork);
  void poison(std::mt19937_64 &random, bool poisonsVisible);
  void drawRows(std::mt19937_64 &random, int64_t mostWork);
  /// With the rows of an output or lse that are not compared set to 0.
  Array comparedRows(Array whole, bool isLse) const;

  /// [B, Hq, Sq, groups of keys], nonzero where the query sees one.
  Array visible;
  int64_t groupSize = 1;
  /// [B, Hq, Sq]
  std::vector<char> isCompared;
  OracleResult expected;
  /// The errors of the straightforward implementation, and a kernel's bounds.
  double usual = 0, usualLse = 0, bound = 0, lseBound = 0;
  /// Over how many rows the norm of the output is spread, and of the lse.
  int64_t rows = 0, lseRows = 0;
};

/// ATTN_TEST_SEED, or a fresh one.
uint64_t firstSeed();
/// ATTN_TEST_COUNT, or `usual`.
int64_t problemCount(int64_t usual);

} // namespace attn

#endif // ATTN_TEST_SUPPORT_CHECKEDCASE_H
