//===- Describe.h - The launch description of a function --------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_DESCRIBE_H
#define ATTN_LIB_COMPILER_DESCRIBE_H

#include "attn/Artifact/LaunchDescription.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {

/// Names the arguments and open sizes of `entry` after their part in its
/// attention, and its results as the trailing arguments that bufferization
/// makes of them. `entry` is at stage `attn`. What the target decides is left
/// for the caller to fill in.
llvm::Expected<LaunchDescription> describeLaunch(mlir::func::FuncOp entry);

/// Fills in the element type, strides and offset of a buffer of this type. An
/// error reads as what follows "argument x of @f".
llvm::Error describeBuffer(mlir::ShapedType type,
                           ArgumentDescription &argument);

} // namespace attn

#endif // ATTN_LIB_COMPILER_DESCRIBE_H
