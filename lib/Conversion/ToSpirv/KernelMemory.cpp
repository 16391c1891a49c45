//===- KernelMemory.cpp - Memory of a kernel as SPIR-V variables ----------===//

#include "KernelMemory.h"
#include "BufferElement.h"
#include "attn/IR/MappedKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;

namespace {
/// An argument as its type has it, or as memref.reinterpret_cast does.
struct View {
  BlockArgument argument;
  OpFoldResult offset;
  SmallVector<OpFoldResult> sizes, strides;
};

class MemoryLowering {
public:
  MemoryLowering(spirv::ModuleOp module, spirv::FuncOp function,
                 const WorkgroupMemory &workgroup, bool hasWorkspace,
                 bool hasDouble, bool hasLong)
      : module(module), function(function), workgroup(workgroup),
        b(function.getContext()), hasWorkspace(hasWorkspace),
        hasDouble(hasDouble), hasLong(hasLong) {
    b.setInsertionPointToStart(&function.getBody().front());
    isKernel = isOpenCL(b);
  }

  LogicalResult run();

private:
  void readScalars();
  void eraseUnused();
  Value createVariable(Location loc, Type contents, std::string name,
                       spirv::StorageClass storage,
                       std::optional<int64_t> binding = std::nullopt);
  Value createBuffer(BlockArgument argument, Type array,
                     const std::string &name);
  Value addArgument(Type type);
  LogicalResult lower(Operation *op);
  LogicalResult lowerDim(memref::DimOp op);
  LogicalResult lowerAccess(Operation *op, Value base, ValueRange indices,
                            Value stored);
  LogicalResult lowerAtomic(memref::AtomicRMWOp op);
  /// Neighbours in the memory of an argument.
  LogicalResult lowerVectorLoad(vector::LoadOp op);
  LogicalResult lowerVectorStore(vector::StoreOp op);
  BufferElement elementOf(Location loc, const View &view);
  LogicalResult lowerMetadata(memref::ExtractStridedMetadataOp op);
  LogicalResult lowerCast(memref::ReinterpretCastOp op);
  LogicalResult viewArgument(BlockArgument argument);
  /// An error of `op` where `memory` is none of an argument's.
  FailureOr<View> viewOf(Operation *op, Value memory);
  Value linearIndex(Location loc, const View &view, ValueRange indices);
  Value scalar(int64_t argument, KernelScalar::Field field, int64_t dimension);
  Value toValue(Location loc, OpFoldResult number);
  Value chain(Location loc, Value variable, ValueRange indices);

  spirv::ModuleOp module;
  spirv::FuncOp function;
  const WorkgroupMemory &workgroup;
  OpBuilder b;
  bool hasWorkspace, hasDouble, hasLong, isKernel;
  SmallVector<KernelScalar> scalars;
  /// Index values, one a scalar.
  SmallVector<Value> scalarValues;
  /// The variable of an argument or allocation, as its address.
  DenseMap<Value, Value> variables;
  DenseMap<Value, View> views;
  /// The same buffer as quads of elements.
  DenseMap<Value, Value> quadVariables;
};
} // namespace

/// The address of a new variable, for the whole function.
Value MemoryLowering::createVariable(Location loc, Type contents,
                                     std::string name,
                                     spirv::StorageClass storage,
                                     std::optional<int64_t> binding) {
  auto type = spirv::PointerType::get(contents, storage);
  // The kernel may be called like that.
  while (module.lookupSymbol(name))
    name += "_";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  auto variable =
      binding ? spirv::GlobalVariableOp::create(b, loc, type, name,
                                                /*descriptorSet=*/0, *binding)
              : spirv::GlobalVariableOp::create(b, loc, type, name,
                                                FlatSymbolRefAttr());
  b.setInsertionPointToStart(&function.getBody().front());
  return spirv::AddressOfOp::create(b, loc, variable);
}

Value MemoryLowering::chain(Location loc, Value variable, ValueRange indices) {
  return spirv::AccessChainOp::create(b, loc, variable, indices);
}

static Value toWord(OpBuilder &b, Location loc, Value index) {
  return arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
}

Value MemoryLowering::addArgument(Type type) {
  return function.getBody().front().addArgument(type, function.getLoc());
}

/// A buffer of `array`: behind a binding, or what a pointer among the arguments
/// of an OpenCL kernel points to.
Value MemoryLowering::createBuffer(BlockArgument argument, Type array,
                                   const std::string &name) {
  int64_t number = argument.getArgNumber();
  if (!isKernel)
    return createVariable(function.getLoc(), spirv::StructType::get(array, 0u),
                          name, spirv::StorageClass::StorageBuffer, number);
  auto type = spirv::PointerType::get(spirv::StructType::get(array),
                                      spirv::StorageClass::CrossWorkgroup);
  Value &pointer = variables[argument];
  if (!pointer)
    return addArgument(type);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  return spirv::BitcastOp::create(b, function.getLoc(), type, pointer);
}

/// Sizes, strides and offsets that the types leave open: push constants, or a
/// buffer behind the arguments, or arguments.
void MemoryLowering::readScalars() {
  scalars =
      getKernelScalars(function.getArgumentTypes().drop_back(hasWorkspace));
  if (scalars.empty())
    return;
  if (isKernel) {
    b.setInsertionPointToStart(&function.getBody().front());
    for (size_t i = 0; i < scalars.size(); ++i)
      scalarValues.push_back(arith::IndexCastOp::create(
          b, function.getLoc(), b.getIndexType(), addArgument(b.getI32Type())));
    return;
  }
  Location loc = function.getLoc();
  constexpr unsigned kBytes = 4;
  Type word = b.getI32Type();
  Value variable;
  if (fitPushConstants(scalars)) {
    Type words = spirv::ArrayType::get(word, scalars.size(), kBytes);
    variable = createVariable(loc, spirv::StructType::get(words, 0u), "scalars",
                              spirv::StorageClass::PushConstant);
  } else {
    Type words = spirv::RuntimeArrayType::get(word, kBytes);
    variable = createVariable(loc, spirv::StructType::get(words, 0u), "scalars",
                              spirv::StorageClass::StorageBuffer,
                              function.getNumArguments());
  }
  b.setInsertionPointAfterValue(variable);
  Value zero = spirv::ConstantOp::getZero(word, loc, b);
  for (size_t i = 0; i < scalars.size(); ++i) {
    Value number =
        spirv::ConstantOp::create(b, loc, word, b.getI32IntegerAttr(i));
    Value loaded =
        spirv::LoadOp::create(b, loc, chain(loc, variable, {zero, number}));
    scalarValues.push_back(
        arith::IndexCastOp::create(b, loc, b.getIndexType(), loaded));
  }
}

Value MemoryLowering::scalar(int64_t argument, KernelScalar::Field field,
                             int64_t dimension) {
  for (auto [scalar, value] : llvm::zip(scalars, scalarValues))
    if (scalar == KernelScalar{argument, field, dimension})
      return value;
  llvm_unreachable("every open size, stride and offset is a scalar");
}

Value MemoryLowering::toValue(Location loc, OpFoldResult number) {
  if (auto value = dyn_cast<Value>(number))
    return value;
  int64_t constant = cast<IntegerAttr>(cast<Attribute>(number)).getInt();
  return arith::ConstantIndexOp::create(b, loc, constant);
}

LogicalResult MemoryLowering::viewArgument(BlockArgument argument) {
  auto type = cast<MemRefType>(argument.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return emitError(argument.getLoc(),
                     "expected a memref with strides as an argument, got ")
           << type;
  int64_t number = argument.getArgNumber();
  auto part = [&](int64_t known, KernelScalar::Field field,
                  int64_t dimension) -> OpFoldResult {
    return ShapedType::isDynamic(known)
               ? OpFoldResult(scalar(number, field, dimension))
               : OpFoldResult(b.getIndexAttr(known));
  };
  View view{argument, part(offset, KernelScalar::Offset, 0), {}, {}};
  for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
    view.sizes.push_back(part(size, KernelScalar::Size, dimension));
    view.strides.push_back(
        part(strides[dimension], KernelScalar::Stride, dimension));
  }
  views[argument] = view;
  return success();
}

FailureOr<View> MemoryLowering::viewOf(Operation *op, Value memory) {
  auto it = views.find(memory);
  if (it == views.end())
    return op->emitOpError("expected memory of an argument; fold what lies "
                           "between first");
  return it->second;
}

Value MemoryLowering::linearIndex(Location loc, const View &view,
                                  ValueRange indices) {
  Value linear;
  auto add = [&](Value x) {
    linear = linear ? arith::AddIOp::create(b, loc, linear, x).getResult() : x;
  };
  if (!isConstantIntValue(view.offset, 0))
    add(toValue(loc, view.offset));
  for (auto [index, stride] : llvm::zip(indices, view.strides)) {
    if (isConstantIntValue(stride, 1))
      add(index);
    else
      add(arith::MulIOp::create(b, loc, index, toValue(loc, stride)));
  }
  return linear ? linear : toValue(loc, b.getIndexAttr(0));
}

LogicalResult MemoryLowering::lowerDim(memref::DimOp op) {
  FailureOr<View> view = viewOf(op, op.getSource());
  std::optional<int64_t> dimension = op.getConstantIndex();
  if (failed(view))
    return failure();
  if (!dimension || *dimension >= int64_t(view->sizes.size()))
    return op.emitOpError("expected the size of a fixed dimension");
  op.replaceAllUsesWith(toValue(op.getLoc(), view->sizes[*dimension]));
  return success();
}

LogicalResult
MemoryLowering::lowerMetadata(memref::ExtractStridedMetadataOp op) {
  FailureOr<View> view = viewOf(op, op.getSource());
  if (failed(view))
    return failure();
  Location loc = op.getLoc();
  views[op.getBaseBuffer()] = *view;
  op.getOffset().replaceAllUsesWith(toValue(loc, view->offset));
  for (auto [result, size] : llvm::zip(op.getSizes(), view->sizes))
    result.replaceAllUsesWith(toValue(loc, size));
  for (auto [result, stride] : llvm::zip(op.getStrides(), view->strides))
    result.replaceAllUsesWith(toValue(loc, stride));
  return success();
}

/// Offset, sizes and strides in the place of those of the source.
LogicalResult MemoryLowering::lowerCast(memref::ReinterpretCastOp op) {
  FailureOr<View> view = viewOf(op, op.getSource());
  if (failed(view))
    return failure();
  views[op.getResult()] = View{view->argument, op.getMixedOffsets()[0],
                               op.getMixedSizes(), op.getMixedStrides()};
  return success();
}

BufferElement MemoryLowering::elementOf(Location loc, const View &view) {
  return {b,
          loc,
          variables.lookup(view.argument),
          cast<MemRefType>(view.argument.getType()).getElementType(),
          hasDouble,
          hasLong};
}

/// A load, or a store of `stored`.
LogicalResult MemoryLowering::lowerAccess(Operation *op, Value base,
                                          ValueRange indices, Value stored) {
  Location loc = op->getLoc();
  Value variable = variables.lookup(base);
  if (!variable || isa<BlockArgument>(base)) {
    FailureOr<View> view = viewOf(op, base);
    if (failed(view))
      return failure();
    Value linear = linearIndex(loc, *view, indices);
    BufferElement element = elementOf(loc, *view);
    if (stored)
      return element.store(op, stored, linear);
    op->getResult(0).replaceAllUsesWith(element.load(linear));
    return success();
  }
  Value pointer = chain(loc, variable, toWord(b, loc, indices[0]));
  // A vector of one element is that element.
  Type type = cast<MemRefType>(base.getType()).getElementType();
  Type held = cast<spirv::PointerType>(pointer.getType()).getPointeeType();
  auto convert = [&](Value value, Type to) -> Value {
    return value.getType() == to
               ? value
               : UnrealizedConversionCastOp::create(b, loc, to, value)
                     .getResult(0);
  };
  if (stored)
    spirv::StoreOp::create(b, loc, pointer, convert(stored, held));
  else
    op->getResult(0).replaceAllUsesWith(
        convert(spirv::LoadOp::create(b, loc, pointer), type));
  return success();
}

/// Two variables of one buffer are safe as long as nothing is stored to it.
static bool isReadOnly(Value base) {
  return llvm::none_of(base.getUsers(), [](Operation *user) {
    return isa<memref::StoreOp, vector::StoreOp, memref::AtomicRMWOp,
               memref::ReinterpretCastOp, memref::ExtractStridedMetadataOp>(
        user);
  });
}

LogicalResult MemoryLowering::lowerVectorLoad(vector::LoadOp op) {
  Location loc = op.getLoc();
  FailureOr<View> view = viewOf(op, op.getBase());
  if (failed(view))
    return failure();
  BufferElement element = elementOf(loc, *view);
  Value linear = linearIndex(loc, *view, op.getIndices());
  constexpr int64_t kQuad = 4;
  VectorType type = op.getVectorType();
  Value result;
  bool isQuad = type.getNumElements() == kQuad;
  if (isQuad && isa<FloatType>(element.type) &&
      element.type.getIntOrFloatBitWidth() <= 32 &&
      knownFactor(linear) >= kQuad && isReadOnly(view->argument)) {
    Value &quads = quadVariables[view->argument];
    int64_t number = view->argument.getArgNumber();
    if (!quads)
      quads = createBuffer(view->argument,
                           BufferElement::quadArrayType(element.type, isKernel),
                           "quads" + std::to_string(number));
    result = element.loadWholeQuad(quads, linear);
  } else if (isQuad) {
    result = element.loadQuad(linear);
  }
  if (!result) {
    SmallVector<Value> elements;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      Value shift = arith::ConstantIndexOp::create(b, loc, i);
      elements.push_back(
          element.load(arith::AddIOp::create(b, loc, linear, shift)));
    }
    result = vector::FromElementsOp::create(b, loc, type, elements);
  }
  op.replaceAllUsesWith(result);
  return success();
}

LogicalResult MemoryLowering::lowerVectorStore(vector::StoreOp op) {
  Location loc = op.getLoc();
  FailureOr<View> view = viewOf(op, op.getBase());
  if (failed(view))
    return failure();
  BufferElement element = elementOf(loc, *view);
  Value linear = linearIndex(loc, *view, op.getIndices());
  Value stored = op.getValueToStore();
  if (auto vector = stored.getDefiningOp<vector::FromElementsOp>())
    return element.storeAll(op, vector.getElements(), linear);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < op.getVectorType().getNumElements(); ++i)
    elements.push_back(vector::ExtractOp::create(b, loc, stored, i));
  return element.storeAll(op, elements, linear);
}

LogicalResult MemoryLowering::lowerAtomic(memref::AtomicRMWOp op) {
  Value variable = variables.lookup(op.getMemref());
  if (!variable || isa<BlockArgument>(op.getMemref()) ||
      op.getKind() != arith::AtomicRMWKind::ori)
    return op.emitOpError("expected a bitwise or in workgroup memory");
  Location loc = op.getLoc();
  Value pointer = chain(loc, variable, toWord(b, loc, op.getIndices()[0]));
  Value before = spirv::AtomicOrOp::create(
      b, loc, op.getType(), pointer, spirv::Scope::Workgroup,
      spirv::MemorySemantics::None, op.getValue());
  op.replaceAllUsesWith(before);
  return success();
}

LogicalResult MemoryLowering::lower(Operation *op) {
  b.setInsertionPoint(op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](memref::DimOp dim) { return lowerDim(dim); })
      .Case([&](memref::ExtractStridedMetadataOp metadata) {
        return lowerMetadata(metadata);
      })
      .Case([&](memref::ReinterpretCastOp cast) { return lowerCast(cast); })
      .Case([&](memref::LoadOp load) {
        return lowerAccess(op, load.getMemRef(), load.getIndices(), Value());
      })
      .Case([&](memref::StoreOp store) {
        return lowerAccess(op, store.getMemRef(), store.getIndices(),
                           store.getValue());
      })
      .Case([&](vector::LoadOp load) { return lowerVectorLoad(load); })
      .Case([&](vector::StoreOp store) { return lowerVectorStore(store); })
      .Case([&](memref::AtomicRMWOp atomic) { return lowerAtomic(atomic); })
      .Default([](Operation *op) {
        return op->emitOpError("has no meaning in a SPIR-V kernel; expected "
                               "loads and stores");
      });
}

/// A buffer that is read as quads alone needs no other variable.
void MemoryLowering::eraseUnused() {
  SmallVector<spirv::AddressOfOp> addresses(
      function.getBody().front().getOps<spirv::AddressOfOp>());
  for (spirv::AddressOfOp address : addresses) {
    if (!address.use_empty())
      continue;
    Operation *variable = module.lookupSymbol(address.getVariable());
    address.erase();
    if (SymbolTable::symbolKnownUseEmpty(variable, module))
      variable->erase();
  }
}

LogicalResult MemoryLowering::run() {
  Block &body = function.getBody().front();
  SmallVector<BlockArgument> arguments(body.getArguments());
  for (BlockArgument argument : arguments) {
    auto type = cast<MemRefType>(argument.getType());
    std::string name = "arg" + std::to_string(argument.getArgNumber());
    Type array = BufferElement::arrayType(type.getElementType(), isKernel);
    Value buffer = createBuffer(argument, array, name);
    variables[argument] = buffer;
  }
  readScalars();
  for (BlockArgument argument : ArrayRef(arguments).drop_back(hasWorkspace))
    if (failed(viewArgument(argument)))
      return failure();
  if (hasWorkspace)
    views[arguments.back()] =
        View{arguments.back(), b.getIndexAttr(0), {}, {b.getIndexAttr(1)}};
  SmallVector<Operation *> operations;
  SmallVector<memref::AllocOp> allocations;
  function.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      allocations.push_back(alloc);
    else if (isa_and_nonnull<memref::MemRefDialect>(op->getDialect()) ||
             isa<vector::LoadOp, vector::StoreOp>(op))
      operations.push_back(op);
  });
  DenseMap<Type, unsigned> numbers;
  b.setInsertionPointToStart(&body);
  for (memref::AllocOp alloc : allocations)
    variables[alloc.getResult()] = spirv::AddressOfOp::create(
        b, alloc.getLoc(), workgroup.find(alloc, numbers));
  for (Operation *op : operations)
    if (failed(lower(op)))
      return failure();
  for (Operation *op : llvm::reverse(operations))
    op->erase();
  for (memref::AllocOp alloc : allocations)
    alloc.erase();
  eraseUnused();
  return success();
}

LogicalResult attn::lowerKernelMemory(spirv::ModuleOp module,
                                      spirv::FuncOp function,
                                      const WorkgroupMemory &workgroup,
                                      bool hasWorkspace, bool hasDouble,
                                      bool hasLong) {
  return MemoryLowering(module, function, workgroup, hasWorkspace, hasDouble,
                        hasLong)
      .run();
}
