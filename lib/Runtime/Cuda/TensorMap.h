//===- TensorMap.h - Descriptors of TMA -------------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_CUDA_TENSORMAP_H
#define ATTN_LIB_RUNTIME_CUDA_TENSORMAP_H

#include "Driver.h"
#include "attn/Artifact/LaunchDescription.h"

namespace attn::cuda {

/// A tensor in the memory of the GPU; strides are in elements.
struct DeviceTensor {
  Address base = 0;
  llvm::ArrayRef<int64_t> shape, strides;
};

/// Encodes what `map` asks for. An error says what TMA minds in the tensor.
llvm::Expected<TensorMap> encodeTensorMap(const Driver &driver,
                                          const ArgumentDescription &argument,
                                          const TensorMapDescription &map,
                                          const DeviceTensor &tensor);

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDA_TENSORMAP_H
