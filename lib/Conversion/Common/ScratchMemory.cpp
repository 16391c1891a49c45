//===- ScratchMemory.cpp - What kernels leave to each other ---------------===//

#include "ScratchMemory.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;

static int64_t elementBytes(memref::AllocOp op) {
  return op.getType().getElementTypeBitWidth() / 8;
}

FailureOr<std::string> attn::scratchBytes(func::FuncOp function) {
  std::string bytes;
  for (auto op : function.getOps<memref::AllocOp>()) {
    std::string product = std::to_string(elementBytes(op));
    unsigned dynamic = 0;
    for (int64_t size : op.getType().getShape()) {
      FailureOr<std::string> text = std::to_string(size);
      if (ShapedType::isDynamic(size))
        text = toSizeExpression(op.getDynamicSizes()[dynamic++]);
      if (failed(text))
        return failure();
      product += " * " + *text;
    }
    bytes += (bytes.empty() ? "" : " + ") + product;
  }
  return bytes;
}

void attn::placeScratch(GpuEmitter &e, func::FuncOp function,
                        KernelOutline &outline) {
  if (!outline.workspace)
    return;
  auto type = MemRefType::get(ShapedType::kDynamic, e.b.getI8Type());
  Value memory =
      UnrealizedConversionCastOp::create(e.b, e.loc, type, outline.workspace)
          .getResult(0);
  Value at = e.index(0);
  for (auto op : function.getOps<memref::AllocOp>()) {
    SmallVector<Value> sizes;
    Value bytes = e.index(elementBytes(op));
    for (Value size : op.getDynamicSizes())
      sizes.push_back(outline.values.lookup(size));
    unsigned dynamic = 0;
    for (int64_t size : op.getType().getShape())
      bytes = ShapedType::isDynamic(size) ? e.mul(bytes, sizes[dynamic++])
                                          : e.mul(bytes, size);
    outline.values.map(
        op.getResult(),
        memref::ViewOp::create(e.b, e.loc, op.getType(), memory, at, sizes));
    at = e.add(at, bytes);
  }
}
