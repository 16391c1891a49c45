//===- FlatScalars.h - Scalars of a task, flat vectors included -*- C++ -*-===//
//
// Most scalars of the tiled form are cloned into every thread. Some are reduced
// from a flat vector: the least and the greatest segment id of a block, whether
// any of its keys is seen. How the threads share that work is the back end's.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_FLATSCALARS_H
#define ATTN_LIB_CONVERSION_COMMON_FLATSCALARS_H

#include "GpuEmitter.h"
#include "TileSlicer.h"

namespace attn {

class FlatScalars {
public:
  virtual ~FlatScalars() = default;

  using Reduce = llvm::function_ref<mlir::FailureOr<mlir::Value>(
      mlir::vector::MultiDimReductionOp)>;

  /// Clones the scalars of `block` whose operands are there. `reduceAny` makes
  /// the reductions to an i1; without it they and what follows from them are
  /// left out.
  mlir::LogicalResult clone(mlir::Block &block, Reduce reduceAny = {});
  /// A reduction of a flat vector, the same in all threads.
  virtual mlir::FailureOr<mlir::Value>
  reduce(mlir::vector::MultiDimReductionOp op) = 0;

protected:
  /// Elements are read as vectors of `width`, 1 or 0; see TileSlicer.
  FlatScalars(GpuEmitter &e, mlir::IRMapping &scalars, int64_t width)
      : e(e), scalars(scalars), slicer(e.b, e.loc, scalars), width(width) {}

  mlir::FailureOr<mlir::Value> element(mlir::Value vector, mlir::Value at);
  mlir::Value combine(mlir::vector::CombiningKind kind, mlir::Value x,
                      mlir::Value y);

  GpuEmitter &e;
  mlir::IRMapping &scalars;
  TileSlicer slicer;
  int64_t width;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_FLATSCALARS_H
