//===- GradientKeys.h - The kernel over key blocks --------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H

#include "GradientKernels.h"

namespace attn::hopper {

/// Shared memory and tensor maps of the kernel.
struct KeyKernel {
  GradientForm &form;
  int64_t groups, stages;
  OperandTile key, value, query, outputGradient, keyOutput, valueOutput;
  /// Keys and values come once. References come with the queries, delta with
  /// the output gradients; dS goes from warpgroup to warpgroup by two buffers.
  Ring keyRing, queryRing, gradientRing;
  int64_t referencesAt = 0, deltasAt = 0, scoreGradientsAt = 0, sharedBytes = 0;

  explicit KeyKernel(GradientForm &form)
      : form(form), groups(form.tiling.groups), stages(form.tiling.stages) {}
  static mlir::FailureOr<KeyKernel> plan(GradientForm &form);

  int64_t threads() const { return (groups + 1) * kWarpgroup; }
  /// A number for each query of a block.
  int64_t rowBytes() const { return form.blockQuery * 4; }
  /// dS as [chunk of 64 keys][query][key].
  int64_t scoreGradientBytes() const {
    return groups * form.blockQuery * kChunkRowBytes;
  }
  Launch launch(llvm::StringRef tasks, llvm::StringRef workspace) const;

private:
  void placeShared();
};

/// Tensor maps of the kernel.
enum GradientMap {
  KeyTileMap,
  ValueTileMap,
  QueryTileMap,
  OutputGradientMap,
  KeyGradientMap,
  ValueGradientMap
};

/// What a thread knows once it runs.
struct KeyThread {
  GpuEmitter e;
  const KeyKernel &kernel;
  const KernelOutline &outline;
  /// i32: thread of the block, byte address of shared memory.
  mlir::Value id, shared;
  /// The scalars of the task.
  mlir::IRMapping scalars;

  /// Maps the scalars of a step of the sweep.
  mlir::IRMapping enterStep(mlir::Value head, mlir::Value row);
  /// Goes through the query heads of the task and their rows, and carries
  /// `inits`. `body` gets head and row (i32).
  llvm::SmallVector<mlir::Value>
  forEachStep(mlir::ValueRange inits,
              llvm::function_ref<llvm::SmallVector<mlir::Value>(
                  mlir::Value, mlir::Value, mlir::ValueRange)>
                  body);
};

/// One consumer warpgroup; `group` counts from 0 (i32).
mlir::LogicalResult emitGradientConsumer(KeyThread &thread, mlir::Value group);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H
