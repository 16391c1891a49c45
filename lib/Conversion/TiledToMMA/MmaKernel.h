//===- MmaKernel.h - One attention kernel of warps --------------*- C++ -*-===//
//
// What the pieces of the mapping share. Each idea has its file:
//
//   TiledToMMA.cpp    the pass: one kernel from one tiled form
//   MmaKernel.cpp     shared memory, what can be mapped
//   TileCopy.cpp      tiles from main memory to shared memory
//   MmaProduct.cpp    tile products of a warp by mma.sync
//   LaneProduct.cpp   the same by multiply-adds, for f32 and f64
//   Sweep.cpp         the sweep of a block of threads: stages, masks, softmax
//   Results.cpp       output and lse
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

struct MmaKernel {
  TiledForm &form;
  MmaTiles tiles;
  int64_t warps = 0, stages = 0;
  /// Byte offsets in shared memory.
  int64_t queryAt = 0, keyAt = 0, valueAt = 0, probabilitiesAt = 0, seenAt = 0;
  int64_t sharedBytes = 0;

  /// An error when the tiling does not describe a kernel of warps.
  static mlir::FailureOr<MmaKernel> plan(TiledForm &form);

  bool usesTensorCores() const { return form.tiling.product == "mma"; }
  int64_t threads() const { return warps * MmaTiles::kLanes; }
  int64_t elementBytes() const { return form.elementType.getWidth() / 8; }
  /// Values of unseen keys may not reach the product.
  bool dropsUnseen() const { return form.value && form.value.getMask(); }
};

/// What a thread knows once it runs; i32 unless said.
struct Thread {
  GpuEmitter e;
  const MmaKernel &kernel;
  /// Thread of the block, lane, warp of the block; byte address of shared
  /// memory.
  mlir::Value id, lane, warp, shared;
  /// Its warp's first row of the query tile, and which part of the
  /// accumulator's columns the warp has.
  mlir::Value warpRow, part;

  Thread(GpuEmitter e, const MmaKernel &kernel, mlir::Value shared);

  /// The thread of the block once more: what follows from it is computed where
  /// it is used, and takes no register from the rest of the sweep.
  mlir::Value readId();
  mlir::Value isRowLeader() { return e.equals(e.bitAnd(lane, 3), 0); }
  /// The row of half 0 within a native tile, and the column of group 0.
  mlir::Value row() { return e.div(lane, 4); }
  mlir::Value column() { return e.mul(e.bitAnd(lane, 3), 2); }
  void barrier();
};

/// 16 rows of a warp: the unit of the products and of the softmax.
struct Slab {
  mlir::IRMapping scalars;
  TileSlicer slicer;
  AccumulatorLayout layout;
  FragmentSoftmax softmax;

  Slab(Thread &thread, int64_t number);
};

/// A matrix of the tiled form in main memory, for one task.
class TileCopy {
public:
  TileCopy(Thread &thread, const MmaTiles::Tile &tile,
           mlir::vector::TransferReadOp read, mlir::IRMapping &scalars);

  /// Copies `rows` of the tile from `firstRow` (index) of the view on to shared
  /// memory, asynchronously where alignment allows. Rows past the end and
  /// columns behind the last are zero.
  void issue(mlir::Value address, mlir::Value firstRow);
  /// Once for each stage, before its first copy: the columns behind the last,
  /// which an asynchronous copy leaves alone.
  void clearPadding(mlir::Value address, int64_t rows);

private:
  void issueUnits(mlir::Value address, mlir::Value firstRow);
  void issueElements(mlir::Value address, mlir::Value firstRow);

  Thread &thread;
  GpuEmitter &e;
  const MmaTiles::Tile &tile;
  int64_t columns, elementBytes;
  /// Bytes of an asynchronous copy; 0: none can be.
  int64_t unit = 0;
  /// i64: address of row 0, bytes from row to row and column to column; index:
  /// rows of the view. i1: units are aligned.
  mlir::Value base, rowBytes, columnBytes, rows, isAligned;
  bool isWhole;
};

void commitCopies(GpuEmitter &e);
/// Until no more than `pending` groups of copies run.
void waitCopies(GpuEmitter &e, int64_t pending);
/// Rows of a value stage whose key is not seen become zeros.
mlir::LogicalResult clearUnseen(
    Thread &thread, mlir::Value address,
    llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value key)> isSeen);

/// Scores of the block whose keys lie at `key`, for each slab, and what the
/// probabilities of each slab add to its part of the accumulator. `address` is
/// a byte address in shared memory.
llvm::SmallVector<Fragment> multiplyQueryKey(Thread &thread, mlir::Value key);
void multiplyProbabilitiesValue(Thread &thread,
                                llvm::ArrayRef<Registers> probabilities,
                                llvm::MutableArrayRef<Fragment> acc,
                                mlir::Value value);

namespace tensorcore {
llvm::SmallVector<Fragment> multiplyQueryKey(Thread &thread, mlir::Value key);
void multiplyProbabilitiesValue(Thread &thread,
                                llvm::ArrayRef<Registers> probabilities,
                                llvm::MutableArrayRef<Fragment> acc,
                                mlir::Value value);
} // namespace tensorcore
namespace lanes {
llvm::SmallVector<Fragment> multiplyQueryKey(Thread &thread, mlir::Value key);
void multiplyProbabilitiesValue(Thread &thread,
                                llvm::ArrayRef<Registers> probabilities,
                                llvm::MutableArrayRef<Fragment> acc,
                                mlir::Value value);
} // namespace lanes

/// The sweep of a task, from the scalars of the task to the results of the
/// sweep, which `slabs` are bound to.
mlir::LogicalResult emitSweep(Thread &thread, mlir::IRMapping &scalars,
                              std::deque<Slab> &slabs);
/// Writes output and lse of one task.
mlir::LogicalResult emitResults(Thread &thread, mlir::IRMapping &scalars,
                                std::deque<Slab> &slabs);

} // namespace attn::mma

#endif // ATTN_LIB_CONVERSION_TILEDTOMMA_MMAKERNEL_H
