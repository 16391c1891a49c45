//===- MmaKernel.h - One attention kernel of warps --------------*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToMMA.cpp    the pass: one kernel from one tiled form
//   MmaKernel.cpp     shared memory, what can be mapped
//   TileCopy.cpp      tiles from main memory to shared memory
//   MmaProduct.cpp    tile products of a warp by mma.sync
//   LaneProduct.cpp   the same by multiply-adds, for f32 and f64
//   SweepBlocks.cpp   the blocks of a sweep that the masks reach
//   SeenKeys.cpp      rows of shared memory whose key nobody sees
//   Sweep.cpp         the sweep of a block of threads: stages, masks, softmax
//   Results.cpp       output and lse
//
// The kernels of the gradients (GradientKernel.h) use what is not the
// softmax's.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOMMA_MMAKERNEL_H
#define ATTN_LIB_CONVERSION_TILEDTOMMA_MMAKERNEL_H

#include "../Common/FragmentSoftmax.h"
#include "../Common/KernelOutline.h"
#include "../Common/TaskLoop.h"
#include "../Common/WarpScalars.h"
#include "attn/Target/MmaTiles.h"
#include <deque>

namespace attn::mma {

/// What products, copies and threads need to know of a kernel.
struct WarpKernel {
  mlir::FloatType elementType, accumulatorType;
  bool usesTensorCores = false;
  int64_t warps = 0, stages = 0;
  /// See MmaTiles.
  int64_t split = 1, slabs = 1;
  /// Where the "fma" product keeps left sides of all warps; byte offset in
  /// shared memory.
  MmaTiles::Tile exchange;
  int64_t exchangeAt = 0, sharedBytes = 0;

  int64_t threads() const { return warps * MmaTiles::kLanes; }
  int64_t elementBytes() const {
    return elementType.getIntOrFloatBitWidth() / 8;
  }
};

struct MmaKernel : WarpKernel {
  TiledForm &form;
  MmaTiles tiles;
  /// Byte offsets in shared memory.
  int64_t queryAt = 0, keyAt = 0, valueAt = 0, seenAt = 0;

  /// An error when the tiling does not describe a kernel of warps.
  static mlir::FailureOr<MmaKernel> plan(TiledForm &form);

private:
  explicit MmaKernel(TiledForm &form);
};

/// What a thread knows once it runs; i32 unless said.
struct Thread {
  GpuEmitter e;
  const WarpKernel &kernel;
  /// Thread of the block, lane, warp of the block; byte address of shared
  /// memory.
  mlir::Value id, lane, warp, shared;
  /// Its warp's first row of the query tile, and which part of the
  /// accumulator's columns the warp has.
  mlir::Value warpRow, part;

  Thread(GpuEmitter e, const WarpKernel &kernel, mlir::Value shared);

  /// The thread of the block once more: what follows from it is computed where
  /// it is used, and takes no register from the rest of the sweep.
  mlir::Value readId();
  mlir::Value isRowLeader() { return e.equals(e.bitAnd(lane, 3), 0); }
  /// The row of half 0 within a native tile, and the column of group 0.
  mlir::Value row() { return e.div(lane, 4); }
  mlir::Value column() { return e.mul(e.bitAnd(lane, 3), 2); }
  void barrier();
};

/// A tile that begins at a byte address (i32) of shared memory.
struct SharedTile {
  mlir::Value address;
  const MmaTiles::Tile &tile;
};

/// 16 rows of a warp: the unit of the products and of the softmax.
struct Slab {
  mlir::IRMapping scalars;
  TileSlicer slicer;
  AccumulatorLayout layout;
  FragmentSoftmax softmax;

  Slab(Thread &thread, TiledForm &form, int64_t number);
};

/// A matrix of the tiled form in main memory, for one task.
class TileCopy {
public:
  /// Elements of another type than the kernel's are converted on the way.
  TileCopy(Thread &thread, const MmaTiles::Tile &tile,
           mlir::vector::TransferReadOp read, mlir::IRMapping &scalars);

  /// Copies `rows` of the tile from `firstRow` (index) of the view on to shared
  /// memory, asynchronously where alignment allows. Rows past the end and
  /// columns behind the last are zero.
  void issue(mlir::Value address, mlir::Value firstRow);

private:
  void issueUnits(mlir::Value address, mlir::Value firstRow);
  void issueElements(mlir::Value address, mlir::Value firstRow);
  /// The bits of an element as the tile has it.
  mlir::Value convert(mlir::Value bits);

  Thread &thread;
  GpuEmitter &e;
  const MmaTiles::Tile &tile;
  mlir::FloatType source;
  int64_t columns, elementBytes, sourceBytes;
  /// Bytes of an asynchronous copy; 0: none can be.
  int64_t unit = 0;
  /// i64: address of row 0, bytes from row to row and column to column; index:
  /// rows of the view. i1: units are aligned.
  mlir::Value base, rowBytes, columnBytes, rows, isAligned;
  bool isWhole;
};

/// Once for each stage, before its first copy: the columns behind the last,
/// which an asynchronous copy leaves alone.
void clearPadding(Thread &thread, const MmaTiles::Tile &tile, int64_t columns,
                  mlir::Value address, int64_t rows);
void commitCopies(GpuEmitter &e);
/// Until no more than `pending` groups of copies run.
void waitCopies(GpuEmitter &e, int64_t pending);

/// left * right^T for each slab: the warp's rows of `left`, all rows of
/// `right`.
llvm::SmallVector<Fragment> multiplyRows(Thread &thread, SharedTile left,
                                         SharedTile right);
/// acc += left * right, of each slab and the warp's part of the columns.
void multiplyColumns(Thread &thread, llvm::ArrayRef<Registers> left,
                     llvm::MutableArrayRef<Fragment> acc, SharedTile right);

namespace tensorcore {
llvm::SmallVector<Fragment> multiplyRows(Thread &thread, SharedTile left,
                                         SharedTile right);
void multiplyColumns(Thread &thread, llvm::ArrayRef<Registers> left,
                     llvm::MutableArrayRef<Fragment> acc, SharedTile right);
} // namespace tensorcore
namespace lanes {
llvm::SmallVector<Fragment> multiplyRows(Thread &thread, SharedTile left,
                                         SharedTile right);
void multiplyColumns(Thread &thread, llvm::ArrayRef<Registers> left,
                     llvm::MutableArrayRef<Fragment> acc, SharedTile right);
} // namespace lanes

/// The blocks of a sweep that the masks reach.
class SweepBlocks {
public:
  /// Whether the thread has a visible pair among its elements of the block with
  /// these scalars (i1).
  using AnyVisible =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::IRMapping &)>;

  /// `reach` and `seen` as in TiledForm.
  SweepBlocks(Thread &thread, mlir::scf::ForOp sweep, mlir::scf::IfOp reach,
              mlir::vector::MultiDimReductionOp seen, int64_t step)
      : thread(thread), e(thread.e), sweep(sweep), reach(reach), seen(seen),
        step(step) {}

  /// The scalars of the block at `position` (i32), after those of the task.
  mlir::FailureOr<mlir::IRMapping> enter(const mlir::IRMapping &task,
                                         mlir::Value position);
  /// The first block from `position` on that the masks reach, or a position
  /// that is not below `end`; all threads ask together.
  mlir::FailureOr<mlir::Value> findReached(const mlir::IRMapping &task,
                                           mlir::Value position,
                                           mlir::Value end,
                                           AnyVisible anyVisible);

private:
  mlir::FailureOr<mlir::Value> isReached(const mlir::IRMapping &task,
                                         mlir::Value position,
                                         AnyVisible anyVisible);

  Thread &thread;
  GpuEmitter &e;
  mlir::scf::ForOp sweep;
  mlir::scf::IfOp reach;
  mlir::vector::MultiDimReductionOp seen;
  int64_t step;
};

/// Whether any element of what the thread has of a tile of booleans is true.
mlir::Value anyOf(GpuEmitter &e, const Fragment &booleans);

/// Which keys of a block no row of the task sees. Their rows of a tile may hold
/// NaN, and are cleared in shared memory before they are multiplied by zeros.
class SeenKeys {
public:
  /// `keys` is vector<Bc x i1> of the tiled form, null where all keys are seen;
  /// `seen` and `masked` as in TiledForm. There are `words` words for each slab
  /// of each warp from byte `at` of shared memory on.
  SeenKeys(Thread &thread, mlir::Value keys,
           mlir::vector::MultiDimReductionOp seen, mlir::scf::IfOp masked,
           int64_t blockKey, int64_t at, int64_t words)
      : thread(thread), e(thread.e), keys(keys), seen(seen), masked(masked),
        blockKey(blockKey), at(at), words(words) {}

  /// Where masks are tested: a bit for every key that some row of the slab
  /// sees, for the others to read.
  mlir::LogicalResult note(AccumulatorLayout &layout, int64_t slab);
  /// Clears the rows of a stage. All threads do so together.
  mlir::LogicalResult clear(TileSlicer &slicer, mlir::IRMapping &scalars,
                            SharedTile stage);

private:
  mlir::FailureOr<mlir::Value> isSeen(TileSlicer &slicer, mlir::Value key);
  mlir::LogicalResult clearRows(TileSlicer &slicer, SharedTile stage);
  mlir::Value addressOf(mlir::Value slab);

  Thread &thread;
  GpuEmitter &e;
  mlir::Value keys;
  mlir::vector::MultiDimReductionOp seen;
  mlir::scf::IfOp masked;
  int64_t blockKey, at, words;
};

/// The sweep of a task, from the scalars of the task to the results of the
/// sweep, which `slabs` are bound to.
mlir::LogicalResult emitSweep(Thread &thread, const MmaKernel &kernel,
                              mlir::IRMapping &scalars,
                              std::deque<Slab> &slabs);
/// Writes output and lse of one task.
mlir::LogicalResult emitResults(Thread &thread, const MmaKernel &kernel,
                                mlir::IRMapping &scalars,
                                std::deque<Slab> &slabs);
/// Writes what the thread has of a tile, of which a warp has `columns` columns.
mlir::LogicalResult writeTile(Thread &thread, mlir::IRMapping &scalars,
                              AccumulatorLayout &layout,
                              mlir::vector::TransferWriteOp write,
                              int64_t columns);

} // namespace attn::mma

#endif // ATTN_LIB_CONVERSION_TILEDTOMMA_MMAKERNEL_H
