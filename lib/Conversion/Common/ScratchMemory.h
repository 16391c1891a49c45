//===- ScratchMemory.h - What kernels leave to each other -------*- C++ -*-===//
//
// The task loops of the gradients leave numbers to each other in memory that
// the function allocates. Kernels find each allocation in their workspace, one
// behind the other.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_SCRATCHMEMORY_H
#define ATTN_LIB_CONVERSION_COMMON_SCRATCHMEMORY_H

#include "GpuEmitter.h"
#include "KernelOutline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {

/// Bytes of the allocations of `function` as a size expression; empty where
/// there are none.
mlir::FailureOr<std::string> scratchBytes(mlir::func::FuncOp function);

/// Maps every allocation of `function` to its place in the workspace.
void placeScratch(GpuEmitter &e, mlir::func::FuncOp function,
                  KernelOutline &outline);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_SCRATCHMEMORY_H
