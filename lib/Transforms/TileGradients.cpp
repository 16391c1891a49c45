//===- TileGradients.cpp - Gradients that pairs add to --------------------===//

#include "TileGradients.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Who owns what
//===----------------------------------------------------------------------===//

/// A dimension of the capture is read at this argument of score_mod, and at
/// nothing else, by every read.
static bool isReadAt(AttentionBackwardOp op, int64_t capture,
                     ScoreModArgument argument) {
  Block &body = op.getScoreMod().front();
  auto type = cast<ShapedType>(op.getCaptures()[capture].getType());
  for (int64_t dimension = 0; dimension < type.getRank(); ++dimension)
    if (llvm::all_of(body.getArgument(kScoreModArguments + capture).getUsers(),
                     [&](Operation *read) {
                       return read->getOperand(1 + dimension) ==
                              body.getArgument(argument);
                     }))
      return true;
  return false;
}

bool attn::isForCuda(AttentionBackwardOp op) {
  TargetAttr target = op.getTargetAttr();
  return target && target.getValue().family == "cuda";
}

OwnedAxes attn::findOwnedAxes(AttentionBackwardOp op) {
  OwnedAxes owned = {true, true, true};
  if (isForCuda(op) && !op.getDeterministic())
    return owned;
  constexpr ScoreModArgument arguments[] = {Batch, Head, QueryIndex};
  for (unsigned axis = 0; axis < owned.size(); ++axis) {
    if (op.getBiasGradient()) {
      auto type = cast<ShapedType>(op.getBias().getType());
      int64_t dimension = static_cast<int64_t>(axis) + type.getRank() - 4;
      owned[axis] &= dimension >= 0 && type.getDimSize(dimension) != 1;
    }
    if (op.hasScoreMod())
      for (int64_t capture : op.getCaptureGradients())
        owned[axis] &= isReadAt(op, capture, arguments[axis]);
  }
  return owned;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

void attn::fillWithZeros(TileBuilder &b, AttentionBackwardOp op, Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  Value zero = b.constant(type.getElementType(), 0);
  SmallVector<Index> sizes;
  for (int64_t dimension = 0; dimension < type.getRank(); ++dimension)
    sizes.push_back(
        type.isDynamicDim(dimension)
            ? Index(memref::DimOp::create(b, memref, dimension).getResult())
            : Index(b.getIndexAttr(type.getDimSize(dimension))));
  // A number without a dimension is filled by a loop, too.
  SmallVector<Index> counts = sizes;
  if (sizes.empty())
    counts.push_back(b.getIndexAttr(1));
  auto elements = scf::ForallOp::create(b, counts, ValueRange(), std::nullopt);
  elements->setAttr(kTilingAttrName, op.getTilingAttr());
  if (TargetAttr target = op.getTargetAttr())
    elements->setAttr(kTargetAttrName, target);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(elements.getTerminator());
  memref::StoreOp::create(
      b, zero, memref,
      ValueRange(elements.getInductionVars()).take_front(sizes.size()));
}

/// Runs `body` for each index below the sizes, in order.
static void forEach(TileBuilder &b, ArrayRef<int64_t> sizes,
                    function_ref<void(ValueRange)> body) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> indices;
  for (int64_t size : sizes) {
    auto loop = scf::ForOp::create(b, b.value(b.getIndexAttr(0)),
                                   b.value(b.getIndexAttr(size)),
                                   b.value(b.getIndexAttr(1)));
    b.setInsertionPointToStart(loop.getBody());
    indices.push_back(loop.getInductionVar());
  }
  body(indices);
}

/// Sums a tile over the sides along which `kept` does not vary.
static TileValue sumTo(TileBuilder &b, TileValue tile, Extent kept) {
  Extent full = join(tile.extent, kept);
  Value value = b.broadcast(tile, full);
  if (full == kept)
    return {value, kept};
  SmallVector<bool> reduced;
  if (varies(full, Extent::PerRow))
    reduced.push_back(!varies(kept, Extent::PerRow));
  if (varies(full, Extent::PerColumn))
    reduced.push_back(!varies(kept, Extent::PerColumn));
  Type element = getElementTypeOrSelf(value.getType());
  return {vector::MultiDimReductionOp::create(
              b, value, b.constant(b.typeOf(kept, element), 0), reduced,
              vector::CombiningKind::ADD),
          kept};
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

TileGradients::TileGradients(AttentionBackwardOp op) {
  unsigned next = 3;
  if (op.getBiasGradient())
    bias = op.getOuts()[next++];
  if (op.getSinksGradient())
    ++next;
  for (int64_t capture : op.getCaptureGradients())
    captures[capture] = op.getOuts()[next++];
}

void TileGradients::initialize(TileBuilder &b, AttentionBackwardOp op) {
  if (bias)
    fillWithZeros(b, op, bias);
  SmallVector<std::pair<int64_t, Value>> ordered(captures.begin(),
                                                 captures.end());
  llvm::sort(ordered, llvm::less_first());
  for (auto [number, memref] : ordered)
    fillWithZeros(b, op, memref);
}

void TileGradients::enterTask(TileBuilder &b, const Task &task) {
  if (bias)
    biasPart.emplace(b, task, bias);
}

void TileGradients::addToBias(TileBuilder &b, const Task &task, Value ofScores,
                              Value firstKey) {
  if (!bias)
    return;
  TileValue sum = sumTo(b, {ofScores, Extent::Tile}, biasPart->getExtent());
  TileValue old = biasPart->read(b, task, firstKey);
  Operation *write =
      biasPart->write(b, task, firstKey, b.combine<arith::AddFOp>(old, sum));
  setRole(write, role::kPairGradient);
}

/// An index of a hidden pair may be anything. Its gradient is 0.
static TileValue clamped(TileBuilder &b, TileValue index, Value memref,
                         int64_t dimension) {
  auto type = cast<MemRefType>(memref.getType());
  Index size = b.getIndexAttr(type.getDimSize(dimension));
  if (type.isDynamicDim(dimension))
    size = memref::DimOp::create(b, memref, dimension).getResult();
  Value last = b.value(b.subtract(size, b.getIndexAttr(1)));
  index = b.combine<arith::MinSIOp>(index, {last, Extent::Uniform});
  return b.combine<arith::MaxSIOp>(
      index, {b.value(b.getIndexAttr(0)), Extent::Uniform});
}

void TileGradients::addToCapture(TileBuilder &b,
                                 const CaptureGradient &gradient) {
  Value memref = captures.lookup(gradient.capture);
  auto type = cast<MemRefType>(memref.getType());
  // An empty table is read for hidden pairs only.
  if (llvm::is_contained(type.getShape(), 0))
    return;
  Extent extent = Extent::Uniform;
  for (TileValue index : gradient.indices)
    extent = join(extent, index.extent);
  // Padded rows and columns, and hidden pairs, add 0.
  Value terms = b.castFloat(b.toTile(gradient.gradient), type.getElementType());
  TileValue sum = sumTo(b, {terms, Extent::Tile}, extent);
  SmallVector<TileValue> indices;
  for (auto [dimension, index] : llvm::enumerate(gradient.indices))
    indices.push_back(clamped(b, index, memref, dimension));

  // Two pairs may add to one element, so they go one after the other.
  SmallVector<int64_t> sides;
  if (varies(extent, Extent::PerRow))
    sides.push_back(b.rows);
  if (varies(extent, Extent::PerColumn))
    sides.push_back(b.columns);
  auto spill = [&](TileValue value) -> Value {
    Type element = getElementTypeOrSelf(value.value.getType());
    if (sides.empty())
      return value.value;
    Value scratch =
        memref::AllocaOp::create(b, MemRefType::get(sides, element));
    SmallVector<Value> start(sides.size(), b.value(b.getIndexAttr(0)));
    vector::TransferWriteOp::create(b, b.broadcast(value, extent), scratch,
                                    start,
                                    SmallVector<bool>(sides.size(), true));
    return scratch;
  };
  OpBuilder::InsertionGuard guard(b);
  // Scratch that is freed with each block.
  if (!sides.empty()) {
    auto scope = memref::AllocaScopeOp::create(b, TypeRange());
    b.createBlock(&scope.getBodyRegion());
    memref::AllocaScopeReturnOp::create(b, ValueRange());
    b.setInsertionPointToStart(&scope.getBodyRegion().front());
  }
  terms = spill(sum);
  SmallVector<Value> places;
  for (TileValue index : indices)
    places.push_back(spill(index));
  forEach(b, sides, [&](ValueRange at) {
    auto load = [&](Value scratch) -> Value {
      return at.empty() ? scratch : memref::LoadOp::create(b, scratch, at);
    };
    SmallVector<Value> element = llvm::map_to_vector(places, load);
    Value old = memref::LoadOp::create(b, memref, element);
    Value next = arith::AddFOp::create(b, old, load(terms));
    setRole(memref::StoreOp::create(b, next, memref, element),
            role::kPairGradient);
  });
}
