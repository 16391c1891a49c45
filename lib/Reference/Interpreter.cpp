//===- Interpreter.cpp - Execute one op after the other -------------------===//

#include "Interpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

const Datum &Interpreter::get(Value value) const {
  auto found = environment.find(value);
  if (found == environment.end())
    llvm::report_fatal_error("the interpreter met a value before its op");
  return found->second;
}

int64_t Interpreter::integer(OpFoldResult value) const {
  if (auto constant = getConstantIntValue(value))
    return *constant;
  return integer(cast<Value>(value));
}

Shape Interpreter::integers(ValueRange values) const {
  return llvm::map_to_vector<4>(values, [&](Value v) { return integer(v); });
}

Shape Interpreter::integers(ArrayRef<OpFoldResult> values) const {
  return llvm::map_to_vector<4>(values,
                                [&](OpFoldResult v) { return integer(v); });
}

void Interpreter::set(ValueRange values, ArrayRef<Datum> data) {
  for (auto [value, datum] : llvm::zip_equal(values, data))
    set(value, datum);
}

std::string attn::reference::indexText(ArrayRef<int64_t> indices) {
  return llvm::formatv("[{0:$[, ]}]",
                       llvm::make_range(indices.begin(), indices.end()));
}

std::string attn::reference::nameOf(Operation *op) {
  std::string name = op->getName().getStringRef().str();
  if (auto role = op->getAttrOfType<StringAttr>("attn.role"))
    name += " (" + role.getValue().str() + ")";
  return name;
}

llvm::Expected<Lanes> attn::reference::lanesOf(TypedAttr attribute) {
  auto number = [](const APFloat &value) {
    APFloat wide = value;
    bool losesInfo;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
    return scalarOf(wide.convertToDouble());
  };
  if (auto value = dyn_cast<FloatAttr>(attribute))
    return Lanes::scalar(number(value.getValue()));
  if (auto value = dyn_cast<IntegerAttr>(attribute))
    return Lanes::scalar(scalarOf(value.getValue().getSExtValue()));
  auto elements = dyn_cast<DenseElementsAttr>(attribute);
  if (!elements)
    return errorText("the interpreter knows no constant that is not dense");
  Lanes lanes(elements.getType().getShape());
  auto fill = [&](auto values, auto convert) {
    for (auto [lane, value] : llvm::zip_equal(lanes.lanes, values))
      lane = convert(value);
  };
  if (isa<FloatType>(elements.getElementType()))
    fill(elements.getValues<APFloat>(), number);
  else
    fill(elements.getValues<APInt>(),
         [](const APInt &value) { return scalarOf(value.getSExtValue()); });
  return lanes;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static const HandlerTable &handlerTable() {
  static const HandlerTable table = [] {
    HandlerTable table;
    addControlHandlers(table);
    addMemoryHandlers(table);
    addTransferHandlers(table);
    addVectorHandlers(table);
    addProductHandlers(table);
    return table;
  }();
  return table;
}

llvm::Error Interpreter::runElementwise(Operation *op, const LaneOp &lane) {
  const Lanes *operands[3];
  int64_t count = 1;
  Shape shape;
  for (unsigned o = 0; o < lane.numOperands; ++o) {
    operands[o] = &lanes(op->getOperand(o));
    // A select may choose between vectors by one scalar.
    if (!operands[o]->shape.empty()) {
      shape = operands[o]->shape;
      count = operands[o]->size();
    }
  }
  Lanes result(shape);
  bool undefined = false;
  for (int64_t l = 0; l < count; ++l) {
    Scalar x[3];
    for (unsigned o = 0; o < lane.numOperands; ++o)
      x[o] = operands[o]->lanes[operands[o]->shape.empty() ? 0 : l];
    result.lanes[l] = lane.apply(x, undefined);
  }
  if (undefined)
    return errorText(nameOf(op) + " divides by zero");
  set(op->getResult(0), std::move(result));
  return llvm::Error::success();
}

llvm::Error Interpreter::runOp(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    // A constant in a loop keeps its value.
    if (environment.contains(constant))
      return llvm::Error::success();
    llvm::Expected<Lanes> value = lanesOf(constant.getValue());
    if (!value)
      return value.takeError();
    set(constant, std::move(*value));
    return llvm::Error::success();
  }
  if (HandlerTable::Handler handler = handlerTable().find(op))
    return handler(*this, op);
  auto [entry, isNew] = laneOps.try_emplace(op);
  if (isNew)
    entry->second = lookUpLaneOp(op, Rounding::typed);
  if (entry->second.function)
    return runElementwise(op, entry->second);
  return errorText("the interpreter does not know " +
                   op->getName().getStringRef());
}

llvm::Expected<SmallVector<Datum>>
Interpreter::runBlock(Block &block, ArrayRef<Datum> arguments) {
  set(block.getArguments(), arguments);
  for (Operation &op : block.without_terminator())
    if (llvm::Error error = runOp(&op))
      return std::move(error);
  SmallVector<Datum> results;
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(get(operand));
  return results;
}

llvm::Expected<SmallVector<Datum>>
Interpreter::call(func::FuncOp function, ArrayRef<Datum> arguments) {
  if (!function.getBody().hasOneBlock())
    return errorText("the interpreter expects @" + function.getName() +
                     " to have one block");
  // A function may call itself: each call has its own values.
  llvm::DenseMap<Value, Datum> caller;
  std::swap(caller, environment);
  llvm::Expected<SmallVector<Datum>> results =
      runBlock(function.getBody().front(), arguments);
  std::swap(caller, environment);
  return results;
}

//===----------------------------------------------------------------------===//
// The entry
//===----------------------------------------------------------------------===//

HostMemRef HostMemRef::contiguous(const Array &array) {
  return strided(array, denseStrides(array.shape));
}

HostMemRef HostMemRef::strided(const Array &array, ArrayRef<int64_t> strides,
                               int64_t offset) {
  HostMemRef memref;
  memref.offset = offset;
  memref.sizes.assign(array.shape.begin(), array.shape.end());
  memref.strides.assign(strides.begin(), strides.end());
  int64_t span = offset + (array.size() == 0 ? 0 : 1);
  for (auto [size, stride] : llvm::zip_equal(memref.sizes, memref.strides))
    if (array.size() != 0)
      span += (size - 1) * stride;
  memref.elements.assign(span, std::numeric_limits<double>::quiet_NaN());
  int64_t linear = 0;
  forEachIndex(memref.sizes, [&](ArrayRef<int64_t> indices) {
    memref.elements[offset + dot(indices, strides)] = array.data[linear++];
  });
  return memref;
}

Array HostMemRef::toArray() const {
  Array array(sizes);
  int64_t linear = 0;
  forEachIndex(sizes, [&](ArrayRef<int64_t> indices) {
    array.data[linear++] = elements[offset + dot(indices, strides)];
  });
  return array;
}

/// The argument as a value of its type.
static llvm::Expected<Datum> convertArgument(const HostMemRef &argument,
                                             Type type, unsigned number) {
  auto memrefType = dyn_cast<MemRefType>(type);
  Type elementType = memrefType ? memrefType.getElementType() : type;
  if (!memrefType) {
    if (argument.elements.size() != 1)
      return errorText("argument #" + llvm::Twine(number) +
                       " is a scalar, got " +
                       llvm::Twine(argument.elements.size()) + " elements");
    return Datum(
        Lanes::scalar(scalarOfType(argument.elements.front(), elementType)));
  }

  SmallVector<int64_t> strides;
  int64_t offset;
  bool fits =
      succeeded(memrefType.getStridesAndOffset(strides, offset)) &&
      memrefType.getRank() == static_cast<int64_t>(argument.sizes.size());
  auto agrees = [](int64_t stated, int64_t given) {
    return ShapedType::isDynamic(stated) || stated == given;
  };
  if (fits) {
    fits &= agrees(offset, argument.offset);
    for (int64_t d = 0; d < memrefType.getRank(); ++d)
      fits &= agrees(memrefType.getDimSize(d), argument.sizes[d]) &&
              agrees(strides[d], argument.strides[d]);
  }
  if (!fits) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return errorText("argument #" + llvm::Twine(number) + " is " + text +
                     ", got sizes " + indexText(argument.sizes) + ", strides " +
                     indexText(argument.strides) + ", offset " +
                     llvm::Twine(argument.offset));
  }
  MemRef memref;
  memref.buffer = std::make_shared<Buffer>(argument.elements.size());
  for (auto [to, from] :
       llvm::zip_equal(memref.buffer->elements, argument.elements))
    to = scalarOfType(from, elementType);
  memref.offset = argument.offset;
  memref.sizes.assign(argument.sizes.begin(), argument.sizes.end());
  memref.strides.assign(argument.strides.begin(), argument.strides.end());
  return Datum(std::move(memref));
}

llvm::Error attn::runTiled(func::FuncOp function,
                           MutableArrayRef<HostMemRef> arguments,
                           const TiledRunOptions &options) {
  if (function.isExternal() || function.getNumResults() != 0)
    return errorText("the interpreter expects @" + function.getName() +
                     " to have a body and no results");
  if (arguments.size() != function.getNumArguments())
    return errorText("@" + function.getName() + " takes " +
                     llvm::Twine(function.getNumArguments()) +
                     " arguments, got " + llvm::Twine(arguments.size()));
  SmallVector<Datum> data;
  for (auto [number, argument] : llvm::enumerate(arguments)) {
    llvm::Expected<Datum> datum =
        convertArgument(argument, function.getArgumentTypes()[number], number);
    if (!datum)
      return datum.takeError();
    data.push_back(std::move(*datum));
  }
  Interpreter interpreter(options);
  llvm::Expected<SmallVector<Datum>> results = interpreter.call(function, data);
  if (!results)
    return results.takeError();
  // What was not written keeps its value, also where the type has no such
  // value: NaN between integers.
  for (auto [datum, argument, type] :
       llvm::zip_equal(data, arguments, function.getArgumentTypes())) {
    if (!datum.memref)
      continue;
    Type elementType = cast<MemRefType>(type).getElementType();
    for (auto [element, lane] :
         llvm::zip_equal(argument.elements, datum.memref->buffer->elements))
      if (scalarOfType(element, elementType).i != lane.i)
        element = elementOf(lane, elementType);
  }
  return llvm::Error::success();
}
