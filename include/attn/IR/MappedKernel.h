//===- MappedKernel.h - What a mapped GPU kernel promises -------*- C++ -*-===//
//
// At stage mapped for a GPU the module holds one gpu.module with one kernel:
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
//===----------------------------------------------------------------------===//

#ifndef ATTN_IR_MAPPEDKERNEL_H
#define ATTN_IR_MAPPEDKERNEL_H

#include "mlir/IR/Operation.h"
#include <string>

namespace attn {

constexpr llvm::StringLiteral kLaunchAttrName = "attn.launch";

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
  llvm::SmallVector<TensorMap> tensorMaps;
};

/// Writes attn.launch of `kernel`.
void setLaunch(mlir::Operation *kernel, const Launch &launch);

/// What attn.launch of `kernel` says. An error of `kernel` when it is missing
/// or malformed.
mlir::FailureOr<Launch> getLaunch(mlir::Operation *kernel);

} // namespace attn

#endif // ATTN_IR_MAPPEDKERNEL_H
