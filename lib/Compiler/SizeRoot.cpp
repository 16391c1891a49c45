//===- SizeRoot.cpp - Where a size comes from -----------------------------===//

#include "SizeRoot.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/ShapedOpInterfaces.h"

using namespace mlir;
using namespace attn;

/// Dimension `index` of a slice that drops some of its source's: the size that
/// the slice is given for it.
template <typename SliceOp>
static OpFoldResult sizeOfSlice(SliceOp slice, int64_t index) {
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<OpFoldResult> sizes = slice.getMixedSizes();
  for (auto [dimension, size] : llvm::enumerate(sizes))
    if (!dropped.test(dimension) && index-- == 0)
      return size;
  return {};
}

/// The size that an op gives to a dimension of its result, if it takes it as
/// an operand.
static Value givenSize(Operation *op, int64_t index) {
  OpFoldResult size;
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    size = empty.getDynamicSize(index);
  else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    size = sizeOfSlice(slice, index);
  else if (auto view = dyn_cast<memref::SubViewOp>(op))
    size = sizeOfSlice(view, index);
  return dyn_cast_if_present<Value>(size);
}

SizeRoot attn::findSizeRoot(Value value, int64_t index) {
  while (true) {
    int64_t size = cast<ShapedType>(value.getType()).getDimSize(index);
    if (!ShapedType::isDynamic(size))
      return {Value(), size};
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<tensor::CastOp, memref::CastOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto styled = dyn_cast_or_null<DestinationStyleOpInterface>(op);
    if (styled && isa<OpResult>(value)) {
      value = styled.getTiedOpOperand(cast<OpResult>(value))->get();
      continue;
    }
    Value given = op ? givenSize(op, index) : Value();
    if (!given)
      return {value, index};
    auto dim = given.getDefiningOp<ShapedDimOpInterface>();
    std::optional<int64_t> of =
        dim ? getConstantIntValue(dim.getDimension()) : std::nullopt;
    if (!of)
      return {given, 0};
    value = dim.getShapedValue();
    index = *of;
  }
}
