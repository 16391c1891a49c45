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
#include "LaneThread.h"

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

/// A matrix of the tiled form in main memory, for one task. Rows past the end
/// and columns behind the last are zero.
class TileCopy {
public:
  /// `rows` of what `read` names go to `tile`, whose rows are `pitch` quads
  /// apart; `width` quads of each, or all.
  TileCopy(LaneThread &thread, const SharedTile &tile, int64_t rows,
           int64_t pitch, mlir::vector::TransferReadOp read,
           mlir::IRMapping &scalars, int64_t width = 0);

  /// Copies rows from `firstRow` (index) of the view on; those that are not
  /// seen are zero.
  using IsSeen =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value row)>;
  mlir::LogicalResult copy(mlir::Value firstRow, IsSeen isSeen = {});
  /// The same in two steps: a thread's quads, of each row from `firstQuad`
  /// (null: 0) on, and their way to shared memory.
  mlir::FailureOr<Registers> load(mlir::Value firstRow, mlir::Value firstQuad,
                                  IsSeen isSeen);
  Registers load(mlir::Value firstRow, mlir::Value firstQuad = {}) {
    return *load(firstRow, firstQuad, {});
  }
  void store(const Registers &loaded);

  /// Quads of the tile, of all threads together and of one.
  int64_t size() const { return rows * quads; }
  int64_t sizeOfThread() const {
    return llvm::divideCeil(size(), thread.threads);
  }

private:
  /// `isReal`: null where every row is.
  mlir::Value loadQuad(mlir::Value row, mlir::Value quad, mlir::Value firstRow,
                       mlir::Value isReal);
  mlir::Value isInside(mlir::Value row, mlir::Value firstRow);

  LaneThread &thread;
  GpuEmitter &e;
  SharedTile tile;
  int64_t rows, pitch, columns;
  /// Of a row: those that are copied, and those in main memory.
  int64_t quads, allQuads;
  /// Every row of a tile is one of the view; neighbours lie side by side.
  bool isWhole, isPacked;
  mlir::Value view;
};

/// Rows of a tile that a thread multiplies: `count` of them from number `first`
/// on, each `distance` further; consecutive rows lie `pitch` quads apart. One
/// behind the last row, `end`, repeats that; 0: there is none.
struct FactorRows {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t count, distance, end = 0;
};
/// Adds to `sums`, [left][right], the products of the rows of two tiles along
/// `depth` quads.
Registers multiplyRows(LaneThread &thread, const FactorRows &left,
                       const FactorRows &right, int64_t depth, Registers sums);

/// Numbers that a thread takes of each line of a tile: `vectors` from number
/// `first` on; lines lie `pitch` vectors apart.
struct FactorNumbers {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t vectors;
};
/// Quads that a thread takes of each row of a tile, as FactorRows has rows.
struct FactorQuads {
  const SharedTile &tile;
  int64_t pitch;
  mlir::Value first;
  int64_t count, distance, end = 0;
};
/// Adds to `sums`, [numbers][quads][4], the products of line and row number 0,
/// 1, ... `steps` - 1.
Registers multiplyLines(LaneThread &thread, const FactorNumbers &left,
                        const FactorQuads &right, int64_t steps,
                        Registers sums);

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
