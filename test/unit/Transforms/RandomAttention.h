//===- RandomAttention.h - Attention problems at random ---------*- C++ -*-===//
//
// One problem: a module with one attention op, its operands, and tile sizes.
// Everything the op can say is drawn: sizes that divide nothing, groups,
// layouts, strides, open sizes, masks, regions, element types.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_TRANSFORMS_RANDOMATTENTION_H
#define ATTN_TEST_UNIT_TRANSFORMS_RANDOMATTENTION_H

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
  /// Distances between elements; the type leaves them open unless dense.
  llvm::SmallVector<int64_t> strides;
  bool isDense = true;

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
  bool isTensor = false, wantsLse = true;

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
  /// The same masks on plain scores, with a value of [Skv] columns: one-hot
  /// values make the output show which keys each query sees.
  AttentionCase probe() const;
  /// The operands of the op, in its order, without destinations.
  llvm::SmallVector<Array> arrays() const;
};

class CaseGenerator {
public:
  explicit CaseGenerator(uint64_t seed) : random(seed) {}
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

  std::mt19937_64 random;
};

} // namespace attn

#endif // ATTN_TEST_UNIT_TRANSFORMS_RANDOMATTENTION_H
