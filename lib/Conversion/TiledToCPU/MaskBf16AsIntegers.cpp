//===- MaskBf16AsIntegers.cpp - Masked bf16 vectors by their bits ---------===//
//
// On chips without bf16 arithmetic LLVM legalises a masked load or store of a
// bf16 vector by way of f32, and rounds back by a call of __truncsfbf2 for each
// element. Loads and stores move bits: the same instruction on i16 and two
// bitcasts say what is meant.
//
// Precondition: the LLVM dialect. No limits.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/PatternMatch.h"

namespace attn {
#define GEN_PASS_DEF_MASKBF16ASINTEGERS
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

/// The i16 vector of a bf16 vector, or null.
static VectorType integersOf(Type type) {
  auto vectorType = dyn_cast<VectorType>(type);
  if (!vectorType || !vectorType.getElementType().isBF16())
    return {};
  return VectorType::get(vectorType.getShape(),
                         IntegerType::get(type.getContext(), 16));
}

static void rewriteLoad(LLVM::MaskedLoadOp load) {
  VectorType integers = integersOf(load.getType());
  if (!integers)
    return;
  OpBuilder b(load);
  Value passThru =
      LLVM::BitcastOp::create(b, load.getLoc(), integers, load.getPassThru());
  Value bits = LLVM::MaskedLoadOp::create(
      b, load.getLoc(), integers, load.getData(), load.getMask(), passThru,
      load.getAlignment(), load.getNontemporal());
  load.replaceAllUsesWith(
      LLVM::BitcastOp::create(b, load.getLoc(), load.getType(), bits)
          .getResult());
  load.erase();
}

static void rewriteStore(LLVM::MaskedStoreOp store) {
  VectorType integers = integersOf(store.getValue().getType());
  if (!integers)
    return;
  OpBuilder b(store);
  store.getValueMutable().assign(
      LLVM::BitcastOp::create(b, store.getLoc(), integers, store.getValue()));
}

namespace {
struct MaskBf16AsIntegers
    : attn::impl::MaskBf16AsIntegersBase<MaskBf16AsIntegers> {
  void runOnOperation() override {
    SmallVector<LLVM::MaskedLoadOp> loads;
    getOperation()->walk([&](Operation *op) {
      if (auto load = dyn_cast<LLVM::MaskedLoadOp>(op))
        loads.push_back(load);
      else if (auto store = dyn_cast<LLVM::MaskedStoreOp>(op))
        rewriteStore(store);
    });
    llvm::for_each(loads, rewriteLoad);
  }
};
} // namespace
