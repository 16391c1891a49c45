//===- VectorProduct.h - Tile products by vector instructions ---*- C++ -*-===//
//
// The loops of the vector products, and what a lane does in one step of the
// reduction: multiply and add one element, or a pair.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H

#include "CpuKernel.h"

namespace attn::cpu {

/// One instruction: its operands in memory, and the instruction.
///
/// The right operand of a step is a register of factors, `depth` to each lane.
/// The left one is a word, as wide as an accumulator, that every lane gets.
class LaneProduct {
public:
  LaneProduct(const CpuKernel &kernel, int64_t depth, mlir::FloatType factor)
      : kernel(kernel), depth(depth), factor(factor) {}
  virtual ~LaneProduct() = default;

  /// A register of factors, and the steps of a reduction over `size`.
  mlir::VectorType registerType() const {
    return mlir::VectorType::get(kernel.width * depth, factor);
  }
  int64_t steps(int64_t size) const { return (size + depth - 1) / depth; }

  /// Whether keys must be packed to be read as factors.
  virtual bool packsKeys() const = 0;
  /// Calls `store` with the factors of `width` keys in each step.
  virtual void
  packKeys(Emitter &e, mlir::Value view, mlir::Value firstKey,
           llvm::function_ref<void(mlir::Value step, mlir::Value factors)>
               store) const = 0;
  /// Whether values must be packed to be read as factors.
  virtual bool packsValues() const = 0;
  /// The factors of `width` columns of `depth` keys.
  virtual mlir::Value packValues(Emitter &e, mlir::Value view, mlir::Value key,
                                 mlir::Value column, int64_t count) const = 0;
  /// `width` words of a query row.
  virtual mlir::Value loadQuery(Emitter &e, mlir::Value view, mlir::Value row,
                                mlir::Value column, int64_t count) const = 0;
  /// The words of `width` probabilities; `piece` becomes what they stand for.
  virtual mlir::Value packProbabilities(Emitter &e,
                                        mlir::Value &piece) const = 0;
  virtual mlir::Value multiplyAdd(Emitter &e, mlir::Value word,
                                  mlir::Value factors,
                                  mlir::Value sum) const = 0;

  const CpuKernel &kernel;
  const int64_t depth;
  const mlir::FloatType factor;
};

std::unique_ptr<TileProduct>
createVectorProduct(const CpuKernel &kernel,
                    std::unique_ptr<LaneProduct> lanes);

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_VECTORPRODUCT_H
