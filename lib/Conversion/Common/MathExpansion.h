//===- MathExpansion.h - Functions as arithmetic ----------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H
#define ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H

#include "mlir/IR/PatternMatch.h"

namespace attn {

/// Functions that a GPU has no unit for, as upstream's expansions and
/// polynomials; questions about a float as comparisons. A back end adds what it
/// knows better, with a benefit above 2.
void populateMathExpansion(mlir::RewritePatternSet &patterns);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H
