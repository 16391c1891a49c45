//===- Matrices.cpp - Cooperative matrices of a subgroup ------------------===//

#include "Matrices.h"
#include "attn/Target/CoopMatrixTiles.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;

Type Matrices::type(Type element, spirv::CooperativeMatrixUseKHR use) const {
  return spirv::CooperativeMatrixType::get(element, kSide, kSide,
                                           spirv::Scope::Subgroup, use);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

MemoryArray Matrices::share(gpu::GPUModuleOp module, StringRef name,
                            Type element, int64_t count) {
  if (auto known = module.lookupSymbol<spirv::GlobalVariableOp>(name))
    return {known};
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(module.getBody());
  auto type = spirv::PointerType::get(
      spirv::ArrayType::get(element, std::max<int64_t>(count, 1)),
      spirv::StorageClass::Workgroup);
  return {spirv::GlobalVariableOp::create(e.b, e.loc, type, name,
                                          FlatSymbolRefAttr())};
}

MemoryArray Matrices::viewArgument(gpu::GPUModuleOp module, unsigned number,
                                   Type element) {
  auto vector = dyn_cast<VectorType>(element);
  unsigned bytes = (vector ? vector.getNumElements() : 1) * 4;
  std::string name =
      ("argument" + Twine(number) + (vector ? "_units" : "_words")).str();
  if (auto known = module.lookupSymbol<spirv::GlobalVariableOp>(name))
    return {known, /*isBuffer=*/true};
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(module.getBody());
  auto array = spirv::RuntimeArrayType::get(element, bytes);
  auto members =
      spirv::StructType::get(array, spirv::StructType::OffsetInfo(0), {},
                             {spirv::StructType::StructDecorationInfo(
                                 spirv::Decoration::Block, e.b.getUnitAttr())});
  auto type =
      spirv::PointerType::get(members, spirv::StorageClass::StorageBuffer);
  auto variable = spirv::GlobalVariableOp::create(e.b, e.loc, type, name,
                                                  /*descriptorSet=*/0, number);
  return {variable, /*isBuffer=*/true};
}

spirv::MemoryAccessAttr Matrices::nonPrivate() {
  return spirv::MemoryAccessAttr::get(e.b.getContext(),
                                      spirv::MemoryAccess::NonPrivatePointer);
}

Value Matrices::pointer(const MemoryArray &array, Value at) {
  Value base = spirv::AddressOfOp::create(e.b, e.loc, array.variable);
  SmallVector<Value> indices;
  if (array.isBuffer)
    indices.push_back(spirv::ConstantOp::getZero(e.b.getI32Type(), e.loc, e.b));
  indices.push_back(at);
  return spirv::AccessChainOp::create(e.b, e.loc, base, indices);
}

Value Matrices::read(const MemoryArray &array, Value at) {
  Value from = pointer(array, at);
  if (array.isBuffer)
    return spirv::LoadOp::create(e.b, e.loc, from);
  return spirv::LoadOp::create(e.b, e.loc, from, nonPrivate(), IntegerAttr());
}

void Matrices::write(const MemoryArray &array, Value at, Value value) {
  Value to = pointer(array, at);
  if (array.isBuffer)
    spirv::StoreOp::create(e.b, e.loc, to, value);
  else
    spirv::StoreOp::create(e.b, e.loc, to, value, nonPrivate(), IntegerAttr());
}

void Matrices::addBits(const MemoryArray &array, Value at, Value bits) {
  spirv::AtomicOrOp::create(e.b, e.loc, bits.getType(), pointer(array, at),
                            spirv::Scope::Workgroup,
                            spirv::MemorySemantics::None, bits);
}

Value Matrices::load(Type type, const MemoryArray &array, Value at,
                     int64_t stride, bool isTransposed) {
  auto layout = isTransposed ? spirv::CooperativeMatrixLayoutKHR::ColumnMajor
                             : spirv::CooperativeMatrixLayoutKHR::RowMajor;
  Value step = spirv::ConstantOp::create(e.b, e.loc, e.b.getI32Type(),
                                         e.b.getI32IntegerAttr(stride));
  return spirv::KHRCooperativeMatrixLoadOp::create(
      e.b, e.loc, type, pointer(array, at), layout, step, nonPrivate(),
      IntegerAttr());
}

void Matrices::store(Value matrix, const MemoryArray &array, Value at,
                     int64_t stride) {
  Value step = spirv::ConstantOp::create(e.b, e.loc, e.b.getI32Type(),
                                         e.b.getI32IntegerAttr(stride));
  spirv::KHRCooperativeMatrixStoreOp::create(
      e.b, e.loc, pointer(array, at), matrix,
      spirv::CooperativeMatrixLayoutKHR::RowMajor, step, nonPrivate(),
      IntegerAttr());
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value Matrices::splat(Type type, double value) {
  Type element = cast<spirv::CooperativeMatrixType>(type).getElementType();
  Value scalar = spirv::ConstantOp::create(e.b, e.loc, element,
                                           e.b.getFloatAttr(element, value));
  return spirv::CompositeConstructOp::create(e.b, e.loc, type, scalar);
}

Value Matrices::multiplyAdd(Value left, Value right, Value accumulator) {
  return spirv::KHRCooperativeMatrixMulAddOp::create(e.b, e.loc, left, right,
                                                     accumulator);
}

Value Matrices::scale(Value x, Value y) {
  return spirv::FMulOp::create(e.b, e.loc, x, y);
}

Values Matrices::elements(Value matrix, int64_t count) {
  Values result;
  for (int32_t i = 0; i < count; ++i)
    result.push_back(
        spirv::CompositeExtractOp::create(e.b, e.loc, matrix, ArrayRef(i)));
  return result;
}

Value Matrices::fromElements(Type type, ValueRange elements) {
  Value matrix = splat(type, 0);
  for (auto [i, element] : llvm::enumerate(elements))
    matrix = spirv::CompositeInsertOp::create(e.b, e.loc, element, matrix,
                                              ArrayRef(int32_t(i)));
  return matrix;
}

/// Of the elements, those of bf16: Vulkan leaves the direction of a conversion
/// to the driver, and NVIDIA's cuts them off. What is rounded here is exact in
/// any. Halves go up, which is one in 2^16.
Value Matrices::roundToNearest(Value value) {
  if (!elementType.isBF16())
    return value;
  Value bits = arith::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), value);
  bits = e.bitAnd(e.add(bits, int64_t(1) << 15), -(int64_t(1) << 16));
  return arith::BitcastOp::create(e.b, e.loc, e.b.getF32Type(), bits);
}

Value Matrices::narrow(Value value) {
  return spirv::FConvertOp::create(e.b, e.loc, elementType,
                                   roundToNearest(value));
}

Value Matrices::narrowMatrix(ValueRange elements) {
  Values rounded;
  for (Value element : elements) {
    Value isNumber = arith::CmpFOp::create(
        e.b, e.loc, arith::CmpFPredicate::ORD, element, element);
    rounded.push_back(e.select(isNumber, roundToNearest(element), element));
  }
  Type narrow = type(elementType, spirv::CooperativeMatrixUseKHR::MatrixAcc);
  return spirv::FConvertOp::create(e.b, e.loc, narrow,
                                   fromElements(accumulator(), rounded));
}

//===----------------------------------------------------------------------===//
// Threads together
//===----------------------------------------------------------------------===//

Value Matrices::any(Value vote) {
  return spirv::GroupNonUniformAnyOp::create(e.b, e.loc, e.b.getI1Type(),
                                             spirv::Scope::Subgroup, vote);
}

Value Matrices::fromLane(Value value, int64_t distance) {
  Value mask = spirv::ConstantOp::create(e.b, e.loc, e.b.getI32Type(),
                                         e.b.getI32IntegerAttr(distance));
  return spirv::GroupNonUniformShuffleXorOp::create(
      e.b, e.loc, value.getType(), spirv::Scope::Subgroup, value, mask);
}

void Matrices::barrier(spirv::Scope scope) {
  auto semantics = spirv::MemorySemantics::AcquireRelease |
                   spirv::MemorySemantics::WorkgroupMemory |
                   spirv::MemorySemantics::MakeAvailable |
                   spirv::MemorySemantics::MakeVisible;
  spirv::ControlBarrierOp::create(e.b, e.loc, scope, scope, semantics);
}
