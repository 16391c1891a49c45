//===- LaneKernel.h - One attention kernel of lanes -------------*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToSPIRV.cpp  the pass: one kernel from one tiled form
//   LaneKernel.cpp    shared memory, threads, what can be mapped
//   LaneThread.cpp    threads and how they meet
//   LaneLayout.cpp    tiles cut to the elements of a thread
//   LaneScalars.cpp   scalars of a task and of a block
//   TileCopy.cpp      tiles from main memory to shared memory
//   LaneProduct.cpp   tile products by multiply-adds
//   MaskedScores.cpp  masks on what a thread holds
//   SeenKeys.cpp      which keys some row sees
//   LaneSoftmax.cpp   the online softmax on what a thread holds
//   Sweep.cpp         the sweep of a workgroup
//   StreamedSweep.cpp the same, with tiles that pass in parts
//   Results.cpp       output and lse
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H

#include "../Common/KernelOutline.h"
#include "../Common/TaskLoop.h"
#include "../Common/TiledForm.h"
#include "LaneProduct.h"
#include "TileCopy.h"

namespace attn::spv {

struct LaneKernel {
  TiledForm &form;
  LaneTiles tiles;

  /// An error when the tiling does not describe a kernel of lanes.
  static mlir::FailureOr<LaneKernel> plan(TiledForm &form);

  mlir::FloatType type() const { return form.accumulatorType; }
  /// Values of unseen keys may not reach the product.
  bool dropsUnseen() const { return form.value && form.value.getMask(); }
  /// The last of a thread's keys may lie behind the block.
  bool hasPaddedKeys() const {
    return form.tiling.blockKey % tiles.columnThreads != 0;
  }
};

/// What a thread knows once it runs; index values unless said.
struct Thread : LaneThread {
  const LaneKernel &kernel;
  /// Its place in the grid of threads.
  mlir::Value row, column;
  SharedTile query, block, probabilities, reduction, seen;

  Thread(GpuEmitter e, const LaneKernel &kernel);

  /// Combines a number a row over the threads that share it. Between two calls
  /// lies a barrier; where the tile streams, also between a call and what
  /// `block` holds next.
  Registers combineRows(const Registers &rows, Combine combine);
  /// Of the thread's row number `i`, within the tile.
  mlir::Value rowOf(int64_t i) {
    return e.add(row, i * kernel.tiles.rowThreads);
  }

private:
  Registers combineQuads(const Registers &rows, Combine combine);
};

/// What the queries and keys in shared memory add to the scores, [rows][keys].
Registers multiplyQueryKey(Thread &thread, Registers scores);
/// Writes the probabilities of the thread's keys with the numbers `first` to
/// `end`, of all probabilities [rows][keys], to shared memory, where the first
/// of the workgroup's keys with these numbers is key 0.
void storeProbabilities(Thread &thread, const Registers &probabilities,
                        int64_t first, int64_t end);
/// What the probabilities in shared memory add to `acc`, [rows][quads][4].
Registers multiplyProbabilitiesValue(Thread &thread, Registers acc);

/// The sweep of a task, from the scalars of the task to the results of the
/// sweep, which `layout` is bound to.
mlir::LogicalResult emitSweep(Thread &thread, mlir::IRMapping &scalars,
                              LaneLayout &layout);
/// The same where the tile streams.
mlir::LogicalResult emitStreamedSweep(Thread &thread, mlir::IRMapping &scalars,
                                      LaneLayout &layout);
/// Writes what a thread holds of a tile like the accumulator, whose rows are
/// shared by `columnThreads` threads.
mlir::LogicalResult writeTile(LaneThread &thread, mlir::IRMapping &scalars,
                              LaneLayout &layout,
                              mlir::vector::TransferWriteOp write,
                              int64_t columnThreads);
/// Writes a number a row, where `isWriter` holds.
mlir::LogicalResult writePerRow(LaneThread &thread, mlir::IRMapping &scalars,
                                LaneLayout &layout,
                                mlir::vector::TransferWriteOp write,
                                mlir::Value isWriter);
/// Writes output and lse of one task.
mlir::LogicalResult emitResults(Thread &thread, mlir::IRMapping &scalars,
                                LaneLayout &layout);

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANEKERNEL_H
