//===- SizeExpression.h - Formulas over the sizes of a launch ---*- C++ -*-===//
//
// A launch description states grids, workspace and the like as short formulas
// over the sizes that are known only when the kernel is called, for example
// "ceildiv(Sq, 64)" or "4*B*Hq*Sq*Skv*D". The language is small enough for
// anybody's runtime:
//
//   expression = term { ("+" | "-") term }
//   term       = factor { ("*" | "/" | "%") factor }     # 64-bit integers
//   factor     = number | size | "(" expression ")" | "-" factor
//              | "min" | "max" | "ceildiv" "(" a "," b ")"
//              | "clamped_sum" "(" n "," first "," limit ")"
//
// "/" and "%" take a non-negative left side and a positive right side. The
// sum of clamp(first + i, 0, limit) over 0 <= i < n counts the keys that a
// diagonal leaves visible.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ARTIFACT_SIZEEXPRESSION_H
#define ATTN_ARTIFACT_SIZEEXPRESSION_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace attn {

/// Values of the symbolic sizes, by name.
using SizeMap = llvm::StringMap<int64_t>;

/// The value of `expression`; an error when it does not parse, names a size
/// that is not in `sizes`, divides by zero or leaves 64 bits.
llvm::Expected<int64_t> evaluateSize(llvm::StringRef expression,
                                     const SizeMap &sizes);

/// A letter or underscore, then letters, digits and underscores.
bool isSizeName(llvm::StringRef name);

} // namespace attn

#endif // ATTN_ARTIFACT_SIZEEXPRESSION_H
