//===- TileTask.h - One query block of one head -----------------*- C++ -*-===//
//
// A task is what runs in parallel: the rows [firstRow, firstRow + Br) of one
// head, against the keys that the head can see at all. This file finds its
// place in the operands; TileMask decides which keys it visits.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_TILETASK_H
#define ATTN_LIB_TRANSFORMS_TILETASK_H

#include "TileBuilder.h"
#include "attn/IR/Attn.h"

namespace attn {

/// The sizes of an op, constant where any operand states them.
struct AttentionSizes {
  Index batch, queryHeads, kvHeads, queryLength, kvLength;
  int64_t headDim, valueDim;
};
AttentionSizes getSizes(TileBuilder &b, AttentionOpInterface op);

/// The keys [first, first + count) of a batch are those that lengths and band
/// let some query see. The views of key and value are cropped to them, so a
/// NaN outside is never read.
struct KeyRange {
  /// Query i meets the diagonal at key i + diagonal.
  Index diagonal;
  Index first, count;
  /// No block reaches past the end of the sequence: no length test.
  bool isAligned;
  /// No block reaches past the range: the views are read in bounds.
  bool isWhole;
  /// Counted from the start of the sequence, some keys at the start may be
  /// hidden from every query.
  bool hasHiddenStart = false;
};

struct Task {
  AttentionOpInterface op;
  AttentionSizes sizes;
  mlir::Value batch, head;
  Index kvHead;
  /// The query rows [firstRow, rowEnd), at most Br of them.
  mlir::Value firstRow;
  Index rowEnd;
  /// Br divides the query length.
  bool rowsAligned;
  KeyRange keys;

  /// How many there are of the positions b, h, i and j that the regions see.
  std::array<Index, 4> counts() const {
    return {sizes.batch, sizes.queryHeads, sizes.queryLength, sizes.kvLength};
  }
};

//===--- Places in the operands -------------------------------------------===//

/// The part of `memref` at `offsets`, with the dimensions that `kept` marks.
mlir::Value subview(TileBuilder &b, mlir::Value memref,
                    llvm::ArrayRef<Index> offsets, llvm::ArrayRef<Index> sizes,
                    llvm::ArrayRef<bool> kept);

/// Rows [firstRow, firstRow + rows) of one head as a [rows, width] matrix.
mlir::Value headView(TileBuilder &b, mlir::Value operand, Layout layout,
                     mlir::Value batch, Index head, Index firstRow, Index rows,
                     int64_t width);

/// Reads past the end give `pad`; lanes that `mask` excludes are not read.
mlir::Value read(TileBuilder &b, mlir::VectorType type, mlir::Value view,
                 mlir::ValueRange indices, mlir::Value pad,
                 llvm::ArrayRef<bool> inBounds, mlir::Value mask = {});

/// The element of a rank-1 operand of ids, counts or logits.
mlir::Value loadElement(TileBuilder &b, mlir::Value operand, Index position);

/// A bias or a mask: broadcasts to [B, Hq, Sq, Skv] and is held no larger
/// than it varies. A dimension broadcasts when its type says 1.
class BroadcastOperand {
public:
  BroadcastOperand(TileBuilder &b, const Task &task, mlir::Value operand);
  /// The part beside the block that starts at `firstKey` of the range.
  TileValue read(TileBuilder &b, const Task &task, mlir::Value firstKey);
  /// Of a gradient that has the operand's shape: what varies as it does.
  mlir::Operation *write(TileBuilder &b, const Task &task, mlir::Value firstKey,
                         TileValue value);
  Extent getExtent() const { return extent; }

private:
  /// Where the part begins, and which sides stay within the operand.
  void locate(TileBuilder &b, const Task &task, mlir::Value firstKey,
              llvm::SmallVectorImpl<mlir::Value> &indices,
              llvm::SmallVectorImpl<bool> &inBounds);

  mlir::Value view;
  Extent extent = Extent::Uniform;
};

//===--- Positions that the regions see -----------------------------------===//

/// i and j of the block. Kept within the sequence, a padded row or column
/// repeats the last real one: what a region reads there is in range.
TileValue queryPositions(TileBuilder &b, const Task &task);
TileValue keyPositions(TileBuilder &b, const Task &task, mlir::Value firstKey,
                       bool isInRange);

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILETASK_H
