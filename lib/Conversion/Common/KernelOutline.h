//===- KernelOutline.h - A task loop's function as a GPU kernel -*- C++ -*-===//
//
// The function around a task loop becomes a gpu.func with the same arguments:
// a caller launches what it would have called. Its launch attribute holds what
// a driver has to know; docs/Artifact.md says how it reaches the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_KERNELOUTLINE_H
#define ATTN_LIB_CONVERSION_COMMON_KERNELOUTLINE_H

#include "TiledForm.h"
#include "attn/IR/MappedKernel.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/IRMapping.h"

namespace attn {

struct KernelOutline {
  mlir::gpu::GPUModuleOp module;
  mlir::gpu::GPUFuncOp kernel;
  /// The values outside of the task loop, in the kernel.
  mlir::IRMapping values;
  /// Pointers to the tensor maps, as `Launch::tensorMaps` orders them.
  llvm::SmallVector<mlir::Value> tensorMaps;
  /// A memref of one dimension, where the launch has a workspace.
  mlir::Value workspace;
};

/// The value as a size expression; an error on its operation where it is more
/// than arithmetic on sizes of the function's arguments.
mlir::FailureOr<std::string> toSizeExpression(mlir::Value value);

/// Makes the kernel beside the function around `tasks`, empty but for the
/// values in front of the loop; the function itself stays, to be erased by the
/// caller. An error when the function does more than attend.
mlir::FailureOr<KernelOutline> outlineKernel(mlir::scf::ForallOp tasks,
                                             const Launch &launch);

/// One of several kernels of the function around `tasks`, by the name `name`,
/// behind those that `module` holds; where it is null it is made beside the
/// function. A workspace holds numbers of `workspaceType`; null: f32.
mlir::FailureOr<KernelOutline>
addKernel(mlir::scf::ForallOp tasks, const Launch &launch, llvm::StringRef name,
          mlir::gpu::GPUModuleOp &module, mlir::Type workspaceType = {});

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_KERNELOUTLINE_H
