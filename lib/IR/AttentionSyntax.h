//===- AttentionSyntax.h - The words of the attention ops -------*- C++ -*-===//

#ifndef ATTN_LIB_IR_ATTENTIONSYNTAX_H
#define ATTN_LIB_IR_ATTENTIONSYNTAX_H

#include "attn/IR/Attn.h"

namespace attn {

/// What one op has and the other has not.
struct Syntax {
  /// Operands in front of the clauses, and how a message calls their types.
  llvm::ArrayRef<llvm::StringRef> positional;
  llvm::StringRef typesText;
  /// Operand groups in the order of the definition; "segments" is a pair.
  llvm::ArrayRef<llvm::StringRef> groups;
  /// All words that begin a clause.
  llvm::ArrayRef<llvm::StringRef> clauses;
  /// Attributes that are written as clauses.
  llvm::ArrayRef<llvm::StringRef> attributes;
};

const Syntax &forwardSyntax();
const Syntax &backwardSyntax();

} // namespace attn

#endif // ATTN_LIB_IR_ATTENTIONSYNTAX_H
