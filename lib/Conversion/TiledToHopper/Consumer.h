//===- Consumer.h - A consumer warpgroup and its task -----------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_CONSUMER_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_CONSUMER_H

#include "BlockWalk.h"
#include "Wgmma.h"

namespace attn::hopper {

/// What a consumer thread knows for all tasks; i32 unless said.
struct Consumer {
  Thread &thread;
  /// Of the consumer warpgroups, from 0; thread of the warpgroup; lane.
  mlir::Value group, inGroup, lane;
  /// i1: first lane of its warp, and of the four that share a row.
  mlir::Value isWarpLeader, isRowLeader;
  /// Its first row of the query tile and its first column of any tile.
  mlir::Value row, column;
};

/// A task that starts at the use `firstUse` of the key and value rings.
struct ConsumerTask {
  Slot querySlot;
  mlir::IRMapping scalars;
  TileSlicer slicer;
  AccumulatorLayout layout;
  std::unique_ptr<BlockWalk> walk;
  /// Of the warpgroup's rows.
  mlir::Value queryAddress, queryDescriptor;

  /// Waits for the query.
  ConsumerTask(Consumer &c, TaskOrder &order, mlir::Value round,
               mlir::Value firstUse);
};

/// Waits until the warpgroup may issue its products, and lets the next one.
void waitTurn(const Consumer &consumer);
void passTurn(const Consumer &consumer);

/// What a thread stored to shared memory, in sight of TMA and wgmma; and the
/// same for a warpgroup, whose threads meet.
void fenceAsyncProxy(GpuEmitter &e);
void publishToAsyncProxy(const Consumer &consumer);

/// Stores what a warpgroup holds of `tile`, 16-bit elements, to its 64 rows of
/// chunks of `rows` rows, which begin at `address`.
mlir::LogicalResult storeToShared(GpuEmitter &e, AccumulatorLayout &layout,
                                  mlir::Value tile, mlir::Value address,
                                  int64_t rows, mlir::Value inGroup);

/// Writes output and lse of the rows of one warpgroup.
mlir::LogicalResult emitEpilogue(Consumer &c, ConsumerTask &task);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_CONSUMER_H
