//===- Fallback.h - The kernel that needs no tensor maps --------*- C++ -*-===//
//
// A tensor map takes addresses and strides that are multiples of 16 bytes, and
// whether those of an operand are may be known at the launch alone. Then a
// module has a second function from stage configured on, of the same arguments,
// and from stage mapped on a second kernel in the gpu.module of the first:
//
//   func.func @attention(...)
//   func.func @attention_fallback(...) attributes {attn.fallback = @attention}
//
//   gpu.func @attention_fallback(...) kernel
//     attributes {attn.launch = {...}, attn.fallback = @attention}
//
// It is `otherwise` in the launch description: what is launched where a tensor
// map of the others cannot be made.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_IR_FALLBACK_H
#define ATTN_IR_FALLBACK_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace attn {

/// Names the function that this function, or this kernel, can stand in for.
constexpr llvm::StringLiteral kFallbackAttrName = "attn.fallback";

/// That name; null where `function` is no fallback.
inline mlir::FlatSymbolRefAttr getFallback(mlir::Operation *function) {
  return function->getAttrOfType<mlir::FlatSymbolRefAttr>(kFallbackAttrName);
}

} // namespace attn

#endif // ATTN_IR_FALLBACK_H
