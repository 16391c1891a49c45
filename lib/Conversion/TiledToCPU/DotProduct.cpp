//===- DotProduct.cpp - Dot product of a pair of bf16 a lane --------------===//
//
//   sum[lane] += x[2 lane] y[2 lane] + x[2 lane + 1] y[2 lane + 1]
//
// vdpbf16ps (AVX512-BF16) and bfdot (Armv8.6) take pairs along the reduction.
// A word of the left operand is such a pair, moved as an f32 that nobody
// computes with. The probabilities are rounded to bf16, two to a word.
//
//===----------------------------------------------------------------------===//

#include "VectorProduct.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

namespace {

class DotLanes : public LaneProduct {
public:
  explicit DotLanes(const CpuKernel &kernel)
      : LaneProduct(kernel, 2, kernel.form.elementType) {}

  void packKeys(Emitter &e, Value view, Value firstKey,
                llvm::function_ref<void(Value, Value)> store) const override {
    packKeyPairs(e, view, firstKey, kernel.width, kernel.form.headDim, store);
  }
  bool packsKeys() const override { return true; }
  bool packsValues() const override { return true; }
  Value packValues(Emitter &e, Value view, Value key, Value column,
                   int64_t count) const override {
    return loadValuePairs(e, VectorType::get(kernel.width, factor), view, key,
                          column, count);
  }
  Value loadQuery(Emitter &e, Value view, Value row, Value column,
                  int64_t count) const override {
    Value loaded = loadRowPiece(e, registerType(), view, row, column, count);
    return vector::BitCastOp::create(e.b, e.loc, kernel.vector, loaded);
  }
  Value packProbabilities(Emitter &e, Value &piece) const override;
  Value multiplyAdd(Emitter &e, Value word, Value factors,
                    Value sum) const override;
};

} // namespace

std::unique_ptr<TileProduct> cpu::createDotProduct(const CpuKernel &kernel) {
  return std::make_unique<VectorProduct>(kernel,
                                         std::make_unique<DotLanes>(kernel));
}

Value DotLanes::packProbabilities(Emitter &e, Value &piece) const {
  auto halves = VectorType::get(kernel.width, factor);
  auto words = VectorType::get(kernel.width / 2, kernel.type);
  Value rounded = arith::TruncFOp::create(e.b, e.loc, halves, piece);
  piece = arith::ExtFOp::create(e.b, e.loc, kernel.vector, rounded);
  return vector::BitCastOp::create(e.b, e.loc, words, rounded);
}

Value DotLanes::multiplyAdd(Emitter &e, Value word, Value factors,
                            Value sum) const {
  Value pairs = vector::BitCastOp::create(e.b, e.loc, registerType(),
                                          e.splat(kernel.vector, word));
  std::string name = "llvm.aarch64.neon.bfdot.v4f32.v8bf16";
  if (kernel.form.target.has("avx512bf16"))
    name = "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(32 * kernel.width);
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, kernel.vector,
                                       e.b.getStringAttr(name),
                                       ValueRange{sum, pairs, factors})
      .getResult(0);
}
