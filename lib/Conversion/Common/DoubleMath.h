//===- DoubleMath.h - Functions of mathematics in f64 -----------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_COMMON_DOUBLEMATH_H
#define ATTN_LIB_CONVERSION_COMMON_DOUBLEMATH_H

#include "mlir/IR/Builders.h"

namespace attn {

/// What computes an f64 `op` (or a vector of f64): exp2, exp, log2, log, tanh
/// and rsqrt; null for others.
mlir::Value buildDoubleMath(mlir::OpBuilder &b, mlir::Operation *op);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_DOUBLEMATH_H
