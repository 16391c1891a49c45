//===- Matrices.h - Cooperative matrices of a subgroup ----------*- C++ -*-===//
//
// The operations of SPV_KHR_cooperative_matrix under short names, and the
// shared memory that matrices are loaded from. A thread holds some elements of
// each matrix; which ones is the driver's affair. All that is relied on is that
// matrices of one type and use have one layout.
//
// Memory of a workgroup is non-private in the words of the Vulkan memory model,
// and the barriers make it available and visible.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRICES_H
#define ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRICES_H

#include "../Common/GpuEmitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

namespace attn::coop {

using Values = llvm::SmallVector<mlir::Value>;

/// An array of a workgroup, or a view of an argument's buffer.
struct MemoryArray {
  mlir::spirv::GlobalVariableOp variable;
  /// The members that lead to the array within the variable.
  bool isBuffer = false;
};

class Matrices {
public:
  Matrices(GpuEmitter &e, mlir::FloatType element)
      : e(e), elementType(element) {}

  mlir::Type left() const {
    return type(elementType, mlir::spirv::CooperativeMatrixUseKHR::MatrixA);
  }
  mlir::Type right() const {
    return type(elementType, mlir::spirv::CooperativeMatrixUseKHR::MatrixB);
  }
  mlir::Type accumulator() const {
    return type(e.b.getF32Type(),
                mlir::spirv::CooperativeMatrixUseKHR::MatrixAcc);
  }

  /// Declares `count` elements of shared memory in `module`, once a name.
  MemoryArray share(mlir::gpu::GPUModuleOp module, llvm::StringRef name,
                    mlir::Type element, int64_t count);
  /// Declares a view of argument `number` as units of `element`.
  MemoryArray viewArgument(mlir::gpu::GPUModuleOp module, unsigned number,
                           mlir::Type element);

  /// Positions are i32, in elements of the array.
  mlir::Value read(const MemoryArray &array, mlir::Value at);
  void write(const MemoryArray &array, mlir::Value at, mlir::Value value);
  /// Adds bits to a word of the workgroup.
  void addBits(const MemoryArray &array, mlir::Value at, mlir::Value bits);
  mlir::Value load(mlir::Type type, const MemoryArray &array, mlir::Value at,
                   int64_t stride, bool isTransposed = false);
  void store(mlir::Value matrix, const MemoryArray &array, mlir::Value at,
             int64_t stride);

  mlir::Value splat(mlir::Type type, double value);
  mlir::Value multiplyAdd(mlir::Value left, mlir::Value right,
                          mlir::Value accumulator);
  /// Products of elements in the same place.
  mlir::Value scale(mlir::Value x, mlir::Value y);
  /// What this thread holds of an accumulator, `count` elements.
  Values elements(mlir::Value matrix, int64_t count);
  mlir::Value fromElements(mlir::Type type, mlir::ValueRange elements);

  mlir::Value maximum(mlir::Value x, mlir::Value y) {
    return mlir::spirv::GLFMaxOp::create(e.b, e.loc, x, y);
  }
  /// f32 to the elements of a left side, rounded to nearest. A NaN may become
  /// a number.
  mlir::Value narrow(mlir::Value value);
  /// A thread's elements of an accumulator as one of the narrow type, rounded
  /// to nearest.
  mlir::Value narrowMatrix(mlir::ValueRange elements);

  /// Whether any thread of the subgroup says so.
  mlir::Value any(mlir::Value vote);
  /// The value of the lane whose number differs by `distance`, a power of two.
  mlir::Value fromLane(mlir::Value value, int64_t distance);
  void subgroupBarrier() { barrier(mlir::spirv::Scope::Subgroup); }
  void workgroupBarrier() { barrier(mlir::spirv::Scope::Workgroup); }

private:
  mlir::Value roundToNearest(mlir::Value value);
  mlir::Type type(mlir::Type element,
                  mlir::spirv::CooperativeMatrixUseKHR use) const;
  mlir::Value pointer(const MemoryArray &array, mlir::Value at);
  void barrier(mlir::spirv::Scope scope);
  mlir::spirv::MemoryAccessAttr nonPrivate();

  GpuEmitter &e;
  mlir::FloatType elementType;
};

} // namespace attn::coop

#endif // ATTN_LIB_CONVERSION_TILEDTOCOOPMATRIX_MATRICES_H
