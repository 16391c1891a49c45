//===- TileSlicer.cpp - A piece of a tile, computed where it is used ------===//

#include "TileSlicer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace attn;

FailureOr<Value> TileSlicer::tile(Value value, const Piece &piece) {
  return slice(value, piece, Shape::Tile);
}

FailureOr<Value> TileSlicer::rowElement(Value value, const Piece &piece) {
  return slice(value, piece, Shape::Row);
}

FailureOr<Value> TileSlicer::lanes(Value value, const Piece &piece) {
  return slice(value, piece, Shape::Lanes);
}

Type TileSlicer::pieceType(Type type, const Piece &piece, Shape shape) {
  Type element = getElementTypeOrSelf(type);
  return shape == Shape::Row || piece.width == 0
             ? element
             : VectorType::get(piece.width, element);
}

FailureOr<Value> TileSlicer::slice(Value value, const Piece &piece,
                                   Shape shape) {
  if (auto it = sources.find(value); it != sources.end())
    return it->second(piece);
  if (!isa<VectorType>(value.getType()))
    return scalar(value);
  Operation *op = value.getDefiningOp();
  if (!op)
    return emitError(loc, "a tile carried by a loop is read before the back "
                          "end has placed it");
  return sliceOp(op, value, piece, shape);
}

static bool isArithmetic(Operation *op) {
  return OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1;
}

/// Negations are exact.
static bool mayFuse(Operation *op) {
  if (isa<arith::NegFOp>(op))
    return true;
  auto arithmetic = dyn_cast<arith::ArithFastMathInterface>(op);
  arith::FastMathFlagsAttr flags =
      arithmetic ? arithmetic.getFastMathFlagsAttr() : nullptr;
  return flags &&
         bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::contract);
}

/// Columns of the tile, counted from 0.
static bool isStep(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<vector::BroadcastOp, arith::IndexCastOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<vector::StepOp>(op);
}

FailureOr<Value> TileSlicer::sliceOp(Operation *op, Value value,
                                     const Piece &piece, Shape shape) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto dense = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!dense)
      return op->emitOpError("expects a splat, or positions by vector.step");
    Type type = pieceType(value.getType(), piece, shape);
    TypedAttr attribute = dense.getSplatValue<TypedAttr>();
    if (auto vectorType = dyn_cast<VectorType>(type))
      attribute = DenseElementsAttr::get(vectorType, attribute);
    return Value(arith::ConstantOp::create(b, loc, attribute));
  }
  if (isa<vector::StepOp>(op)) {
    if (shape == Shape::Row)
      return piece.row;
    if (piece.width == 0)
      return piece.column;
    auto type = VectorType::get(piece.width, b.getIndexType());
    Value step = vector::StepOp::create(b, loc, type);
    Value origin = vector::BroadcastOp::create(b, loc, type, piece.column);
    return Value(arith::AddIOp::create(b, loc, step, origin));
  }
  // vector<R> <-> vector<R x 1>: the same elements.
  if (auto cast = dyn_cast<vector::ShapeCastOp>(op)) {
    if (shape != Shape::Tile || cast.getSourceVectorType().getRank() != 1)
      return slice(cast.getSource(), piece, shape);
    if (cast.getResultVectorType().getShape().back() != 1)
      return slice(cast.getSource(), piece, Shape::Lanes);
    // A tile of one column.
    FailureOr<Value> element = slice(cast.getSource(), piece, Shape::Row);
    if (failed(element) || piece.width == 0)
      return element;
    return Value(vector::BroadcastOp::create(
        b, loc, pieceType(value.getType(), piece, shape), *element));
  }
  if (isa<vector::BroadcastOp>(op))
    return sliceBroadcast(op, piece, shape);
  if (isa<vector::TransferReadOp>(op))
    return sliceRead(op, piece, shape);
  if (isa<vector::GatherOp>(op))
    return sliceGather(op, piece, shape);
  if (auto toFloat = dyn_cast<arith::SIToFPOp>(op); toFloat && piece.origin)
    if (std::optional<int64_t> step = positionStep(toFloat, shape))
      return slicePosition(toFloat, *step, piece, shape);
  if (piece.origin && isLine(value, shape))
    return sliceLine(value, piece, shape);
  if (auto compare = dyn_cast<arith::CmpIOp>(op);
      compare && piece.origin && piece.width != 0 && shape != Shape::Row)
    if (isStep(compare.getLhs()) && columnStep(compare.getRhs(), shape) == 0)
      return sliceComparison(compare, piece, shape);
  if (isArithmetic(op))
    return sliceElementwise(op, piece, shape);
  return op->emitOpError("has no meaning on a piece of a tile; expected "
                         "elementwise arithmetic, broadcasts, positions or "
                         "reads");
}

FailureOr<Value> TileSlicer::sliceBroadcast(Operation *op, const Piece &piece,
                                            Shape shape) {
  Value source = cast<vector::BroadcastOp>(op).getSource();
  auto sourceType = dyn_cast<VectorType>(source.getType());
  bool isColumn = sourceType && sourceType.getRank() == 2 &&
                  sourceType.getDimSize(1) == 1 && shape == Shape::Tile;
  // One element for all columns, as a vector of one.
  auto resultType = cast<VectorType>(op->getResult(0).getType());
  bool isSingle = sourceType && sourceType.getNumElements() == 1 &&
                  resultType.getShape().back() != 1 && shape == Shape::Tile;
  isColumn |= isSingle;
  if (sourceType && !isColumn)
    return slice(source, piece,
                 sourceType.getRank() == 1 && shape == Shape::Tile
                     ? Shape::Lanes
                     : shape);
  Value element;
  if (isColumn) {
    FailureOr<Value> row = slice(source, piece, Shape::Row);
    if (failed(row))
      return failure();
    element = *row;
  } else {
    element = scalar(source);
  }
  if (shape == Shape::Row || piece.width == 0)
    return element;
  Type type = pieceType(op->getResult(0).getType(), piece, shape);
  return Value(vector::BroadcastOp::create(b, loc, type, element));
}

FailureOr<Value> TileSlicer::sliceElementwise(Operation *op, const Piece &piece,
                                              Shape shape) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> sliced = slice(operand, piece, shape);
    if (failed(sliced))
      return failure();
    operands.push_back(*sliced);
  }
  OperationState state(loc, op->getName(), operands,
                       pieceType(op->getResult(0).getType(), piece, shape),
                       op->getAttrs());
  state.attributes.erase("attn.role");
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
}

std::optional<int64_t> TileSlicer::columnStep(Value value, Shape shape) {
  auto type = dyn_cast<VectorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (!type || shape == Shape::Row || isa_and_nonnull<vector::ShapeCastOp>(op))
    return 0;
  if (!op || sources.contains(value))
    return std::nullopt;
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    auto source = dyn_cast<VectorType>(broadcast.getSourceType());
    if (!source || source.getShape().back() == 1)
      return 0;
    return columnStep(broadcast.getSource(),
                      source.getRank() == 1 ? Shape::Lanes : shape);
  }
  if (isa<vector::StepOp>(op))
    return shape == Shape::Lanes ? std::optional<int64_t>(1) : std::nullopt;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue())
               ? std::optional<int64_t>(0)
               : std::nullopt;
  // Narrower integers may wrap from one column to the next.
  if (isa<arith::IndexCastOp, arith::ExtSIOp>(op) &&
      (type.getElementType().isIndex() || type.getElementTypeBitWidth() >= 32))
    return columnStep(op->getOperand(0), shape);
  if (!isa<arith::AddIOp, arith::SubIOp>(op))
    return std::nullopt;
  std::optional<int64_t> x = columnStep(op->getOperand(0), shape);
  std::optional<int64_t> y = columnStep(op->getOperand(1), shape);
  if (!x || !y)
    return std::nullopt;
  return isa<arith::AddIOp>(op) ? *x + *y : *x - *y;
}

std::optional<int64_t> TileSlicer::positionStep(Value value, Shape shape) {
  auto toFloat = value.getDefiningOp<arith::SIToFPOp>();
  if (!toFloat || sources.contains(value) ||
      !getElementTypeOrSelf(value.getType()).isF32())
    return std::nullopt;
  std::optional<int64_t> step = columnStep(toFloat.getIn(), shape);
  return step && *step != 0 ? step : std::nullopt;
}

/// The first column of the thread, in the piece's row.
static TileSlicer::Piece firstOf(const TileSlicer::Piece &piece) {
  return {piece.row, piece.origin, std::min<int64_t>(piece.width, 1)};
}

/// What was made for `firstOf`, as wide as the piece.
static Value spread(OpBuilder &b, Location loc, Value first, Type type) {
  if (!isa<VectorType>(type))
    return first;
  return vector::BroadcastOp::create(
      b, loc, type, vector::ExtractOp::create(b, loc, first, 0));
}

Value TileSlicer::distances(const Piece &piece, int64_t step) {
  if (piece.width == 0)
    return arith::ConstantOp::create(
        b, loc, b.getF32FloatAttr(static_cast<float>(step * piece.shift)));
  SmallVector<float> distances;
  for (int64_t i = 0; i < piece.width; ++i)
    distances.push_back(static_cast<float>(step * (piece.shift + i)));
  auto type = VectorType::get(piece.width, b.getF32Type());
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<float>(distances)));
}

/// Chips convert a few integers while they add many floats. Exact up to 2^24;
/// beyond, it rounds twice.
FailureOr<Value> TileSlicer::slicePosition(arith::SIToFPOp op, int64_t step,
                                           const Piece &piece, Shape shape) {
  FailureOr<Value> position = slice(op, firstOf(piece), shape);
  if (failed(position))
    return failure();
  Value distance = distances(piece, step);
  Value start = spread(b, loc, *position, distance.getType());
  return Value(arith::AddFOp::create(b, loc, start, distance));
}

bool TileSlicer::isLevel(Value value, Shape shape) {
  if (columnStep(value, shape) == 0)
    return true;
  Operation *op = value.getDefiningOp();
  return op && !sources.contains(value) && isArithmetic(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value x) { return isLevel(x, shape); });
}

bool TileSlicer::isLine(Value value, Shape shape) {
  Operation *op = value.getDefiningOp();
  if (!op || shape == Shape::Row || sources.contains(value))
    return false;
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    auto source = dyn_cast<VectorType>(broadcast.getSourceType());
    return source && source.getRank() == 1 && shape == Shape::Tile &&
           isLine(broadcast.getSource(), Shape::Lanes);
  }
  if (positionStep(value, shape))
    return true;
  auto line = [&](unsigned i) { return isLine(op->getOperand(i), shape); };
  auto level = [&](unsigned i) { return isLevel(op->getOperand(i), shape); };
  auto product = [&]() {
    return (line(0) && level(1)) || (level(0) && line(1));
  };
  if (isa<math::FmaOp>(op))
    return (product() && (line(2) || level(2))) ||
           (level(0) && level(1) && line(2));
  if (!mayFuse(op))
    return false;
  if (isa<arith::MulFOp>(op))
    return product();
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    return product() || (line(0) && line(1));
  return isa<arith::NegFOp>(op) && line(0);
}

FailureOr<Value> TileSlicer::growth(Value value, const Piece &first,
                                    Shape shape) {
  Operation *op = value.getDefiningOp();
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return growth(broadcast.getSource(), first, Shape::Lanes);
  auto constant = [&](float number) -> Value {
    TypedAttr attribute = b.getF32FloatAttr(number);
    if (first.width != 0)
      attribute = DenseElementsAttr::get(
          VectorType::get(first.width, b.getF32Type()), attribute);
    return arith::ConstantOp::create(b, loc, attribute);
  };
  if (std::optional<int64_t> step = positionStep(value, shape))
    return constant(static_cast<float>(*step));
  bool isProduct = isa<arith::MulFOp, math::FmaOp>(op);
  // Null where an operand is level: it does not grow.
  SmallVector<Value> parts;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    bool grows = isLine(operand, shape), isFactor = isProduct && i < 2;
    if (!grows && !isFactor) {
      parts.push_back(Value());
      continue;
    }
    FailureOr<Value> part =
        grows ? growth(operand, first, shape) : slice(operand, first, shape);
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  if (isa<arith::NegFOp>(op))
    return Value(arith::NegFOp::create(b, loc, parts[0]));
  if (isProduct) {
    if (!isLine(op->getOperand(0), shape) && !isLine(op->getOperand(1), shape))
      return parts[2];
    Value product = arith::MulFOp::create(b, loc, parts[0], parts[1]);
    if (parts.size() == 2 || !parts[2])
      return product;
    return Value(arith::AddFOp::create(b, loc, product, parts[2]));
  }
  if (!parts[1])
    return parts[0];
  if (isa<arith::AddFOp>(op))
    return parts[0] ? Value(arith::AddFOp::create(b, loc, parts[0], parts[1]))
                    : parts[1];
  Value minuend = parts[0] ? parts[0] : constant(0);
  return Value(arith::SubFOp::create(b, loc, minuend, parts[1]));
}

FailureOr<Value> TileSlicer::sliceLine(Value value, const Piece &piece,
                                       Shape shape) {
  FailureOr<Value> start = slice(value, firstOf(piece), shape);
  FailureOr<Value> step = growth(value, firstOf(piece), shape);
  if (failed(start) || failed(step))
    return failure();
  Value distance = distances(piece, 1);
  Type type = distance.getType();
  return Value(math::FmaOp::create(b, loc, spread(b, loc, *step, type),
                                   distance, spread(b, loc, *start, type)));
}

/// The distance from the origin is compared with a bound that is counted from
/// there: no column is computed.
FailureOr<Value> TileSlicer::sliceComparison(arith::CmpIOp op,
                                             const Piece &piece, Shape shape) {
  Piece first{piece.row, piece.origin, /*width=*/1};
  FailureOr<Value> column = slice(op.getLhs(), first, shape);
  FailureOr<Value> bound = slice(op.getRhs(), first, shape);
  if (failed(column) || failed(bound))
    return failure();
  Value rest = arith::SubIOp::create(
      b, loc, vector::ExtractOp::create(b, loc, *bound, 0),
      vector::ExtractOp::create(b, loc, *column, 0));
  auto type = VectorType::get(piece.width, rest.getType());
  SmallVector<Attribute> distances;
  for (int64_t i = 0; i < piece.width; ++i)
    distances.push_back(b.getIntegerAttr(rest.getType(), piece.shift + i));
  Value distance = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, distances));
  return Value(
      arith::CmpIOp::create(b, loc, op.getPredicate(), distance,
                            vector::BroadcastOp::create(b, loc, type, rest)));
}
