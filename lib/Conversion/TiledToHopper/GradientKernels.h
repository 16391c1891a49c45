//===- GradientKernels.h - The kernels of the gradients ---------*- C++ -*-===//
//
// What the three kernels share. Each has its file:
//
//   GradientsToHopper.cpp  the pass: the kernels in order
//   GradientForm.cpp       what of the task loops has kernels here
//   QuerySum.cpp           the workspace, and the order of the sum of dQ in it
//   GradientRows.cpp       first kernel: delta, reference, zeros for the sum
//   GradientKeys.cpp       second kernel: shared memory, the copies
//   GradientConsumer.cpp   second kernel: the products of a warpgroup
//   GradientRoles.cpp      the same, where warpgroups share the keys
//   GradientTurns.cpp      second kernel: additions to dQ in one order
//   GradientQueries.cpp    third kernel: dQ from its sum
//   GradientSweep.cpp      third kernel: dQ by a sweep over key blocks
//   GradientSinks.cpp      fourth kernel, where it is asked for
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKERNELS_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKERNELS_H

#include "../Common/KernelOutline.h"
#include "../Common/TileSlicer.h"
#include "GradientForm.h"
#include "OperandTile.h"

namespace attn::hopper {

/// Which part of dQ a warpgroup makes for a block of keys, and where that lies.
/// dQ^T = K^T dS^T has the head dimension as rows, 64 a product: at D > 64 a
/// warpgroup has its chunk of them, below its share of the queries.
///
/// In the workspace the sum of a query block is kept as registers hold it, so
/// that a warp adds 512 bytes in a row, 16 a thread:
///
///     [warpgroup][8 queries][thread][half of 16 rows][2 queries]
///
/// A recomputed dQ has no sum.
struct QuerySum {
  int64_t groups, blockQuery, chunks;

  explicit QuerySum(const WarpgroupForm &form)
      : groups(form.tiling.groups), blockQuery(form.blockQuery),
        chunks(form.isAccumulated() ? llvm::divideCeil(form.headDim, kChunk)
                                    : 0) {}

  /// Queries of a warpgroup's part.
  int64_t queries() const {
    return chunks == 1 ? blockQuery / groups : blockQuery;
  }
  /// f32 numbers of a query block.
  int64_t elements() const { return blockQuery * chunks * kChunk; }
  /// The part of warpgroup `group` (i32): its first query and its chunk.
  mlir::Value firstQuery(GpuEmitter &e, mlir::Value group) const {
    return chunks == 1 ? e.mul(group, queries()) : e.i32(0);
  }
  mlir::Value chunk(GpuEmitter &e, mlir::Value group) const {
    return chunks == 1 ? e.i32(0) : group;
  }
  /// Bytes in front of what thread `inGroup` of the warpgroup has first; those
  /// of the next 8 queries are kStride further.
  mlir::Value offset(GpuEmitter &e, mlir::Value group,
                     mlir::Value inGroup) const {
    mlir::Value first = e.mul(group, queries() / 8 * kWarpgroup);
    return e.mul(e.add(first, inGroup), 16);
  }
  static constexpr int64_t kStride = kWarpgroup * 16;
};

/// Main memory that the kernels share, of all query blocks ("tiles", numbered
/// by batch, head, block): the sums of dQ, then a number a row: reference,
/// delta. Where sums are made in order, the turns of the warps follow, of one
/// tile more than there are, and the counter of tasks.
class Workspace {
public:
  static constexpr int64_t kTurnBytes = 4;

  Workspace(GpuEmitter &e, const WarpgroupForm &form,
            const KernelOutline &outline);
  /// Its bytes as a size expression.
  static mlir::FailureOr<std::string> bytes(const WarpgroupForm &form);

  /// The number of a tile from batch, head and block (i32).
  mlir::Value tile(mlir::Value batch, mlir::Value head, mlir::Value block);
  /// Addresses (i64) of what belongs to a tile.
  mlir::Value querySum(mlir::Value tile);
  mlir::Value reference(mlir::Value tile);
  mlir::Value delta(mlir::Value tile);
  /// Behind those of all tiles come the turns of one that is none.
  mlir::Value turns(mlir::Value tile);
  mlir::Value noTile() { return e.toI32(tiles); }
  mlir::Value taskCounter() { return turns(e.add(noTile(), 1)); }

private:
  mlir::Value at(mlir::Value tile, int64_t before, int64_t size);

  GpuEmitter &e;
  QuerySum sum;
  int64_t blockQuery;
  std::array<mlir::Value, 3> sizes;
  /// index: the first byte, and how many tiles there are.
  mlir::Value base, tiles;
};

/// Each adds a kernel to `module`, which is made where it is null.
mlir::LogicalResult emitRowKernel(WarpgroupForm &form,
                                  mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitKeyKernel(WarpgroupForm &form,
                                  mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitQueryKernel(WarpgroupForm &form,
                                    mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitSweepKernel(WarpgroupForm &form,
                                    mlir::gpu::GPUModuleOp &module);
mlir::LogicalResult emitSinkKernel(WarpgroupForm &form,
                                   mlir::gpu::GPUModuleOp &module);

/// What the threads of a warp-specialised kernel begin with: the barriers of
/// `rings`, then the producer's thread and the consumer warpgroups, whose
/// number `consume` gets (i32).
mlir::LogicalResult specialiseWarpgroups(
    GpuEmitter &e, mlir::Value id, mlir::Value shared,
    llvm::ArrayRef<const Ring *> rings, llvm::function_ref<void()> produce,
    llvm::function_ref<mlir::LogicalResult(mlir::Value)> consume);

/// Zeros in the rows of a tile in shared memory that the view behind it leaves
/// out, where lengths crop it: TMA has copied what is there, perhaps NaN. Of
/// `threads` threads, this is number `me`. `row` is the tile's first row of the
/// view (index).
void clearCropped(GpuEmitter &e, const OperandTile &tile,
                  mlir::IRMapping &scalars, mlir::Value row,
                  mlir::Value address, mlir::Value me, int64_t threads,
                  llvm::function_ref<void()> whenCleared);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTKERNELS_H
