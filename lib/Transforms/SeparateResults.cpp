//===- SeparateResults.cpp - A buffer of its own for each result ----------===//
//
// Two results of a function can be one value: the same attention is asked for
// twice, and common subexpressions are shared. Results become destinations that
// the caller provides, and one buffer cannot be two of them.
//
//===----------------------------------------------------------------------===//

#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn {
#define GEN_PASS_DEF_SEPARATERESULTS
#include "attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

/// A row-major copy of `source`, made at the builder's place.
static Value copyOf(Value source, OpBuilder &builder, Location loc) {
  auto type = cast<MemRefType>(source.getType());
  SmallVector<Value> sizes;
  for (auto [index, size] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(size))
      sizes.push_back(memref::DimOp::create(builder, loc, source, index));
  Value copy = memref::AllocOp::create(
      builder, loc, MemRefType::get(type.getShape(), type.getElementType()),
      sizes);
  memref::CopyOp::create(builder, loc, source, copy);
  if (copy.getType() != type)
    copy = memref::CastOp::create(builder, loc, type, copy);
  return copy;
}

namespace {
struct SeparateResults : attn::impl::SeparateResultsBase<SeparateResults> {
  void runOnOperation() override {
    getOperation()->walk([](func::ReturnOp op) {
      OpBuilder builder(op);
      llvm::SmallPtrSet<Value, 4> returned;
      for (OpOperand &result : op->getOpOperands())
        if (isa<MemRefType>(result.get().getType()) &&
            !returned.insert(result.get()).second)
          result.set(copyOf(result.get(), builder, op.getLoc()));
    });
  }
};
} // namespace
