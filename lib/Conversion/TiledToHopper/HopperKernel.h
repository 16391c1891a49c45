//===- HopperKernel.h - One warp-specialised attention kernel ---*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToHopper.cpp  the pass: producer and consumers of one kernel
//   HopperKernel.cpp   shared memory, tensor maps, what can be mapped
//   OperandTile.cpp    tiles of arguments as TMA copies them
//   Ring.cpp           stages of shared memory between producer and consumers
//   TileOrder.cpp      the persistent grid: which task a block takes next
//   Producer.cpp       the thread that issues the copies
//   BlockSearch.cpp    which blocks the masks reach, where they hide whole ones
//   ValueInspection.cpp  values that no row sees, kept from the product
//   Wgmma.cpp          tile products of a warpgroup
//   Consumer.cpp       the sweep of a warpgroup: products and softmax
//   BlockWalk.cpp      the blocks that a warpgroup visits
//   Turns.cpp          which warpgroup has the tensor cores
//   Epilogue.cpp       output and lse; the thread that copies the output
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_HOPPERKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_HOPPERKERNEL_H

#include "../Common/FragmentSoftmax.h"
#include "../Common/KernelOutline.h"
#include "../Common/TaskLoop.h"
#include "../Common/TiledForm.h"
#include "OperandTile.h"

namespace attn::hopper {

/// Tensor maps of a kernel by what they copy.
enum Map { QueryMap, KeyMap, ValueMap, OutputMap, kMaps };

struct HopperKernel {
  TiledForm &form;
  int64_t groups = 0, stages = 0, queryStages = 0;
  int64_t headChunks = 0, valueChunks = 0;
  OperandTile query, key, value, output;
  /// The output of a task leaves through the stage that its queries came by.
  Ring queryRing, keyRing, valueRing, outputRing;
  /// Where masks hide whole blocks: the blocks that are left, and the barriers
  /// of values that have been inspected. Empty elsewhere.
  Ring foundRing, inspectedRing;
  /// Then also the byte offset of a table of the ids of blocks: so many entries
  /// of two ids, i64 at most.
  int64_t rangesAt = 0;
  static constexpr int64_t kRanges = 128, kRangeBytes = 16;
  int64_t sharedBytes = 0;
  /// Byte offset of the tasks in flight, one for each query stage.
  int64_t tasksAt = 0;
  /// Byte offset of the tile of ones that P is multiplied by for the row sums,
  /// where the reference is raised and values fill whole chunks.
  std::optional<int64_t> onesAt;
  /// The longest tasks come first, and rounds alternate in direction.
  bool balances = false;

  explicit HopperKernel(TiledForm &form) : form(form) {}
  /// An error when TMA or wgmma cannot take the form.
  static mlir::FailureOr<HopperKernel> plan(TiledForm &form);

  /// Whether blocks are visited from the last to the first: where something is
  /// added to scores, see BlockWalk.h, and where blocks are searched for, since
  /// under a causal mask the first ones are found next to the diagonal.
  bool walksBackward() const {
    return searches() || form.finished != form.rowMax->getOperand(0);
  }
  bool searches() const { return bool(form.reach); }
  /// The registers of acc, and with it those of the row sums.
  int64_t accElements() const { return form.valueDim / 2 + (onesAt ? 4 : 0); }
  /// The ring whose stages hold values that may be multiplied.
  const Ring &readyValues() const {
    return searches() ? inspectedRing : valueRing;
  }

  int64_t threads() const { return (groups + 1) * kWarpgroup; }
  int64_t queryBytes() const {
    return form.blockQuery * headChunks * kChunkRowBytes;
  }
  int64_t blockKey() const { return form.blockKey; }
  Launch launch(llvm::StringRef tasks) const;

private:
  void placeRings();
};

/// What a thread knows once it runs.
struct Thread {
  GpuEmitter e;
  const HopperKernel &kernel;
  /// The kernel's arguments, maps, and values outside of the task loop.
  const KernelOutline &outline;
  /// i32: thread of the block, byte address of shared memory.
  mlir::Value id, shared;
};

/// The tasks of one block of the grid, in order (TileOrder.cpp).
class TaskOrder {
public:
  explicit TaskOrder(Thread &thread);
  /// How many there are (i32).
  mlir::Value rounds() const { return myRounds; }
  /// Where a task lies (i32).
  struct Task {
    mlir::Value batch, head, block;
  };
  Task taskOf(mlir::Value round);
  /// The producer finds a task and leaves it beside the query's barriers: it
  /// takes divisions, which the others need not repeat.
  void publish(const Task &task, const Slot &slot);
  /// What was published with a query that has arrived.
  Task read(const Slot &slot);
  /// The scalars of a task.
  mlir::IRMapping enter(const Task &task);

private:
  mlir::Value numberOf(mlir::Value round);
  mlir::Value address(const Slot &slot);

  Thread &thread;
  GpuEmitter &e;
  mlir::Value batch, heads, blocks, allHeads, count, me, width, myRounds;
  HeadGroups groups;
};

/// The blocks of the task's sweep (i32). A task without keys sweeps one block,
/// all of it hidden, so that every task writes its rows in the same way.
mlir::Value countBlocks(GpuEmitter &e, TiledForm &form,
                        mlir::IRMapping &scalars);

/// A block that the masks reach (BlockSearch.cpp); i32. The position is that of
/// its first key, `next` that of the next block of the task or -1, and
/// `isMasked` is not 0 where elements have to be tested.
struct FoundBlock {
  mlir::Value position, next, isMasked;
};
/// Use `use` of the key and value rings: when it has been found, or when that
/// is known.
FoundBlock waitFound(Thread &thread, mlir::Value use);
FoundBlock readFound(Thread &thread, mlir::Value use);
/// Maps the scalars of the block. Without `isMasked` the condition of the
/// masks is left out.
void enterFound(GpuEmitter &e, TiledForm &form, const FoundBlock &found,
                mlir::IRMapping &scalars);

/// The warp that looks for blocks, and the one that inspects values.
mlir::LogicalResult emitSearch(Thread &thread);
mlir::LogicalResult emitInspection(Thread &thread);
/// The thread that fills the rings, and the one that empties the output's.
void emitProducer(Thread &thread);
void emitOutputCopies(Thread &thread);
/// One consumer warpgroup; `group` counts from 0 (i32).
mlir::LogicalResult emitConsumer(Thread &thread, mlir::Value group);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_HOPPERKERNEL_H
