//===- BlockWalk.h - The blocks of a task that a warpgroup visits -*- C++ -*-=//
//
// Bounds of the sweep say which blocks a task has, and so how often it uses the
// rings. Masks that hide whole blocks leave that to the search
// (BlockSearch.cpp): a warpgroup learns of each block, and whether another one
// follows, when the block has arrived. Both are walked in the same way:
//
//   enter the first block of which a row of the warpgroup sees something
//   let go of those in front of it
//   for each further block: wait for its keys; enter it
//   let go of those behind
//
// The walk goes from the first block to the last, or, where something is added
// to scores, from the last to the first: the reference of a stale softmax then
// starts where a causal mask puts the keys next to the queries, and biases that
// fall with the distance are greatest. Measured on an H200, that is 3 % slower
// where nothing is.
//
// Blocks that the right bound hides from a warpgroup, and not from others, come
// last or first. It starts with its first own block when the others start with
// theirs, and ends with them, which takes stages for all the blocks between.
//
// What a walk has to remember from block to block is its cursor: values that
// lead those that the sweep carries. Without a search there are none.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_BLOCKWALK_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_BLOCKWALK_H

#include "HopperKernel.h"

namespace attn::hopper {

/// The last column of the block that row `row` of the tile sees by the right
/// bound.
mlir::Value lastSeen(GpuEmitter &e, TiledForm &form, mlir::IRMapping scalars,
                     mlir::Value row);

class BlockWalk {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  struct Block {
    /// Uses of the key and value rings before this block's, and those before
    /// the use by the block in front of it (i32).
    mlir::Value use, before;
    /// The first key, an index; null where blocks are found.
    mlir::Value position = {};
  };

  /// `group` is the warpgroup. The walk starts at the use `firstUse` of the
  /// rings, and keeps the scalars of the block that was entered in `scalars`.
  static std::unique_ptr<BlockWalk> create(Thread &thread,
                                           mlir::IRMapping &scalars,
                                           mlir::Value group,
                                           mlir::Value firstUse);
  virtual ~BlockWalk() = default;

  /// The first block to multiply, which every task has.
  virtual Block first() = 0;
  /// Maps the scalars of a block whose keys have arrived. Returns the cursor.
  virtual Values enter(const Block &block) = 0;
  /// Called on the uses of keys and of values to let go of.
  using Skip = llvm::function_ref<void(mlir::Value key, mlir::Value value)>;
  /// Lets go of the blocks in front of the first. Returns the cursor.
  virtual Values skipInFront(const Values &cursor, Skip skip) = 0;
  /// Calls `body` on each further block. `carried` starts with the cursor.
  virtual Values
  forEach(mlir::ValueRange carried,
          llvm::function_ref<Values(const Block &, mlir::ValueRange)> body) = 0;
  /// The last block that was entered.
  virtual Block last(const Values &cursor) = 0;
  /// Lets go of the blocks behind it. Returns the use behind them.
  virtual mlir::Value skipBehind(const Values &cursor, Skip skip) = 0;
};

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_BLOCKWALK_H
