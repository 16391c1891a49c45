//===- LaneKernel.h - One attention kernel of lanes -------------*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToSPIRV.cpp  the pass: one kernel from one tiled form
//   LaneKernel.cpp    shared memory, threads, what can be mapped
//   LaneLayout.cpp    tiles cut to the elements of a thread
//   LaneScalars.cpp   scalars of a task and of a block
//   TileCopy.cpp      tiles from main memory to shared memory
//   LaneProduct.cpp   tile products by multiply-adds
//   LaneSoftmax.cpp   the online softmax on what a thread holds
//   Sweep.cpp         the sweep of a workgroup
//   Results.cpp       output and lse
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H

#include "../Common/KernelOutline.h"
#include "../Common/TaskLoop.h"
#include "../Common/TiledForm.h"
#include "LaneLayout.h"
#include "attn/Target/LaneTiles.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn::spv {

/// A tile in workgroup memory: a memref of one dimension, whose elements are
/// vectors.
struct SharedTile {
  mlir::Value memory;

  mlir::Value load(GpuEmitter &e, mlir::Value at) const {
    return mlir::memref::LoadOp::create(e.b, e.loc, memory, at);
  }
  void store(GpuEmitter &e, mlir::Value value, mlir::Value at) const {
    mlir::memref::StoreOp::create(e.b, e.loc, value, memory, at);
  }
  mlir::Type type() const {
    return mlir::cast<mlir::MemRefType>(memory.getType()).getElementType();
  }
};

/// Memory of the workgroup, for `count` elements of `type`.
SharedTile allocateShared(GpuEmitter &e, int64_t count, mlir::Type type);

struct LaneKernel {
  TiledForm &form;
  LaneTiles tiles;

  /// An error when the tiling does not describe a kernel of lanes.
  static mlir::FailureOr<LaneKernel> plan(TiledForm &form);

  mlir::FloatType type() const { return form.accumulatorType; }
  mlir::VectorType quadType() const {
    return mlir::VectorType::get(LaneTiles::kQuad, type());
  }
  /// Values of unseen keys may not reach the product.
  bool dropsUnseen() const { return form.value && form.value.getMask(); }
  /// The last of a thread's keys may lie behind the block.
  bool hasPaddedKeys() const {
    return form.tiling.blockKey % tiles.columnThreads != 0;
  }
};

/// What a thread knows once it runs; index values unless said.
struct Thread {
  GpuEmitter e;
  const LaneKernel &kernel;
  /// Thread of the workgroup, and its place in the grid of threads.
  mlir::Value id, row, column;
  SharedTile query, block, probabilities, reduction, seen;

  Thread(GpuEmitter e, const LaneKernel &kernel);

  void barrier();
  /// Whether `any` (i1) holds in any thread of the workgroup. All of them ask
  /// together.
  mlir::Value voteAny(mlir::Value any);
  /// Combines a number a row over the threads that share it. Between two calls
  /// lies a barrier.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value x, mlir::Value y)>;
  Registers combineRows(const Registers &rows, Combine combine);
  /// Of the thread's row number `i`, within the tile.
  mlir::Value rowOf(int64_t i) {
    return e.add(row, i * kernel.tiles.rowThreads);
  }
};

/// A matrix of the tiled form in main memory, for one task. Rows past the end
/// and columns behind the last are zero.
class TileCopy {
public:
  /// `rows` of what `read` names go to `tile`, whose rows are `pitch` quads
  /// apart.
  TileCopy(Thread &thread, const SharedTile &tile, int64_t rows, int64_t pitch,
           mlir::vector::TransferReadOp read, mlir::IRMapping &scalars);

  /// Copies rows from `firstRow` (index) of the view on; those that are not
  /// seen are zero.
  using IsSeen =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value row)>;
  mlir::LogicalResult copy(mlir::Value firstRow, IsSeen isSeen = {});
  /// The same in two steps: a thread's quads, and their way to shared memory.
  Registers load(mlir::Value firstRow);
  void store(const Registers &loaded);

  /// Quads of the tile, of all threads together.
  int64_t size() const { return rows * quads; }

private:
  /// `isReal`: null where every row is.
  mlir::Value loadQuad(mlir::Value row, mlir::Value quad, mlir::Value firstRow,
                       mlir::Value isReal);
  mlir::Value isInside(mlir::Value row, mlir::Value firstRow);

  Thread &thread;
  GpuEmitter &e;
  SharedTile tile;
  int64_t rows, pitch, columns, quads;
  /// Every row of a tile is one of the view; neighbours lie side by side.
  bool isWhole, isPacked;
  mlir::Value view;
};

/// Scores of the block of keys, [rows][keys].
Registers multiplyQueryKey(Thread &thread);
/// What the probabilities in shared memory add to `acc`, [rows][quads][4].
Registers multiplyProbabilitiesValue(Thread &thread, Registers acc);

/// The sweep of a task, from the scalars of the task to the results of the
/// sweep, which `layout` is bound to.
mlir::LogicalResult emitSweep(Thread &thread, mlir::IRMapping &scalars,
                              LaneLayout &layout);
/// Writes output and lse of one task.
mlir::LogicalResult emitResults(Thread &thread, mlir::IRMapping &scalars,
                                LaneLayout &layout);

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H
