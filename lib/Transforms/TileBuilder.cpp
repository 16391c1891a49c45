//===- TileBuilder.cpp - Indices that fold, values of a tile --------------===//

#include "TileBuilder.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attn;

void attn::setRole(Operation *op, StringRef role) {
  op->setAttr(kRoleAttrName, StringAttr::get(op->getContext(), role));
}

TileBuilder::TileBuilder(Operation *op, int64_t rows, int64_t columns)
    : ImplicitLocOpBuilder(op->getLoc(), op), rows(rows), columns(columns),
      constantsBlock(op->getBlock()) {}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value TileBuilder::constant(TypedAttr attr) {
  Value &known = constants[attr];
  if (known)
    return known;
  InsertionGuard guard(*this);
  if (lastConstant)
    setInsertionPointAfter(lastConstant);
  else
    setInsertionPointToStart(constantsBlock);
  auto op = arith::ConstantOp::create(*this, attr);
  lastConstant = op;
  return known = op;
}

Value TileBuilder::constant(Type type, double value) {
  return constant(getFloatAttr(getElementTypeOrSelf(type), value), type);
}

Value TileBuilder::constantInt(Type type, int64_t value) {
  return constant(getIntegerAttr(getElementTypeOrSelf(type), value), type);
}

Value TileBuilder::negativeInfinity(Type type) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  APFloat infinity =
      APFloat::getInf(element.getFloatSemantics(), /*Negative=*/true);
  return constant(FloatAttr::get(element, infinity), type);
}

Value TileBuilder::constant(TypedAttr element, Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return constant(
        cast<TypedAttr>(DenseElementsAttr::get(vector, Attribute(element))));
  return constant(element);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value TileBuilder::value(Index index) {
  if (auto known = dyn_cast<Value>(index))
    return known;
  return constant(getIndexAttr(*getConstantIntValue(index)));
}

Index TileBuilder::add(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (ca && cb)
    return getIndexAttr(*ca + *cb);
  if (ca == 0)
    return b;
  if (cb == 0)
    return a;
  return arith::AddIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::subtract(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (ca && cb)
    return getIndexAttr(*ca - *cb);
  if (cb)
    return add(a, getIndexAttr(-*cb));
  return arith::SubIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::multiply(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (ca && cb)
    return getIndexAttr(*ca * *cb);
  if (ca == 1)
    return b;
  if (cb == 1)
    return a;
  return arith::MulIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::minimum(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (a == b)
    return a;
  if (ca && cb)
    return getIndexAttr(std::min(*ca, *cb));
  return arith::MinSIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::maximum(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (a == b)
    return a;
  if (ca && cb)
    return getIndexAttr(std::max(*ca, *cb));
  return arith::MaxSIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::divide(Index a, Index b) {
  std::optional<int64_t> ca = getConstantIntValue(a),
                         cb = getConstantIntValue(b);
  if (cb == 1)
    return a;
  if (ca && cb && *cb != 0)
    return getIndexAttr(*ca / *cb);
  return arith::DivUIOp::create(*this, value(a), value(b)).getResult();
}

Index TileBuilder::divideUp(Index a, int64_t b) {
  return divide(add(a, getIndexAttr(b - 1)), getIndexAttr(b));
}

Index TileBuilder::roundDown(Index a, int64_t b) {
  if (std::optional<int64_t> ca = getConstantIntValue(a))
    return getIndexAttr(*ca - *ca % b);
  Value rest = arith::RemUIOp::create(*this, value(a), value(getIndexAttr(b)));
  return subtract(a, rest);
}

//===----------------------------------------------------------------------===//
// Values of a tile
//===----------------------------------------------------------------------===//

Type TileBuilder::typeOf(Extent extent, Type element) {
  switch (extent) {
  case Extent::Uniform:
    return element;
  case Extent::PerRow:
    return VectorType::get({rows}, element);
  case Extent::PerColumn:
    return VectorType::get({columns}, element);
  case Extent::Tile:
    return VectorType::get({rows, columns}, element);
  }
  llvm_unreachable("no other extent");
}

Value TileBuilder::broadcast(TileValue value, Extent extent) {
  if (value.extent == extent)
    return value.value;
  Type type = typeOf(extent, getElementTypeOrSelf(value.value.getType()));
  // A splat constant becomes a constant of the larger type.
  Attribute known;
  if (matchPattern(value.value, m_Constant(&known))) {
    if (auto splat = dyn_cast<SplatElementsAttr>(known))
      known = splat.getSplatValue<Attribute>();
    if (!isa<ElementsAttr>(known))
      return constant(cast<TypedAttr>(known), type);
  }
  if (value.extent == Extent::PerRow)
    return broadcastRows(value.value, columns);
  return vector::BroadcastOp::create(*this, type, value.value);
}

Value TileBuilder::broadcastRows(Value rowValues, int64_t width) {
  auto type = cast<VectorType>(rowValues.getType());
  int64_t length = type.getDimSize(0);
  Value column = vector::ShapeCastOp::create(
      *this, VectorType::get({length, 1}, type.getElementType()), rowValues);
  return vector::BroadcastOp::create(
      *this, VectorType::get({length, width}, type.getElementType()), column);
}

TileValue TileBuilder::step(Extent side, Type element) {
  auto type = cast<VectorType>(typeOf(side, getIndexType()));
  Value steps = vector::StepOp::create(*this, type);
  if (!element.isIndex())
    steps = arith::IndexCastOp::create(*this, typeOf(side, element), steps);
  return {steps, side};
}

TileValue TileBuilder::conjunction(TileValue a, TileValue b) {
  if (!a || !b)
    return a ? a : b;
  return combine<arith::AndIOp>(a, b);
}

Value TileBuilder::castFloat(Value value, Type element) {
  Type type = value.getType();
  unsigned from = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  unsigned to = element.getIntOrFloatBitWidth();
  if (auto vector = dyn_cast<VectorType>(type))
    type = vector.clone(element);
  else
    type = element;
  if (from < to)
    return arith::ExtFOp::create(*this, type, value);
  if (from > to)
    return arith::TruncFOp::create(*this, type, value);
  // f16 and bf16 meet in f32.
  if (type != value.getType())
    return castFloat(castFloat(value, getF32Type()), element);
  return value;
}

Value attn::contract(TileBuilder &b, Value lhs, Value rhs, Value acc,
                     Transposed transposed, StringRef role) {
  AffineExpr i, j, k;
  bindDims(b.getContext(), i, j, k);
  SmallVector<AffineExpr> left = {i, k}, right = {k, j};
  if (transposed == Transposed::Left)
    left = {k, i};
  if (transposed == Transposed::Right)
    right = {j, k};
  using vector::IteratorType;
  auto product = vector::ContractionOp::create(
      b, lhs, rhs, acc, ArrayRef<ArrayRef<AffineExpr>>{left, right, {i, j}},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::reduction});
  setRole(product, role);
  return product;
}
