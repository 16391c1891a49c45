//===- RandomAttention.h - Attention problems at random ---------*- C++ -*-===//
//
// Everything the op can say is drawn: sizes that divide nothing, groups,
// layouts, strides, open sizes, masks, regions, element types.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_RANDOMATTENTION_H
#define ATTN_TEST_SUPPORT_RANDOMATTENTION_H

#include "AttentionCase.h"
#include <random>

namespace attn {

/// What is drawn from.
struct CaseRange {
  llvm::ArrayRef<int64_t> lengths, depths;
  /// Query heads for each key head.
  llvm::ArrayRef<int64_t> ratios;
  /// Multiply-adds of the products; batch and heads give way.
  int64_t mostWork = std::numeric_limits<int64_t>::max();
  /// Share of the problems that state block sizes and do not leave them to the
  /// planner.
  double statedTilings = 1;
  /// Masks that are not known from positions: segments, mask, mask_mod.
  bool hasElementMasks = true;
  bool hasNoKeys = true;
  /// Kinds of softmax that stated tilings name.
  llvm::ArrayRef<const char *> softmaxes = {};

  /// Small: for the interpreter.
  static CaseRange small();
};

class CaseGenerator {
public:
  explicit CaseGenerator(uint64_t seed, CaseRange range = CaseRange::small())
      : range(range), random(seed) {}
  AttentionCase next();

private:
  int64_t pick(llvm::ArrayRef<int64_t> from);
  int64_t between(int64_t low, int64_t high);
  bool chance(double probability);
  CaseOperand operand(llvm::StringRef name, llvm::StringRef element,
                      llvm::ArrayRef<int64_t> shape, bool canBeOpen = true);
  void fill(CaseOperand &operand, double low, double high);

  void drawSizes(AttentionCase &c);
  void drawOperands(AttentionCase &c);
  void drawMasks(AttentionCase &c);
  void drawScoring(AttentionCase &c);
  void drawRegions(AttentionCase &c);
  void addBroadcast(AttentionCase &c, llvm::StringRef name,
                    llvm::StringRef element);

  CaseRange range;
  std::mt19937_64 random;
};

} // namespace attn

#endif // ATTN_TEST_SUPPORT_RANDOMATTENTION_H
