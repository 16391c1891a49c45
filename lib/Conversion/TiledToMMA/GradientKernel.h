//===- GradientKernel.h - The kernels of the gradients on warps -*- C++ -*-===//
//
// A function of gradients becomes kernels that are launched one behind the
// other. Each idea has its file:
//
//   GradientsToMMA.cpp   the pass: the kernels in order
//   GradientRows.cpp     delta and references of the rows; zeros
//   GradientKernel.cpp   shared memory of a sweep, its task
//   GradientSweep.cpp    a sweep: dK and dV, or dQ
//   PairGradients.cpp    what pairs add to gradients of bias and captures
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOMMA_GRADIENTKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOMMA_GRADIENTKERNEL_H

#include "../Common/GradientForm.h"
#include "MmaKernel.h"
#include "attn/Target/MmaGradientTiles.h"

namespace attn::mma {

/// A sweep over query blocks for dK and dV (`isKeys`), or over key blocks for
/// dQ. What stays are keys and values, or queries and output gradients; the
/// others pass by.
struct GradientKernel : WarpKernel {
  GradientForm &form;
  bool isKeys;
  MmaGradientTiles::Sweep tiles;
  /// Byte offsets in shared memory.
  int64_t staysAt = 0, staysValueAt = 0, passesAt = 0, passesValueAt = 0,
          seenAt = 0, termsAt = 0;

  GradientKernel(GradientForm &form, bool isKeys);

  GradientBlock &block() const {
    return isKeys ? static_cast<GradientBlock &>(form.keys) : form.queries;
  }
  mlir::scf::ForallOp tasks() const {
    return isKeys ? form.keys.tasks : form.queries.tasks;
  }
  /// Terms for the gradients of bias and captures are added in a fixed order.
  bool ordersTerms() const { return tiles.termBytes != 0; }
};

/// What blocks add to the gradients of bias and captures. `layout` is bound to
/// P and dP of the block.
mlir::LogicalResult addPairGradients(Thread &thread,
                                     const GradientKernel &kernel,
                                     mlir::IRMapping &scalars,
                                     TileSlicer &slicer,
                                     AccumulatorLayout &layout);

/// The sweep of a task and its results, after the scalars of the task.
mlir::LogicalResult emitGradientTask(Thread &thread,
                                     const GradientKernel &kernel,
                                     mlir::IRMapping &scalars);

/// Each adds a kernel to `module`, which is made where it is null.
/// `workspace` are its bytes as a size expression.
struct GradientModule {
  GradientForm &form;
  mlir::gpu::GPUModuleOp module;
  std::string workspace;

  /// A kernel of `tasks`, whose body `emit` makes at `e`.
  mlir::LogicalResult
  add(mlir::scf::ForallOp tasks, Launch launch, const llvm::Twine &name,
      llvm::function_ref<mlir::LogicalResult(GpuEmitter &, KernelOutline &)>
          emit);
  mlir::LogicalResult addFill(mlir::scf::ForallOp fill, int64_t number);
  mlir::LogicalResult addRows();
  mlir::LogicalResult addSweep(bool isKeys);
  mlir::LogicalResult addSinks();
};

} // namespace attn::mma

#endif // ATTN_LIB_CONVERSION_TILEDTOMMA_GRADIENTKERNEL_H
