//===- InterpretTransfer.cpp - Vectors to and from memory -----------------===//

#include "Interpreter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

//===----------------------------------------------------------------------===//
// transfer_read and transfer_write
//===----------------------------------------------------------------------===//

namespace {
/// Which element of the memref each lane of a transfer stands for.
class Transfer {
public:
  Transfer(Interpreter &interpreter, VectorTransferOpInterface op);
  /// Calls `access(lane, position)` for each lane in bounds and not masked,
  /// after checking all that the op promises about them.
  llvm::Error forEachLane(llvm::function_ref<void(int64_t, int64_t)> access);

private:
  llvm::Error outOfBounds(ArrayRef<int64_t> lane) const;
  bool isMasked(ArrayRef<int64_t> lane) const;

  VectorTransferOpInterface op;
  const MemRef &memref;
  const Lanes *mask = nullptr;
  Shape shape, base;
  /// Per vector dimension: the memref dimension (-1 for a broadcast), and how
  /// many of its lanes are in the memref.
  Shape dimensions, extents;
  /// The vector dimension of each mask dimension: the mask is in the order of
  /// the memref's dimensions.
  Shape maskDimensions;
};
} // namespace

Transfer::Transfer(Interpreter &interpreter, VectorTransferOpInterface op)
    : op(op), memref(interpreter.memref(op.getBase())),
      shape(op.getVectorType().getShape()),
      base(interpreter.integers(op.getIndices())) {
  if (op.getMask())
    mask = &interpreter.lanes(op.getMask());
  for (auto [v, expr] : llvm::enumerate(op.getPermutationMap().getResults())) {
    auto dimension = dyn_cast<AffineDimExpr>(expr);
    dimensions.push_back(
        dimension ? static_cast<int64_t>(dimension.getPosition()) : -1);
    extents.push_back(shape[v]);
    if (dimension)
      extents[v] = std::clamp<int64_t>(
          memref.sizes[dimensions[v]] - base[dimensions[v]], 0, shape[v]);
  }
  for (int64_t d = 0; d < static_cast<int64_t>(base.size()); ++d)
    for (auto [v, dimension] : llvm::enumerate(dimensions))
      if (dimension == d)
        maskDimensions.push_back(v);
}

bool Transfer::isMasked(ArrayRef<int64_t> lane) const {
  if (!mask)
    return false;
  int64_t linear = 0;
  for (auto [v, size] : llvm::zip_equal(maskDimensions, mask->shape))
    linear = linear * size + lane[v];
  return !(mask->lanes[linear].i & 1);
}

llvm::Error Transfer::outOfBounds(ArrayRef<int64_t> lane) const {
  Shape indices = base;
  for (auto [v, d] : llvm::enumerate(dimensions))
    if (d >= 0)
      indices[d] += lane[v];
  return errorText(nameOf(op) + " accesses " + indexText(indices) +
                   " of a memref of size " + indexText(memref.sizes));
}

llvm::Error
Transfer::forEachLane(llvm::function_ref<void(int64_t, int64_t)> access) {
  // A dimension that no lane moves along, and a start before the memref, are
  // never checked by the op itself.
  bool startsInside = true;
  Shape laneStrides(shape.size(), 0);
  for (auto [v, d] : llvm::enumerate(dimensions))
    if (d >= 0)
      laneStrides[v] = memref.strides[d];
  for (auto [d, start] : llvm::enumerate(base)) {
    bool isMoving = llvm::is_contained(dimensions, static_cast<int64_t>(d));
    startsInside &= start >= 0 && (isMoving || start < memref.sizes[d]);
  }
  int64_t first = memref.offset + dot(base, memref.strides);
  int64_t size = memref.buffer->elements.size();
  SmallVector<bool> inBounds = op.getInBoundsValues();
  llvm::Error error = llvm::Error::success();
  int64_t linear = -1;
  forEachIndex(shape, [&](ArrayRef<int64_t> lane) {
    ++linear;
    if (error || isMasked(lane))
      return;
    for (size_t v = 0; v < lane.size(); ++v) {
      if (lane[v] < extents[v])
        continue;
      if (inBounds[v])
        error = outOfBounds(lane);
      return;
    }
    int64_t position = first + dot(lane, laneStrides);
    if (!startsInside || position < 0 || position >= size)
      error = outOfBounds(lane);
    else
      access(linear, position);
  });
  if (!error && memref.buffer->isFreed)
    return errorText(nameOf(op) + " accesses a memref that was deallocated");
  return error;
}

static llvm::Error runTransferRead(Interpreter &interpreter,
                                   vector::TransferReadOp op) {
  if (!isa<MemRefType>(op.getBase().getType()))
    return errorText("the interpreter knows vector.transfer_read of memrefs "
                     "only");
  Lanes result(op.getVectorType().getShape());
  llvm::fill(result.lanes, interpreter.scalar(op.getPadding()));
  const std::vector<Scalar> &elements =
      interpreter.memref(op.getBase()).buffer->elements;
  Transfer transfer(interpreter, op);
  if (llvm::Error error =
          transfer.forEachLane([&](int64_t lane, int64_t position) {
            result.lanes[lane] = elements[position];
          }))
    return error;
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runTransferWrite(Interpreter &interpreter,
                                    vector::TransferWriteOp op) {
  if (!isa<MemRefType>(op.getBase().getType()))
    return errorText("the interpreter knows vector.transfer_write to memrefs "
                     "only");
  const Lanes &value = interpreter.lanes(op.getValueToStore());
  std::vector<Scalar> &elements =
      interpreter.memref(op.getBase()).buffer->elements;
  return Transfer(interpreter, op)
      .forEachLane([&](int64_t lane, int64_t position) {
        elements[position] = value.lanes[lane];
      });
}

//===----------------------------------------------------------------------===//
// load, store and their masked forms
//===----------------------------------------------------------------------===//

/// The position of each lane of a vector that lies along the innermost
/// dimensions from `start` on; -1 for lanes that the mask leaves out.
static llvm::Expected<SmallVector<int64_t>>
locateLanes(const MemRef &memref, ArrayRef<int64_t> start,
            ArrayRef<int64_t> shape, const Lanes *mask,
            const llvm::Twine &what) {
  SmallVector<int64_t> positions;
  std::string text = what.str();
  llvm::Error error = llvm::Error::success();
  forEachIndex(shape, [&](ArrayRef<int64_t> lane) {
    if (error)
      return;
    if (mask && !(mask->lanes[positions.size()].i & 1)) {
      positions.push_back(-1);
      return;
    }
    Shape indices(start);
    size_t outer = indices.size() - lane.size();
    for (size_t v = 0; v < lane.size(); ++v)
      indices[outer + v] += lane[v];
    llvm::Expected<int64_t> position = locate(memref, indices, text);
    if (position)
      positions.push_back(*position);
    else
      error = position.takeError();
  });
  if (error)
    return std::move(error);
  return positions;
}

static llvm::Error readLanes(Interpreter &interpreter, Operation *op,
                             Value base, ValueRange indices, Value mask,
                             Value passThrough) {
  const MemRef &memref = interpreter.memref(base);
  Lanes result(cast<VectorType>(op->getResult(0).getType()).getShape());
  if (passThrough)
    result = interpreter.lanes(passThrough);
  llvm::Expected<SmallVector<int64_t>> positions = locateLanes(
      memref, interpreter.integers(indices), result.shape,
      mask ? &interpreter.lanes(mask) : nullptr, nameOf(op) + " reads");
  if (!positions)
    return positions.takeError();
  for (auto [lane, position] : llvm::zip_equal(result.lanes, *positions))
    if (position >= 0)
      lane = memref.buffer->elements[position];
  interpreter.set(op->getResult(0), std::move(result));
  return llvm::Error::success();
}

static llvm::Error writeLanes(Interpreter &interpreter, Operation *op,
                              Value value, Value base, ValueRange indices,
                              Value mask) {
  const MemRef &memref = interpreter.memref(base);
  const Lanes &lanes = interpreter.lanes(value);
  llvm::Expected<SmallVector<int64_t>> positions = locateLanes(
      memref, interpreter.integers(indices), lanes.shape,
      mask ? &interpreter.lanes(mask) : nullptr, nameOf(op) + " writes");
  if (!positions)
    return positions.takeError();
  for (auto [lane, position] : llvm::zip_equal(lanes.lanes, *positions))
    if (position >= 0)
      memref.buffer->elements[position] = lane;
  return llvm::Error::success();
}

static llvm::Error runLoad(Interpreter &interpreter, vector::LoadOp op) {
  return readLanes(interpreter, op, op.getBase(), op.getIndices(), {}, {});
}
static llvm::Error runMaskedLoad(Interpreter &interpreter,
                                 vector::MaskedLoadOp op) {
  return readLanes(interpreter, op, op.getBase(), op.getIndices(), op.getMask(),
                   op.getPassThru());
}
static llvm::Error runStore(Interpreter &interpreter, vector::StoreOp op) {
  return writeLanes(interpreter, op, op.getValueToStore(), op.getBase(),
                    op.getIndices(), {});
}
static llvm::Error runMaskedStore(Interpreter &interpreter,
                                  vector::MaskedStoreOp op) {
  return writeLanes(interpreter, op, op.getValueToStore(), op.getBase(),
                    op.getIndices(), op.getMask());
}

static llvm::Error runGather(Interpreter &interpreter, vector::GatherOp op) {
  if (!isa<MemRefType>(op.getBase().getType()))
    return errorText("the interpreter knows vector.gather of memrefs only");
  const MemRef &memref = interpreter.memref(op.getBase());
  const Lanes &positions = interpreter.lanes(op.getIndices());
  const Lanes &mask = interpreter.lanes(op.getMask());
  Shape start = interpreter.integers(op.getOffsets());
  Lanes result = interpreter.lanes(op.getPassThru());
  for (int64_t l = 0; l < result.size(); ++l) {
    if (!(mask.lanes[l].i & 1))
      continue;
    Shape indices = start;
    indices.back() += positions.lanes[l].i;
    llvm::Expected<int64_t> position =
        locate(memref, indices, nameOf(op) + " reads");
    if (!position)
      return position.takeError();
    result.lanes[l] = memref.buffer->elements[*position];
  }
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

void attn::reference::addTransferHandlers(HandlerTable &table) {
  table.add<runTransferRead>();
  table.add<runTransferWrite>();
  table.add<runLoad>();
  table.add<runMaskedLoad>();
  table.add<runStore>();
  table.add<runMaskedStore>();
  table.add<runGather>();
}
