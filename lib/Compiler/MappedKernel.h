//===- MappedKernel.h - The launch of a mapped GPU kernel -------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_MAPPEDKERNEL_H
#define ATTN_LIB_COMPILER_MAPPEDKERNEL_H

#include "attn/Artifact/LaunchDescription.h"
#include "attn/IR/TargetDescription.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace attn {

/// The kernels of a module at stage mapped or later, in the order in which they
/// are launched, and behind them those that can take their place.
llvm::SmallVector<mlir::gpu::GPUFuncOp> findKernels(mlir::ModuleOp module);

/// Arguments called arg0, arg1 and so on and their open sizes arg0_dim1, for a
/// module that is given at stage mapped.
llvm::Expected<LaunchDescription> describeKernel(mlir::gpu::GPUFuncOp kernel);

/// Adds what attn.launch of the kernels says to the description of the
/// arguments.
llvm::Error addLaunches(llvm::ArrayRef<mlir::gpu::GPUFuncOp> kernels,
                        LaunchDescription &launch);

/// An error when `entry`, at stage attn, holds more than one attention: a GPU
/// kernel is one.
llvm::Error requireAttentionAlone(mlir::func::FuncOp entry);

/// A kernel in the place of `function`, of no blocks: an attention without
/// results, whose sizes are zero, has been left out by attn-tile.
mlir::gpu::GPUFuncOp replaceByEmptyKernel(mlir::func::FuncOp function,
                                          const TargetDescription &target);

} // namespace attn

#endif // ATTN_LIB_COMPILER_MAPPEDKERNEL_H
