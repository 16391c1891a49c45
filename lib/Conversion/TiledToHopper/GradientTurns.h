//===- GradientTurns.h - Additions to dQ in one order -----------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTTURNS_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTTURNS_H

#include "GradientKeys.h"

namespace attn::hopper {

/// The number of the block's task: of several heads in turn, and of a head's
/// key blocks the last one first, in the order in which blocks of threads
/// start. For all threads.
mlir::Value takeTask(KeyThread &thread);

/// The first row that the key block behind task `number` adds to (i32), beyond
/// all rows where it adds to none.
mlir::Value firstRowBehind(KeyThread &thread, mlir::Value number);

/// What a warp of the consumers does around its additions.
class GradientTurns {
public:
  /// `warp` counts all consumers (i32).
  GradientTurns(KeyThread &thread, Workspace &workspace, mlir::Value warp,
                mlir::Value isLeader)
      : thread(thread), e(thread.e), workspace(workspace), warp(warp),
        isLeader(isLeader) {}

  /// Until the key block behind this one has added to `tile`, whose first row
  /// is `row`.
  void await(mlir::Value tile, mlir::Value row);
  /// What the warp has added to `tile` can be built on.
  void pass(mlir::Value tile);

private:
  /// The key block of this task, counted from 1: turns begin at 0.
  mlir::Value mark();
  mlir::Value address(mlir::Value tile);

  KeyThread &thread;
  GpuEmitter &e;
  Workspace &workspace;
  mlir::Value warp, isLeader;
};

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTTURNS_H
