//===- MathExpansion.h - Functions as arithmetic ----------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H
#define ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H

#include "mlir/IR/PatternMatch.h"

namespace attn {

/// Makes arithmetic of the ops below `root` that `isFunction` names, and of
/// what they become: by `known`, what a back end knows better than upstream's
/// expansions and polynomials, with a benefit above 2. A function that is left
/// is an error: it has no form in `language`.
mlir::LogicalResult
expandMath(mlir::Operation *root, mlir::RewritePatternSet known,
           llvm::function_ref<bool(mlir::Operation *)> isFunction,
           llvm::StringRef language);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_MATHEXPANSION_H
