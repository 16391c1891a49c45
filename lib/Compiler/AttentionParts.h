//===- AttentionParts.h - Operands by name and dimension --------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_ATTENTIONPARTS_H
#define ATTN_LIB_COMPILER_ATTENTIONPARTS_H

#include "attn/IR/Attn.h"
#include <string>
#include <vector>

namespace attn {

/// An operand or result of attention.
struct AttentionPart {
  std::string name;
  mlir::Value value;
  /// What each dimension is, by the names of the paper: B, Hq, Hkv, Sq, Skv,
  /// D, Dv. Empty for captures.
  std::vector<std::string> dimensions;
  bool isWritten = false;
  /// A dimension may be 1 and stand for its whole size.
  bool broadcasts = false;
  /// For integers, bounds of the values that make sense, over Sq and Skv.
  llvm::StringRef lowest, highest;
};

/// The value before casts that change only what its type says of its sizes.
mlir::Value withoutCasts(mlir::Value value);

/// Operands are seen through casts.
std::vector<AttentionPart> getParts(AttentionOpInterface op);

} // namespace attn

#endif // ATTN_LIB_COMPILER_ATTENTIONPARTS_H
