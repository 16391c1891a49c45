//===- BlockWalk.h - The blocks of a task that a warpgroup visits -*- C++ -*-=//
//
// Bounds of the sweep say which blocks a task has, and so how often it uses the
// rings. Masks that hide whole blocks leave that to the search
// (BlockSearch.cpp): a warpgroup learns of each block, and whether another one
// follows, when the block has arrived. Both are walked in the same way:
//
//   enter the first block
//   for each further block of which a row of the warpgroup sees something:
//     wait for its keys; enter it
//   let go of the rest
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

  /// All i32.
  struct Block {
    /// Uses of the key and value rings before this block's, and those before
    /// the use by the block in front of it.
    mlir::Value use, before;
    /// Counted from the start of the sweep; null where blocks are found.
    mlir::Value index = {};
  };

  /// `group` is the warpgroup. The walk starts at the use `firstUse` of the
  /// rings, and keeps the scalars of the block that was entered in `scalars`.
  static std::unique_ptr<BlockWalk> create(Thread &thread,
                                           mlir::IRMapping &scalars,
                                           mlir::Value group,
                                           mlir::Value firstUse);
  virtual ~BlockWalk() = default;

  /// The first block, which every task has.
  virtual Block first() = 0;
  /// Maps the scalars of a block whose keys have arrived. Returns the cursor.
  virtual Values enter(const Block &block) = 0;
  /// Calls `body` on each further block that the warpgroup works on. `carried`
  /// starts with the cursor.
  virtual Values
  forEach(mlir::ValueRange carried,
          llvm::function_ref<Values(const Block &, mlir::ValueRange)> body) = 0;
  /// The last block that was entered.
  virtual Block last(const Values &cursor) = 0;

  /// Whether blocks are left that the warpgroup sees nothing of (i1).
  virtual mlir::Value hasRest(const Values &cursor) = 0;
  /// Calls `skip` on the use of each of those, at least one, and `between` in
  /// front of all but the first.
  virtual Values skipRest(const Values &cursor,
                          llvm::function_ref<void(mlir::Value)> skip,
                          llvm::function_ref<void()> between) = 0;
  /// The use behind the last block of all.
  virtual mlir::Value nextUse(const Values &cursor) = 0;
  /// The same from the cursor of the next task, which has entered its first
  /// block.
  virtual mlir::Value firstUseOfNext(const Values &nextCursor) = 0;
};

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_BLOCKWALK_H
