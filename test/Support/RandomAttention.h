//===- RandomAttention.h - Attention problems at random ---------*- C++ -*-===//
//
// One problem: a module with one attention op, its operands, and tile sizes.
// Everything the op can say is drawn: sizes that divide nothing, groups,
// layouts, strides, open sizes, masks, regions, element types.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_RANDOMATTENTION_H
#define ATTN_TEST_SUPPORT_RANDOMATTENTION_H

#include "attn/IR/Attn.h"
#include "attn/Reference/Array.h"
#include "attn/Reference/TiledInterpreter.h"
#include <random>

namespace attn {

/// An operand of the op and argument of the function.
struct CaseOperand {
  std::string name;
  /// Element type as it is written.
  std::string element;
  Array data;
  /// Sizes that the type leaves open.
  llvm::SmallVector<bool> isOpen;
  /// Distances between elements.
  llvm::SmallVector<int64_t> strides;
  bool isDense = true;
  /// Of what is not dense: the type gives the distances, or leaves them open.
  bool statesStrides = false;

  std::string type(bool isTensor) const;
  HostMemRef memref() const {
    return HostMemRef::strided(data, strides, offset());
  }
  int64_t offset() const { return isDense ? 0 : 3; }
};

struct AttentionCase {
  AttentionShape shape;
  std::string element = "f32", outputElement = "f32";
  Layout queryLayout = Layout::bhsd, keyLayout = Layout::bhsd,
         valueLayout = Layout::bhsd, outputLayout = Layout::bhsd;
  int64_t blockQuery = 16, blockKey = 16;
  std::string softmax = "exact";
  bool isTensor = false, wantsLse = true, statesTiling = true;

  /// Clauses that name no operand: causal, window, scale, softcap, ...
  std::string masks, scoring;
  /// Names of operands that act as masks, and of the others.
  std::vector<CaseOperand> operands, captures, outs;
  /// The bodies, without arguments; empty when absent. READ(%c0, %i, %j) stands
  /// for the read of a capture in the form of the op.
  std::string scoreMod, maskMod;

  CaseOperand *find(llvm::StringRef name);
  /// The module; `@f` takes operands, captures and destinations in order.
  std::string text() const;
  /// The same masks on plain scores, with a value of one column for each
  /// `groupSize` keys: one-hot values make the output show in which groups each
  /// query sees a key.
  AttentionCase probe(int64_t groupSize) const;
  /// The operands of the op, in its order, without destinations.
  llvm::SmallVector<Array> arrays() const;
};

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
  /// Softmax kinds other than the exact one, which a CPU kernel has not.
  bool hasEverySoftmax = false;

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
