//===- WarpScalars.h - Scalars of a task, flat vectors included -*- C++ -*-===//
//
// Most scalars of the tiled form are cloned into every thread. Some are reduced
// from a flat vector: the least and the greatest segment id of a block, whether
// any of its keys is seen. The lanes of a warp stride over such a vector and
// combine what they found, so all threads have the scalar.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H
#define ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H

#include "FragmentSoftmax.h"

namespace attn {

class WarpScalars {
public:
  /// `lane` is an index value.
  WarpScalars(GpuEmitter &e, mlir::IRMapping &scalars, mlir::Value lane)
      : e(e), scalars(scalars), slicer(e.b, e.loc, scalars), lane(lane) {}

  using Reduce = llvm::function_ref<mlir::FailureOr<mlir::Value>(
      mlir::vector::MultiDimReductionOp)>;

  /// Clones the scalars of `block` whose operands are there. `reduceAny` makes
  /// the reductions to an i1; without it they and what follows from them are
  /// left out.
  mlir::LogicalResult clone(mlir::Block &block, Reduce reduceAny = {});
  /// A reduction of a flat vector.
  mlir::FailureOr<mlir::Value> reduce(mlir::vector::MultiDimReductionOp op);

private:
  mlir::FailureOr<mlir::Value> element(mlir::Value vector, mlir::Value at);

  GpuEmitter &e;
  mlir::IRMapping &scalars;
  TileSlicer slicer;
  mlir::Value lane;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_WARPSCALARS_H
