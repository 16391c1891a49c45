//===- WorkgroupMemory.cpp - Workgroup memory of several kernels ----------===//

#include "WorkgroupMemory.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace attn;

/// A vector of one element is that element.
static Type heldElement(memref::AllocOp alloc) {
  Type element = alloc.getType().getElementType();
  auto vector = dyn_cast<VectorType>(element);
  return vector && vector.getNumElements() == 1 ? vector.getElementType()
                                                : element;
}

LogicalResult WorkgroupMemory::add(Operation *kernel) {
  DenseMap<Type, unsigned> numbers;
  WalkResult result = kernel->walk([&](memref::AllocOp alloc) {
    MemRefType type = alloc.getType();
    auto space = dyn_cast_or_null<gpu::AddressSpaceAttr>(type.getMemorySpace());
    if (!space || space.getValue() != gpu::AddressSpace::Workgroup ||
        type.getRank() != 1 || !type.hasStaticShape()) {
      alloc.emitOpError("expected workgroup memory of one fixed size");
      return WalkResult::interrupt();
    }
    Type element = heldElement(alloc);
    unsigned number = numbers[element]++;
    auto *known = llvm::find_if(variables, [&](const Variable &v) {
      return v.element == element && v.number == number;
    });
    if (known == variables.end())
      variables.push_back({element, number, type.getDimSize(0), {}});
    else
      known->size = std::max(known->size, type.getDimSize(0));
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void WorkgroupMemory::createVariables(spirv::ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  for (auto [number, variable] : llvm::enumerate(variables)) {
    std::string name = "shared" + std::to_string(number);
    while (module.lookupSymbol(name))
      name += "_";
    auto type = spirv::PointerType::get(
        spirv::ArrayType::get(variable.element, variable.size),
        spirv::StorageClass::Workgroup);
    variable.op = spirv::GlobalVariableOp::create(b, module.getLoc(), type,
                                                  name, FlatSymbolRefAttr());
  }
}

spirv::GlobalVariableOp
WorkgroupMemory::find(memref::AllocOp alloc,
                      DenseMap<Type, unsigned> &numbers) const {
  Type element = heldElement(alloc);
  unsigned number = numbers[element]++;
  for (const Variable &variable : variables)
    if (variable.element == element && variable.number == number)
      return variable.op;
  llvm_unreachable("every kernel has been added");
}
