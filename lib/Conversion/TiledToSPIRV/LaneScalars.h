//===- LaneScalars.h - Scalars of a task, reduced by each thread -*- C++ -*-==//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESCALARS_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESCALARS_H

#include "../Common/FlatScalars.h"

namespace attn::spv {

/// Every thread walks over the whole flat vector: all read one address at a
/// time, and none waits for another.
class LaneScalars : public FlatScalars {
public:
  LaneScalars(GpuEmitter &e, mlir::IRMapping &scalars)
      : FlatScalars(e, scalars, 0) {}

  mlir::FailureOr<mlir::Value>
  reduce(mlir::vector::MultiDimReductionOp op) override;
};

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANESCALARS_H
