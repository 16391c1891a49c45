//===- ErrorText.h - One-line errors of the reference ----------*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_ERRORTEXT_H
#define ATTN_LIB_REFERENCE_ERRORTEXT_H

#include "llvm/Support/Error.h"

namespace attn::reference {

inline llvm::Error errorText(const llvm::Twine &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_ERRORTEXT_H
