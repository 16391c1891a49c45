//===- WorkgroupMemory.h - Workgroup memory of several kernels --*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TOSPIRV_WORKGROUPMEMORY_H
#define ATTN_LIB_CONVERSION_TOSPIRV_WORKGROUPMEMORY_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

namespace attn {

/// Workgroup memory of the kernels of a module. One dispatch runs one of them,
/// so they share variables: each takes the first of an element type for its
/// first allocation of that type, and so on. A variable is as large as the
/// largest of them needs. Some drivers count the variables of all.
class WorkgroupMemory {
public:
  /// Gets to know a kernel, before the variables are made.
  mlir::LogicalResult add(mlir::Operation *kernel);
  void createVariables(mlir::spirv::ModuleOp module);
  /// The variable of an allocation, the `number`-th of its element type in its
  /// kernel, which is counted up.
  mlir::spirv::GlobalVariableOp
  find(mlir::memref::AllocOp alloc,
       llvm::DenseMap<mlir::Type, unsigned> &numbers) const;

private:
  struct Variable {
    mlir::Type element;
    unsigned number;
    int64_t size;
    mlir::spirv::GlobalVariableOp op;
  };
  llvm::SmallVector<Variable> variables;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_TOSPIRV_WORKGROUPMEMORY_H
