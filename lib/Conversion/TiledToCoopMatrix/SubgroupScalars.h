//===- SubgroupScalars.h - Scalars of a task, of a subgroup -----*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_SUBGROUPSCALARS_H
#define ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_SUBGROUPSCALARS_H

#include "../Common/WarpScalars.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

namespace attn::coop {

/// As in a warp, by the shuffles of SPIR-V.
class SubgroupScalars : public WarpScalars {
public:
  using WarpScalars::WarpScalars;

protected:
  mlir::Value combineLanes(mlir::vector::CombiningKind kind,
                           mlir::Value value) override {
    mlir::Type word = e.b.getI32Type();
    for (int64_t distance = 1; distance < lanes; distance *= 2) {
      mlir::Value mask = mlir::spirv::ConstantOp::create(
          e.b, e.loc, word, e.b.getI32IntegerAttr(distance));
      mlir::Value other = mlir::spirv::GroupNonUniformShuffleXorOp::create(
          e.b, e.loc, value.getType(), mlir::spirv::Scope::Subgroup, value,
          mask);
      value = combine(kind, value, other);
    }
    return value;
  }
};

} // namespace attn::coop

#endif // ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_SUBGROUPSCALARS_H
