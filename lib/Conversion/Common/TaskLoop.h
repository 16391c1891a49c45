//===- TaskLoop.h - The tasks of a kernel by number -------------*- C++ -*-===//
//
// A grid is one-dimensional, whatever the sizes are: the y and z of a CUDA grid
// end at 65,535. A task has a number, which is counted so that under a right
// band bound the query blocks are outermost, the longest first, within all
// heads or within groups of so many that their keys stay in L2. Otherwise the
// query blocks of a head are neighbours and share its keys there.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_TASKLOOP_H
#define ATTN_LIB_CONVERSION_COMMON_TASKLOOP_H

#include "GpuEmitter.h"
#include "KernelOutline.h"

namespace attn {

/// Batches, heads and blocks as size expressions.
mlir::FailureOr<llvm::SmallVector<std::string>>
taskCounts(mlir::scf::ForallOp tasks);
/// The number of tasks as a size expression.
mlir::FailureOr<std::string> countTasks(mlir::scf::ForallOp tasks);

/// Batches, heads and blocks of the task loop (i32).
std::array<mlir::Value, 3> taskSizes(GpuEmitter &e, mlir::scf::ForallOp tasks,
                                     const KernelOutline &outline);

/// Heads of all batches whose tasks are numbered together: their query blocks
/// outermost. The last group takes what is left. All i32.
struct HeadGroups {
  mlir::Value heads, size, last;

  HeadGroups() = default;
  HeadGroups(GpuEmitter &e, mlir::Value heads, mlir::Value size);

  struct Place {
    mlir::Value head, block;
  };
  /// Of a task by its number, where a head has `blocks`.
  Place find(GpuEmitter &e, mlir::Value number, mlir::Value blocks) const;
};

/// The values outside of the task loop, and its variables for the task
/// `number` (i32). Under a right band bound `group` heads are numbered
/// together; null: all of them.
mlir::IRMapping enterTask(GpuEmitter &e, TiledForm &form,
                          const KernelOutline &outline, mlir::Value number,
                          mlir::Value group = {});
/// The same where the blocks of a head are neighbours.
mlir::IRMapping enterTask(GpuEmitter &e, mlir::scf::ForallOp tasks,
                          const KernelOutline &outline, mlir::Value number);

/// The number of a Vulkan workgroup's task (i32), see kGridWidth. The last row
/// of the grid may be longer than what is left of the tasks.
mlir::Value taskOfGrid(GpuEmitter &e);

/// The byte address of the block's dynamic shared memory (i32).
mlir::Value sharedMemory(GpuEmitter &e, mlir::gpu::GPUModuleOp module);

/// Maps by `emit` every task loop of `root` whose tiling, null where there is
/// none, `takes` says yes to.
mlir::LogicalResult
mapTaskLoops(mlir::Operation *root, llvm::function_ref<bool(TilingAttr)> takes,
             llvm::function_ref<mlir::LogicalResult(TiledForm &)> emit);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_TASKLOOP_H
