//===- GradientLanes.h - The kernels of the gradients on lanes --*- C++ -*-===//
//
// What the kernels share. Each idea has its file:
//
//   GradientsToSPIRV.cpp  the pass: a kernel for each task loop, in order
//   GradientLanes.cpp     the plan, the workspace, the frame of a kernel
//   GradientRows.cpp      delta of the rows, gradients of sinks, zeros
//   GradientTask.cpp      a task over keys or queries: loops and results
//   GradientBlock.cpp     a block of rows and keys: P, dX and the products
//   PairSums.cpp          sums over pairs: gradients of a bias and of captures
//
// and of the forward LaneThread, LaneLayout, LaneProduct, TileCopy, SeenKeys,
// MaskedScores and the writers of Results.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTLANES_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTLANES_H

#include "LaneKernel.h"
#include "LaneScalars.h"
#include "attn/Target/LaneGradientTiles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn::spv {

/// A function of gradients, and what its kernels have in common.
struct GradientLanes {
  mlir::func::FuncOp function;
  Tiling tiling;
  LaneGradientTiles tiles;
  mlir::FloatType type;
  /// delta, which becomes the workspace, and its bytes as a size expression;
  /// null and empty where there are no rows.
  mlir::memref::AllocOp delta;
  std::string workspace;

  /// An error when the tiling does not describe kernels of lanes. `loops` are
  /// the task loops of the function.
  static mlir::FailureOr<GradientLanes>
  plan(mlir::func::FuncOp function, llvm::ArrayRef<mlir::scf::ForallOp> loops);

  int64_t threads() const { return tiles.threads; }
};

/// Scalars of a task. Sums are none: they belong to the arithmetic on tiles.
class GradientScalars : public LaneScalars {
public:
  using LaneScalars::LaneScalars;
  mlir::FailureOr<mlir::Value>
  reduce(mlir::vector::MultiDimReductionOp op) override {
    if (op.getKind() == mlir::vector::CombiningKind::ADD)
      return mlir::Value();
    return LaneScalars::reduce(op);
  }
};

/// Adds a kernel for `tasks` to `module`, which is made where it is null, and
/// builds its body by `emit`: what a thread does for one task, whose scalars
/// are mapped. With `isElementwise` a thread has a task of its own.
mlir::LogicalResult addLaneKernel(
    GradientLanes &gradients, mlir::scf::ForallOp tasks, llvm::StringRef suffix,
    mlir::gpu::GPUModuleOp &module,
    llvm::function_ref<mlir::LogicalResult(LaneThread &, mlir::IRMapping &)>
        emit,
    bool isElementwise = false);

mlir::LogicalResult emitRowKernel(GradientLanes &gradients,
                                  mlir::scf::ForallOp tasks,
                                  mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitSinkKernel(GradientLanes &gradients,
                                   mlir::scf::ForallOp tasks,
                                   mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitZeroKernel(GradientLanes &gradients,
                                   mlir::scf::ForallOp tasks,
                                   llvm::StringRef suffix,
                                   mlir::gpu::GPUModuleOp &module);
/// Of key tasks or query tasks.
mlir::LogicalResult emitGradientKernel(GradientLanes &gradients,
                                       mlir::scf::ForallOp tasks,
                                       mlir::gpu::GPUModuleOp &module);

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_GRADIENTLANES_H
