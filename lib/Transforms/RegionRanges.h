//===- RegionRanges.h - What integers of a region can be --------*- C++ -*-===//
//
// A kernel runs score_mod and mask_mod on whole tiles, on pairs that are hidden
// and on rows and columns of padding too. Nobody uses what comes out for them,
// but reading out of a captured tensor, or dividing by zero, would do harm all
// the same. What this finds to be harmless for every pair needs no precaution.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_REGIONRANGES_H
#define ATTN_LIB_TRANSFORMS_REGIONRANGES_H

#include "TileBuilder.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace attn {

class RegionRanges {
public:
  /// The positions b, h, i, j of a region, and how many there are of each.
  RegionRanges(mlir::ValueRange positions, llvm::ArrayRef<Index> counts);

  /// Ops are visited in their order.
  void visit(mlir::Operation &op);

  /// Of an integer or index.
  mlir::ConstantIntRanges of(mlir::Value value) const;
  bool isNonNegative(mlir::Value value) const;
  /// Whether it is less than a size, which is dynamic or not.
  bool isBelow(mlir::Value value, int64_t size) const;

private:
  llvm::DenseMap<mlir::Value, mlir::ConstantIntRanges> known;
};

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_REGIONRANGES_H
