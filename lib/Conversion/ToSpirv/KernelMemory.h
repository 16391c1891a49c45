//===- KernelMemory.h - Memory of a kernel as SPIR-V variables --*- C++ -*-===//
//
// Logical SPIR-V has no pointers to pass around: each argument is a storage
// buffer, a variable of the module, and so is each allocation of workgroup
// memory. An access is a chain of indices into one of them.
//
// Elements narrower or wider than 32 bits are taken out of 32-bit words, so
// that a kernel needs no more than Vulkan 1.1 promises:
//
//   f32, i32        the element itself
//   f16, bf16       half a word, as the f32 of the same value
//   i8, i1          a byte of a word
//   f64, i64        two words; an f64 as the nearest f32 where the device has
//                   no other
//
// Two threads may write the two halves of a word: either is put there by
// atomics that leave the other alone.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TOSPIRV_KERNELMEMORY_H
#define ATTN_LIB_CONVERSION_TOSPIRV_KERNELMEMORY_H

#include "WorkgroupMemory.h"

namespace attn {

/// Replaces every use of memory in `function`, whose arguments are the memrefs
/// of a mapped kernel, by accesses to variables of `module`; the arguments are
/// left without uses. The last of them may be the kernel's workspace, whose
/// size nobody asks for. An error on the operation that has no meaning there.
mlir::LogicalResult lowerKernelMemory(mlir::spirv::ModuleOp module,
                                      mlir::spirv::FuncOp function,
                                      const WorkgroupMemory &workgroup,
                                      bool hasWorkspace, bool hasDouble,
                                      bool hasLong);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_TOSPIRV_KERNELMEMORY_H
