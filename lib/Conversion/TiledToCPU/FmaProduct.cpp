//===- FmaProduct.cpp - Multiply-add of one element a lane ----------------===//
//
// Factors are of the accumulator's type: f16 and bf16 are widened when they are
// packed, or where they are read when the tiling packs nothing. Values that are
// whole registers of that type already are always read where they lie.
//
//===----------------------------------------------------------------------===//

#include "VectorProduct.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

namespace {

class FmaLanes : public LaneProduct {
public:
  explicit FmaLanes(const CpuKernel &kernel)
      : LaneProduct(kernel, 1, kernel.type) {}

  void packKeys(Emitter &e, Value view, Value firstKey,
                llvm::function_ref<void(Value, Value)> store) const override;
  bool packsKeys() const override { return kernel.form.tiling.pack; }
  bool packsValues() const override {
    return (packsKeys() && kernel.form.elementType != kernel.type) ||
           kernel.valueColumns != kernel.form.valueDim;
  }
  Value packValues(Emitter &e, Value view, Value key, Value column,
                   int64_t count) const override {
    return loadWidened(e, view, key, column, count);
  }
  Value loadQuery(Emitter &e, Value view, Value row, Value column,
                  int64_t count) const override {
    return loadWidened(e, view, row, column, count);
  }
  Value packProbabilities(Emitter &e, Value &piece) const override {
    return piece;
  }
  Value multiplyAdd(Emitter &e, Value word, Value factors,
                    Value sum) const override {
    return vector::FMAOp::create(e.b, e.loc, e.splat(kernel.vector, word),
                                 factors, sum);
  }

private:
  Value loadWidened(Emitter &e, Value view, Value row, Value column,
                    int64_t count) const;
};

} // namespace

std::unique_ptr<TileProduct> cpu::createFmaProduct(const CpuKernel &kernel) {
  return std::make_unique<VectorProduct>(kernel,
                                         std::make_unique<FmaLanes>(kernel));
}

Value FmaLanes::loadWidened(Emitter &e, Value view, Value row, Value column,
                            int64_t count) const {
  auto type = VectorType::get(kernel.width, kernel.form.elementType);
  Value loaded = loadRowPiece(e, type, view, row, column, count);
  if (kernel.form.elementType != kernel.type)
    loaded = arith::ExtFOp::create(e.b, e.loc, kernel.vector, loaded);
  return loaded;
}

/// width x width transposes from [key][d] to [d][key].
void FmaLanes::packKeys(Emitter &e, Value view, Value firstKey,
                        llvm::function_ref<void(Value, Value)> store) const {
  int64_t width = kernel.width;
  auto square = VectorType::get({width, width}, kernel.type);
  auto transpose = [&](Value d, int64_t count) {
    Value tile = e.constant(square, 0.0);
    for (int64_t k = 0; k < width; ++k) {
      Value piece = loadWidened(e, view, e.add(firstKey, k), d, count);
      tile = vector::InsertOp::create(e.b, e.loc, piece, tile, k);
    }
    Value transposed =
        vector::TransposeOp::create(e.b, e.loc, tile, ArrayRef<int64_t>{1, 0});
    for (int64_t k = 0; k < count; ++k)
      store(e.add(d, k), vector::ExtractOp::create(e.b, e.loc, transposed, k));
  };
  forEachPiece(e, kernel.form.headDim, width, transpose);
}
