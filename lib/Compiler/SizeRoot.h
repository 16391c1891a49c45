//===- SizeRoot.h - Where a size comes from ---------------------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_SIZEROOT_H
#define ATTN_LIB_COMPILER_SIZEROOT_H

#include "mlir/IR/Value.h"
#include <utility>

namespace attn {

/// A dimension of a shaped value, or an index value and 0. Two sizes of one
/// root are equal. Without a value, the number is the size itself.
using SizeRoot = std::pair<mlir::Value, int64_t>;

/// Follows dimension `index` of `value` through casts, slices, destinations
/// and empty tensors to where it comes from.
SizeRoot findSizeRoot(mlir::Value value, int64_t index);

} // namespace attn

#endif // ATTN_LIB_COMPILER_SIZEROOT_H
