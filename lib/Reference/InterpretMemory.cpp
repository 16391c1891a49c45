//===- InterpretMemory.cpp - memref ---------------------------------------===//

#include "Interpreter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

llvm::Expected<int64_t> attn::reference::locate(const MemRef &memref,
                                                ArrayRef<int64_t> indices,
                                                const llvm::Twine &what) {
  bool isInside = true;
  for (auto [index, size] : llvm::zip_equal(indices, memref.sizes))
    isInside &= index >= 0 && index < size;
  if (!isInside)
    return errorText(what + " " + indexText(indices) + " of a memref of size " +
                     indexText(memref.sizes));
  if (memref.buffer->isFreed)
    return errorText(what + " " + indexText(indices) +
                     " of a memref that was deallocated");
  int64_t position = memref.offset + dot(indices, memref.strides);
  // Only a reinterpret_cast can lie about what its buffer holds.
  if (position < 0 ||
      position >= static_cast<int64_t>(memref.buffer->elements.size()))
    return errorText(what + " " + indexText(indices) + ", element " +
                     llvm::Twine(position) + " of an allocation of " +
                     llvm::Twine(memref.buffer->elements.size()));
  return position;
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

static llvm::Error runLoad(Interpreter &interpreter, memref::LoadOp op) {
  const MemRef &memref = interpreter.memref(op.getMemRef());
  llvm::Expected<int64_t> position = locate(
      memref, interpreter.integers(op.getIndices()), nameOf(op) + " reads");
  if (!position)
    return position.takeError();
  interpreter.set(op, Lanes::scalar(memref.buffer->elements[*position]));
  return llvm::Error::success();
}

static llvm::Error runStore(Interpreter &interpreter, memref::StoreOp op) {
  const MemRef &memref = interpreter.memref(op.getMemRef());
  llvm::Expected<int64_t> position = locate(
      memref, interpreter.integers(op.getIndices()), nameOf(op) + " writes");
  if (!position)
    return position.takeError();
  memref.buffer->elements[*position] = interpreter.scalar(op.getValueToStore());
  return llvm::Error::success();
}

static llvm::Error runCopy(Interpreter &interpreter, memref::CopyOp op) {
  const MemRef &source = interpreter.memref(op.getSource());
  const MemRef &target = interpreter.memref(op.getTarget());
  if (source.sizes != target.sizes)
    return errorText("memref.copy of size " + indexText(source.sizes) +
                     " to size " + indexText(target.sizes));
  // Read everything first: the two may overlap.
  SmallVector<Scalar> elements;
  llvm::Error error = llvm::Error::success();
  forEachIndex(source.sizes, [&](ArrayRef<int64_t> indices) {
    if (error)
      return;
    llvm::Expected<int64_t> from = locate(source, indices, "memref.copy reads");
    llvm::Expected<int64_t> to = locate(target, indices, "memref.copy writes");
    if (!from || !to) {
      error = llvm::joinErrors(from.takeError(), to.takeError());
      return;
    }
    elements.push_back(source.buffer->elements[*from]);
  });
  if (error)
    return error;
  const Scalar *next = elements.begin();
  forEachIndex(target.sizes, [&](ArrayRef<int64_t> indices) {
    target.buffer->elements[target.offset + dot(indices, target.strides)] =
        *next++;
  });
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Allocation
//===----------------------------------------------------------------------===//

template <typename OpTy>
static llvm::Error runAllocation(Interpreter &interpreter, OpTy op) {
  MemRef memref;
  Shape dynamic = interpreter.integers(op.getDynamicSizes());
  const int64_t *next = dynamic.begin();
  for (int64_t size : op.getType().getShape()) {
    memref.sizes.push_back(ShapedType::isDynamic(size) ? *next++ : size);
    if (memref.sizes.back() < 0)
      return errorText(nameOf(op) + " of a negative size " +
                       llvm::Twine(memref.sizes.back()));
  }
  if (!op.getType().getLayout().isIdentity())
    return errorText("the interpreter knows " + nameOf(op) +
                     " of an identity layout only");
  memref.strides = denseStrides(memref.sizes);
  memref.buffer = std::make_shared<Buffer>(elementCount(memref.sizes));
  interpreter.set(op, std::move(memref));
  return llvm::Error::success();
}

static llvm::Error runDealloc(Interpreter &interpreter, memref::DeallocOp op) {
  Buffer &buffer = *interpreter.memref(op.getMemref()).buffer;
  if (buffer.isFreed)
    return errorText("memref.dealloc of a memref that was deallocated");
  buffer.isFreed = true;
  return llvm::Error::success();
}

static llvm::Error runGetGlobal(Interpreter &interpreter,
                                memref::GetGlobalOp op) {
  auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
      op, op.getNameAttr());
  auto initial = dyn_cast_or_null<DenseElementsAttr>(
      global ? global.getInitialValueAttr() : Attribute());
  if (!initial || !global.getConstant())
    return errorText("the interpreter knows constant globals only, not @" +
                     op.getName());
  llvm::Expected<Lanes> lanes = lanesOf(initial);
  if (!lanes)
    return lanes.takeError();
  MemRef memref;
  memref.sizes = lanes->shape;
  memref.strides = denseStrides(memref.sizes);
  memref.buffer = std::make_shared<Buffer>(lanes->size());
  llvm::copy(lanes->lanes, memref.buffer->elements.begin());
  interpreter.set(op, std::move(memref));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

static llvm::Error runDim(Interpreter &interpreter, memref::DimOp op) {
  const MemRef &memref = interpreter.memref(op.getSource());
  int64_t dimension = interpreter.integer(op.getIndex());
  if (dimension < 0 || dimension >= static_cast<int64_t>(memref.sizes.size()))
    return errorText("memref.dim of dimension " + llvm::Twine(dimension) +
                     " of a memref of size " + indexText(memref.sizes));
  interpreter.set(op, Lanes::scalar(scalarOf(memref.sizes[dimension])));
  return llvm::Error::success();
}

static llvm::Error runSubView(Interpreter &interpreter, memref::SubViewOp op) {
  const MemRef &source = interpreter.memref(op.getSource());
  Shape offsets = interpreter.integers(op.getMixedOffsets());
  Shape sizes = interpreter.integers(op.getMixedSizes());
  Shape strides = interpreter.integers(op.getMixedStrides());
  bool isInside = true;
  for (auto [offset, size, stride, whole] :
       llvm::zip_equal(offsets, sizes, strides, source.sizes)) {
    int64_t last = offset + std::max<int64_t>(size - 1, 0) * stride;
    isInside &= size >= 0 && offset >= 0 && offset <= whole &&
                (size == 0 || (last >= 0 && last < whole));
  }
  if (!isInside)
    return errorText(nameOf(op) + " takes size " + indexText(sizes) + " from " +
                     indexText(offsets) + " of a memref of size " +
                     indexText(source.sizes));
  MemRef view;
  view.buffer = source.buffer;
  view.offset = source.offset + dot(offsets, source.strides);
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (auto [d, size] : llvm::enumerate(sizes)) {
    if (dropped.test(d))
      continue;
    view.sizes.push_back(size);
    view.strides.push_back(strides[d] * source.strides[d]);
  }
  interpreter.set(op, std::move(view));
  return llvm::Error::success();
}

static llvm::Error runCast(Interpreter &interpreter, memref::CastOp op) {
  const MemRef &source = interpreter.memref(op.getSource());
  auto type = dyn_cast<MemRefType>(op.getType());
  if (!type)
    return errorText("the interpreter knows ranked memrefs only");
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return errorText("the interpreter knows strided memrefs only");
  auto agrees = [](int64_t stated, int64_t given) {
    return ShapedType::isDynamic(stated) || stated == given;
  };
  bool fits = agrees(offset, source.offset);
  for (int64_t d = 0; d < type.getRank(); ++d)
    fits &= agrees(type.getDimSize(d), source.sizes[d]) &&
            agrees(strides[d], source.strides[d]);
  if (!fits)
    return errorText("memref.cast to a type that a memref of size " +
                     indexText(source.sizes) + ", strides " +
                     indexText(source.strides) + " is not of");
  interpreter.set(op, interpreter.get(op.getSource()));
  return llvm::Error::success();
}

static llvm::Error runReinterpretCast(Interpreter &interpreter,
                                      memref::ReinterpretCastOp op) {
  MemRef view;
  view.buffer = interpreter.memref(op.getSource()).buffer;
  view.offset = interpreter.integers(op.getMixedOffsets()).front();
  view.sizes = interpreter.integers(op.getMixedSizes());
  view.strides = interpreter.integers(op.getMixedStrides());
  if (llvm::any_of(view.sizes, [](int64_t size) { return size < 0; }))
    return errorText("memref.reinterpret_cast to size " +
                     indexText(view.sizes));
  interpreter.set(op, std::move(view));
  return llvm::Error::success();
}

static llvm::Error runMetadata(Interpreter &interpreter,
                               memref::ExtractStridedMetadataOp op) {
  MemRef source = interpreter.memref(op.getSource());
  MemRef base;
  base.buffer = source.buffer;
  interpreter.set(op.getBaseBuffer(), std::move(base));
  interpreter.set(op.getOffset(), Lanes::scalar(scalarOf(source.offset)));
  for (auto [result, size] : llvm::zip_equal(op.getSizes(), source.sizes))
    interpreter.set(result, Lanes::scalar(scalarOf(size)));
  for (auto [result, stride] : llvm::zip_equal(op.getStrides(), source.strides))
    interpreter.set(result, Lanes::scalar(scalarOf(stride)));
  return llvm::Error::success();
}

static llvm::Error runTranspose(Interpreter &interpreter,
                                memref::TransposeOp op) {
  const MemRef &source = interpreter.memref(op.getIn());
  MemRef view = source;
  for (auto [d, expr] : llvm::enumerate(op.getPermutation().getResults())) {
    unsigned from = cast<AffineDimExpr>(expr).getPosition();
    view.sizes[d] = source.sizes[from];
    view.strides[d] = source.strides[from];
  }
  interpreter.set(op, std::move(view));
  return llvm::Error::success();
}

/// A group of dimensions that are one in memory becomes that one.
static llvm::Error runCollapseShape(Interpreter &interpreter,
                                    memref::CollapseShapeOp op) {
  const MemRef &source = interpreter.memref(op.getSrc());
  MemRef view;
  view.buffer = source.buffer;
  view.offset = source.offset;
  for (const ReassociationIndices &group : op.getReassociationIndices()) {
    int64_t size = 1, stride = 1;
    for (int64_t d : llvm::reverse(group)) {
      if (source.sizes[d] == 1)
        continue;
      if (size == 1)
        stride = source.strides[d];
      else if (source.strides[d] != stride * size)
        return errorText("memref.collapse_shape of strides " +
                         indexText(source.strides) + " that do not collapse");
      size *= source.sizes[d];
    }
    view.sizes.push_back(size);
    view.strides.push_back(stride);
  }
  interpreter.set(op, std::move(view));
  return llvm::Error::success();
}

static llvm::Error runExpandShape(Interpreter &interpreter,
                                  memref::ExpandShapeOp op) {
  const MemRef &source = interpreter.memref(op.getSrc());
  MemRef view;
  view.buffer = source.buffer;
  view.offset = source.offset;
  view.sizes = interpreter.integers(op.getMixedOutputShape());
  view.strides.resize(view.sizes.size());
  for (auto [d, group] : llvm::enumerate(op.getReassociationIndices())) {
    int64_t size = 1;
    for (int64_t e : llvm::reverse(group)) {
      view.strides[e] = source.strides[d] * size;
      size *= view.sizes[e];
    }
    if (size != source.sizes[d])
      return errorText("memref.expand_shape to " + indexText(view.sizes) +
                       " of a memref of size " + indexText(source.sizes));
  }
  interpreter.set(op, std::move(view));
  return llvm::Error::success();
}

static llvm::Error runAssumeAlignment(Interpreter &interpreter,
                                      memref::AssumeAlignmentOp op) {
  interpreter.set(op, interpreter.get(op.getMemref()));
  return llvm::Error::success();
}

void attn::reference::addMemoryHandlers(HandlerTable &table) {
  table.add<runLoad>();
  table.add<runStore>();
  table.add<runCopy>();
  table.add<runAllocation<memref::AllocOp>>();
  table.add<runAllocation<memref::AllocaOp>>();
  table.add<runDealloc>();
  table.add<runGetGlobal>();
  table.add<runDim>();
  table.add<runSubView>();
  table.add<runCast>();
  table.add<runReinterpretCast>();
  table.add<runMetadata>();
  table.add<runTranspose>();
  table.add<runCollapseShape>();
  table.add<runExpandShape>();
  table.add<runAssumeAlignment>();
}
