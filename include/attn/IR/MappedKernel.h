//===- MappedKernel.h - What a mapped GPU kernel promises -------*- C++ -*-===//
//
// At stage mapped for a GPU the module holds one gpu.module with one kernel, or
// with several that are launched in their order:
//
//   gpu.func @attention(%q: memref<?x?x?x128xbf16, strided<...>>, ...,
//                       %map: !llvm.ptr, ...) kernel
//     attributes {attn.launch = {
//       grid = "min(132, arg0_dim0 * ceildiv(arg0_dim2, 192))",
//       workgroup = 384 : i64, shared_memory = 197632 : i64,
//       tensor_maps = [{argument = 1 : i64, box = [1, 1, 64, 64],
//                       swizzle = 128 : i64}]}}
//
// Its arguments are the memrefs of the function that it was made of, in their
// order, then a pointer for each tensor map. The grid is a size expression
// (attn/Artifact/SizeExpression.h) in which size k of argument i is called
// arg<i>_dim<k>. The gpu.module carries attn.target.
//
// Kernels that leave something to each other share a workspace in main memory:
// attn.launch has its bytes as a size expression, `workspace`, the same in all
// of them, and behind the arguments comes a memref of one dimension, of f32 or
// where they compute in it of f64. What it holds before the first kernel does
// not matter.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_IR_MAPPEDKERNEL_H
#define ATTN_IR_MAPPEDKERNEL_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/TypeRange.h"
#include <string>

namespace attn {

constexpr llvm::StringLiteral kLaunchAttrName = "attn.launch";

/// A Vulkan device promises 65,535 workgroups in a dimension. A kernel for one
/// counts its blocks in rows of this many, task = x + y * kGridWidth, and
/// leaves when there is no such task.
constexpr int64_t kGridWidth = 32768;

/// The specialisation constant, false by itself, that says that cooperative
/// matrices lie as the target expects. A kernel for a Vulkan device may bring
/// a second one that finds out: a workgroup of one subgroup, whose argument has
/// a word a lane, and a lane writes 1 where its elements lie so, else 0.
constexpr unsigned kLayoutConstant = 0;

/// A CUtensorMap among the parameters of a kernel.
constexpr int64_t kTensorMapBytes = 128;
constexpr int64_t kTensorMapAlignment = 64;

/// A tile of an argument that TMA moves: its size in each dimension, in the
/// argument's order, and the width of the swizzle pattern in bytes (0, 32, 64,
/// 128).
struct TensorMap {
  int64_t argument = 0;
  llvm::SmallVector<int64_t> box;
  int64_t swizzle = 128;
};

struct Launch {
  /// Blocks in a row.
  std::string grid;
  /// Threads of a block, and the bytes of dynamic shared memory that it needs.
  int64_t workgroup = 0, sharedMemory = 0;
  /// Lanes of a subgroup that a Vulkan kernel relies on; 0 is any number.
  int64_t subgroupSize = 0;
  /// Another kernel of the module, or "": it asks the device whether the
  /// specialisation constant kLayoutConstant of this one may be true.
  std::string layoutCheck = "";
  llvm::SmallVector<TensorMap> tensorMaps;
  /// Bytes of the workspace; empty without one.
  std::string workspace;
};

/// A size, stride or offset of a memref argument that its type leaves open. A
/// kernel for Vulkan takes them by themselves, as i32.
struct KernelScalar {
  enum Field { Size, Stride, Offset };
  int64_t argument;
  Field field;
  /// 0 for an offset.
  int64_t dimension;

  bool operator==(const KernelScalar &o) const {
    return argument == o.argument && field == o.field &&
           dimension == o.dimension;
  }
};

/// The scalars of a kernel with arguments of these memref types, in the order
/// that it takes them: argument by argument, sizes, strides, offset.
llvm::SmallVector<KernelScalar> getKernelScalars(mlir::TypeRange arguments);
/// As push constants, of which a Vulkan device promises 128 bytes. Else they
/// are a buffer behind those of the arguments.
bool fitPushConstants(llvm::ArrayRef<KernelScalar> scalars);

/// Writes attn.launch of `kernel`.
void setLaunch(mlir::Operation *kernel, const Launch &launch);

/// What attn.launch of `kernel` says. An error of `kernel` when it is missing
/// or malformed.
mlir::FailureOr<Launch> getLaunch(mlir::Operation *kernel);

} // namespace attn

#endif // ATTN_IR_MAPPEDKERNEL_H
