//===- CudaKernel.h - Kernels on an NVIDIA GPU ------------------*- C++ -*-===//

#ifndef ATTN_RUNTIME_CUDA_CUDAKERNEL_H
#define ATTN_RUNTIME_CUDA_CUDAKERNEL_H

#include "attn/Runtime/Kernel.h"

namespace attn {

/// Loads PTX or a cubin into the first GPU that runs it. The driver's library
/// is opened now: libcuda.so.1, or what the environment's ATTN_LIBCUDA names.
/// Code that is loaded already, by another kernel that still lives, is not
/// compiled again.
llvm::Expected<std::unique_ptr<Kernel>>
loadCudaKernel(const Artifact &artifact);

} // namespace attn

#endif // ATTN_RUNTIME_CUDA_CUDAKERNEL_H
