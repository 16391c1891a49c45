//===- SinkGradient.h - The gradient of the sinks ---------------*- C++ -*-===//
//
// A block of threads a head: a thread goes through rows of its own, the same
// row of every so many query blocks, and the threads' sums are added in a fixed
// order.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_SINKGRADIENT_H
#define ATTN_LIB_CONVERSION_COMMON_SINKGRADIENT_H

#include "GpuEmitter.h"
#include "GradientForm.h"
#include "KernelOutline.h"

namespace attn {

/// delta of a row of a query block: all i32. Null where the tiled form's own
/// read of it will do.
using DeltaOf = llvm::function_ref<mlir::Value(
    mlir::Value batch, mlir::Value head, mlir::Value block, mlir::Value row)>;

/// How to launch the kernel; the workspace is the caller's.
mlir::FailureOr<Launch> sinkLaunch(GradientForm &form);
mlir::LogicalResult emitSinkGradient(GpuEmitter &e, GradientForm &form,
                                     const KernelOutline &outline,
                                     DeltaOf deltaOf);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_SINKGRADIENT_H
