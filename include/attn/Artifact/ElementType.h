//===- ElementType.h - Element types of kernel arguments --------*- C++ -*-===//

#ifndef ATTN_ARTIFACT_ELEMENTTYPE_H
#define ATTN_ARTIFACT_ELEMENTTYPE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace attn {

/// What a kernel's buffers hold. The words are MLIR's; an i1 takes one byte.
enum class ElementType { f16, bf16, f32, f64, i1, i8, i32, i64 };

llvm::StringRef elementTypeName(ElementType type);
std::optional<ElementType> parseElementType(llvm::StringRef name);
int64_t elementBytes(ElementType type);
bool isFloat(ElementType type);

} // namespace attn

#endif // ATTN_ARTIFACT_ELEMENTTYPE_H
