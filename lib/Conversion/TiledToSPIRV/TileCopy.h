//===- TileCopy.h - Tiles to shared memory ----------------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_TILECOPY_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_TILECOPY_H

#include "LaneThread.h"

namespace attn::spv {

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

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_TILECOPY_H
