//===- TileMask.h - Which keys a task visits and sees -----------*- C++ -*-===//
//
// Masks act at three sizes, the largest first, so that little is tested:
//
//   range    lengths and band crop the keys of a head        (computeKeyRange)
//   block    the sweep starts and ends where the band does; a block that
//            segments, mask or mask_mod hide whole is skipped          (reach)
//   element  blocks that straddle an edge compare positions       (visibility)
//
// The band: key j is visible to query i when
//     i + diagonal - left <= j <= i + diagonal + right.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_TILEMASK_H
#define ATTN_LIB_TRANSFORMS_TILEMASK_H

#include "TileTask.h"
#include <optional>

namespace attn {

KeyRange computeKeyRange(TileBuilder &b, AttentionOpInterface op,
                         const AttentionSizes &sizes, mlir::Value batch);

/// The same keys counted from the start of the sequence, for blocks that cover
/// all of it: every key has a gradient, also one that nobody sees.
KeyRange computeKeysFromStart(TileBuilder &b, AttentionOpInterface op,
                              const AttentionSizes &sizes, mlir::Value batch);

/// Rows [begin, end) that may see a key of a block; begin is a multiple of Br.
struct QueryRange {
  Index begin, end;
};
/// Of the block that starts at `firstKey`, counted from the start.
QueryRange computeQueryRange(TileBuilder &b, AttentionOpInterface op,
                             const AttentionSizes &sizes, const KeyRange &keys,
                             mlir::Value firstKey);

class TileMask {
public:
  /// Emits what one task needs before its sweep.
  TileMask(TileBuilder &b, const Task &task);

  /// First and one-past-last key of the sweep, relative to the range; the
  /// first is a multiple of Bc.
  Index sweepBegin() const { return begin; }
  Index sweepEnd() const { return end; }

  /// Emits what the block that starts at `firstKey` needs before its product.
  void enterBlock(mlir::Value firstKey);

  /// An i1 that is false when the whole block is hidden from the whole task;
  /// null when the sweep bounds already say it all.
  mlir::Value reach();

  /// -inf where `scores` are hidden, in blocks that need it.
  mlir::Value apply(mlir::Value scores);

  /// Keys of a block may be hidden from every row by more than lengths and
  /// band, which the range and the sweep know of.
  bool hidesKeys() { return testsEveryBlock() || bool(op.getQuerySegments()); }

  /// The keys of the block that some row sees (vector<Bc x i1>); null when
  /// the range already says it. Values of other keys must not be read: they
  /// may be NaN, and 0 * NaN is NaN. Known after `apply`.
  mlir::Value seenKeys() const { return seen; }

private:
  bool testsEveryBlock() { return bool(maskOperand) || op.hasMaskMod(); }
  void enterSegments();
  mlir::Value segmentRange(mlir::Value ids, bool isMax);
  mlir::Value edge();
  TileValue visibility();
  TileValue bandVisibility();
  TileValue maskModVisibility();
  mlir::Value seenBy(TileValue visible);
  mlir::Value select(TileValue visible, mlir::Value scores);

  TileBuilder &b;
  const Task &task;
  AttentionOpInterface op;
  std::optional<int64_t> left, right;
  Index begin, end;
  /// Blocks within [interiorBegin, interiorEnd) need no element test.
  std::optional<Index> interiorBegin, interiorEnd;
  std::optional<BroadcastOperand> maskOperand;

  /// Segment ids of the rows, their least and greatest; of the keys likewise.
  mlir::Value queryIds, queryIdMin, queryIdMax;
  mlir::Value keyIdView, keyIds, keyIdMin, keyIdMax;

  mlir::Value firstKey;
  TileValue visible;
  mlir::Value seen;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_TILEMASK_H
