//===- WarpScalars.h - Scalars of a task, reduced by a warp -----*- C++ -*-===//
//
// The lanes of a warp stride over a flat vector and combine what they found, so
// all threads have the scalar.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H
#define ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H

#include "FlatScalars.h"
#include "FragmentSoftmax.h"

namespace attn {

class WarpScalars : public FlatScalars {
public:
  /// `lane` is an index value, one of `lanes`. Elements are read without a
  /// branch.
  WarpScalars(GpuEmitter &e, mlir::IRMapping &scalars, mlir::Value lane,
              int64_t lanes = 32)
      : FlatScalars(e, scalars, 0), lane(lane), lanes(lanes) {}

  mlir::FailureOr<mlir::Value>
  reduce(mlir::vector::MultiDimReductionOp op) override;

protected:
  /// What all lanes have, combined; in all of them.
  virtual mlir::Value combineLanes(mlir::vector::CombiningKind kind,
                                   mlir::Value value);

  mlir::Value lane;
  int64_t lanes;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H
