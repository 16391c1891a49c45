//===- Driver.h - What is used of NVIDIA's driver API -----------*- C++ -*-===//
//
// The library of the driver is opened at run time, and CUDA's headers are not
// needed to build: the entry points, types and numbers below are those of
// cuda.h, under the names that the driver exports them by.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDA_DRIVER_H
#define ATTN_LIB_RUNTIME_CUDA_DRIVER_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <cstddef>
#include <cstdint>

namespace attn::cuda {

using Result = int;
using Device = int;
using Address = uint64_t;
using Context = struct CUctx_st *;
using Module = struct CUmod_st *;
using Function = struct CUfunc_st *;
using Stream = struct CUstream_st *;
using Event = struct CUevent_st *;

/// CUtensorMap: opaque, encoded by the driver.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

/// CUresult.
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kMisalignedAddress = 716,
  kLaunchFailed = 719
};

/// CUdevice_attribute, CUfunction_attribute, CUjit_option.
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
constexpr int kMaxDynamicSharedSize = 8;
constexpr int kJitErrorLogBuffer = 5, kJitErrorLogBufferSize = 6;

/// CUtensorMapL2promotion; interleave and fill are 0.
constexpr int kPromote256Bytes = 3;

// clang-format off
#define ATTN_CUDA_ENTRY_POINTS(X)                                              \
  X(cuInit, (unsigned flags))                                                  \
  X(cuGetErrorName, (Result, const char **))                                   \
  X(cuGetErrorString, (Result, const char **))                                 \
  X(cuDeviceGetCount, (int *))                                                 \
  X(cuDeviceGet, (Device *, int number))                                       \
  X(cuDeviceGetName, (char *, int length, Device))                             \
  X(cuDeviceGetAttribute, (int *, int attribute, Device))                      \
  X(cuDevicePrimaryCtxRetain, (Context *, Device))                             \
  X(cuDevicePrimaryCtxRelease_v2, (Device))                                    \
  X(cuCtxSetCurrent, (Context))                                                \
  X(cuModuleLoadDataEx, (Module *, const void *image, unsigned count,          \
                         int *options, void **values))                         \
  X(cuModuleUnload, (Module))                                                  \
  X(cuModuleGetFunction, (Function *, Module, const char *name))               \
  X(cuFuncSetAttribute, (Function, int attribute, int value))                  \
  X(cuMemAlloc_v2, (Address *, size_t bytes))                                  \
  X(cuMemFree_v2, (Address))                                                   \
  X(cuMemcpyHtoD_v2, (Address, const void *, size_t bytes))                    \
  X(cuMemcpyDtoH_v2, (void *, Address, size_t bytes))                          \
  X(cuMemsetD8Async, (Address, unsigned char, size_t bytes, Stream))           \
  X(cuStreamCreate, (Stream *, unsigned flags))                                \
  X(cuStreamDestroy_v2, (Stream))                                              \
  X(cuStreamSynchronize, (Stream))                                             \
  X(cuEventCreate, (Event *, unsigned flags))                                  \
  X(cuEventDestroy_v2, (Event))                                                \
  X(cuEventRecord, (Event, Stream))                                            \
  X(cuEventElapsedTime, (float *milliseconds, Event, Event))                   \
  X(cuLaunchKernel, (Function, unsigned gridX, unsigned gridY, unsigned gridZ, \
                     unsigned blockX, unsigned blockY, unsigned blockZ,        \
                     unsigned sharedBytes, Stream, void **parameters,          \
                     void **extra))                                            \
  X(cuTensorMapEncodeTiled, (TensorMap *, int type, uint32_t rank, void *base, \
                             const uint64_t *sizes, const uint64_t *strides,   \
                             const uint32_t *box, const uint32_t *steps,       \
                             int interleave, int swizzle, int promotion,       \
                             int fill))
// clang-format on

struct Driver {
#define X(name, parameters) Result(*name) parameters = nullptr;
  ATTN_CUDA_ENTRY_POINTS(X)
#undef X

  /// The driver of this process, opened and initialised by the first call.
  static llvm::Expected<const Driver *> get();

  /// Success, or "WHAT: CUDA_ERROR_X: its text; remedy" in one line.
  llvm::Error check(Result result, const llvm::Twine &what) const;
};

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDA_DRIVER_H
