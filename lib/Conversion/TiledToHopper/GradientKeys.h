//===- GradientKeys.h - The kernel over key blocks --------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H

#include "../Common/GradientBlock.h"
#include "GradientKernels.h"

namespace attn::hopper {

/// Shared memory and tensor maps of the kernel.
struct KeyKernel {
  WarpgroupForm &form;
  int64_t groups, stages;
  OperandTile key, value, query, outputGradient, keyOutput, valueOutput;
  /// Keys and values come once. References come with the queries, delta with
  /// the output gradients; dS, or where roles are split P in f32, goes from
  /// warpgroup to warpgroup by two buffers.
  Ring keyRing, queryRing, gradientRing;
  int64_t numberAt = 0, referencesAt = 0, deltasAt = 0, exchangeAt = 0,
          sharedBytes = 0;

  explicit KeyKernel(WarpgroupForm &form)
      : form(form), groups(form.tiling.groups), stages(form.tiling.stages) {}
  static mlir::FailureOr<KeyKernel> plan(WarpgroupForm &form);

  int64_t threads() const { return (groups + 1) * kWarpgroup; }
  /// A number for each query of a block.
  int64_t rowBytes() const { return form.blockQuery * 4; }
  /// Of a buffer: dS as [chunk of 64 keys][query][key], or P by threads.
  int64_t exchangeBytes() const {
    if (form.splitsRoles())
      return kRows * form.blockQuery * 4;
    return form.isAccumulated() ? groups * form.blockQuery * kChunkRowBytes : 0;
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
  /// Where dQ is added up in order, see GradientTurns.h (i32).
  mlir::Value firstRowBehind;

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
/// The same where warpgroups share the keys.
mlir::LogicalResult emitSplitConsumer(KeyThread &thread, mlir::Value group);

/// What consumers of either kind do.
class KeyConsumer {
public:
  KeyConsumer(KeyThread &thread, mlir::Value group);

protected:
  /// All consumer warpgroups.
  void meet();
  /// The number of each of the thread's queries, from a row of shared memory.
  llvm::SmallVector<mlir::Value> readPerQuery(int64_t at, const Slot &slot);
  /// S^T or dP^T of the warpgroup's keys.
  Fragment multiplyRows(mlir::Value keysOrValues, int64_t dim,
                        mlir::Value queriesOrGradients);
  /// Keys and values have arrived, those that nobody sees are 0.
  void waitKeys();
  /// Rounds and writes dK or dV of the warpgroup's keys, which the group loop
  /// leaves as `accumulated`, through their rows of a tile that nobody reads
  /// any more.
  mlir::LogicalResult write(mlir::vector::TransferWriteOp output,
                            const OperandTile &tile, GradientMap map,
                            mlir::Value accumulated, Fragment fragment,
                            mlir::Value address);
  void finishWrites();

  KeyThread &thread;
  GpuEmitter &e;
  const KeyKernel &kernel;
  WarpgroupForm &form;
  KeyTasks &keys;
  /// i32 of the thread: its warpgroup, the first of that's keys, place in it,
  /// lane; first row and column of what it holds; addresses of the tiles.
  mlir::Value group, firstKey, inGroup, lane, row, column, keyAddress,
      valueAddress;
  mlir::Value isWarpLeader;
};

/// A distance as part of an address in the text. Added before, ptxas would keep
/// the sums of all of them in registers from block to block.
inline std::string plus(int64_t bytes) { return "+" + std::to_string(bytes); }

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKEYS_H
