//===- AttentionCase.h - One attention problem ------------------*- C++ -*-===//
//
// A module with one attention op, its operands, and tile sizes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_SUPPORT_ATTENTIONCASE_H
#define ATTN_TEST_SUPPORT_ATTENTIONCASE_H

#include "attn/IR/Attn.h"
#include "attn/Reference/Array.h"
#include "attn/Reference/TiledInterpreter.h"

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

  /// Without gaps and open sizes, all zero.
  static CaseOperand dense(llvm::StringRef name, llvm::StringRef element,
                           llvm::ArrayRef<int64_t> shape);

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
  std::string softmax = "exact", product = "fma";
  /// Of a backward; empty states none.
  std::string queryGradient;
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
  /// What is written between the operands and the types, destinations excepted.
  std::string clauses() const;
  /// The same masks on plain scores, with a value of one column for each
  /// `groupSize` keys: one-hot values make the output show in which groups each
  /// query sees a key.
  AttentionCase probe(int64_t groupSize) const;
  /// The operands of the op, in its order, without destinations.
  llvm::SmallVector<Array> arrays() const;
};

} // namespace attn

#endif // ATTN_TEST_SUPPORT_ATTENTIONCASE_H
