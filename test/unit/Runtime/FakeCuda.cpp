//===- FakeCuda.cpp - A driver without a GPU ------------------------------===//

#include "FakeCuda.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

// What each entry point does apart from its effect.
#define ENTRY(name)                                                            \
  if (auto found = fakeCuda()->results.find(#name);                            \
      found != fakeCuda()->results.end())                                      \
  return found->second

extern "C" {

FakeCuda *fakeCuda() {
  static FakeCuda state;
  return &state;
}

int cuInit(unsigned) {
  ENTRY(cuInit);
  return 0;
}

int cuGetErrorName(int result, const char **name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 218 ? "CUDA_ERROR_INVALID_PTX"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : "CUDA_ERROR_UNKNOWN";
  return 0;
}

int cuGetErrorString(int result, const char **text) {
  *text = result == 2     ? "out of memory"
          : result == 218 ? "a PTX JIT compilation failed"
          : result == 700 ? "an illegal memory access was encountered"
                          : "unknown error";
  return 0;
}

int cuDeviceGetCount(int *count) {
  ENTRY(cuDeviceGetCount);
  *count = int(fakeCuda()->gpus.size());
  return 0;
}

int cuDeviceGet(int *device, int number) {
  *device = number;
  return 0;
}

int cuDeviceGetName(char *name, int length, int device) {
  std::snprintf(name, length, "Fake %d", device);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int capability = fakeCuda()->gpus[device];
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTRY(cuDevicePrimaryCtxRetain);
  ++fakeCuda()->contexts;
  *context = fakeCuda();
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  --fakeCuda()->contexts;
  return 0;
}

int cuCtxSetCurrent(void *) { return 0; }

int cuModuleLoadDataEx(void **module, const void *image, unsigned count,
                       int *options, void **values) {
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5)
      std::strcpy(static_cast<char *>(values[i]), fakeCuda()->jitLog.c_str());
  ENTRY(cuModuleLoadDataEx);
  ++fakeCuda()->modules;
  fakeCuda()->images.push_back(static_cast<const char *>(image));
  *module = fakeCuda();
  return 0;
}

int cuModuleUnload(void *) {
  --fakeCuda()->modules;
  return 0;
}

/// A function is its name.
int cuModuleGetFunction(void **function, void *, const char *name) {
  ENTRY(cuModuleGetFunction);
  static std::set<std::string> names;
  *function = const_cast<std::string *>(&*names.insert(name).first);
  return 0;
}

int cuFuncSetAttribute(void *, int attribute, int value) {
  ENTRY(cuFuncSetAttribute);
  fakeCuda()->functionAttributes[attribute] = value;
  return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTRY(cuMemAlloc_v2);
  ++fakeCuda()->allocations;
  *address = reinterpret_cast<uint64_t>(
      std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return 0;
}

int cuMemFree_v2(uint64_t address) {
  --fakeCuda()->allocations;
  std::free(reinterpret_cast<void *>(address));
  return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return 0;
}

int cuMemsetD8Async(uint64_t, unsigned char, size_t, void *) {
  ++fakeCuda()->memsets;
  return 0;
}

int cuStreamCreate(void **stream, unsigned) {
  ++fakeCuda()->streams;
  *stream = fakeCuda();
  return 0;
}

int cuStreamDestroy_v2(void *) {
  --fakeCuda()->streams;
  return 0;
}

int cuStreamSynchronize(void *) {
  ENTRY(cuStreamSynchronize);
  return 0;
}

int cuEventCreate(void **event, unsigned) {
  ++fakeCuda()->events;
  *event = fakeCuda();
  return 0;
}

int cuEventDestroy_v2(void *) {
  --fakeCuda()->events;
  return 0;
}

int cuEventRecord(void *, void *) { return 0; }

int cuEventElapsedTime(float *milliseconds, void *, void *) {
  *milliseconds = fakeCuda()->elapsed;
  return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                   unsigned bx, unsigned by, unsigned bz, unsigned sharedBytes,
                   void *, void **parameters, void **) {
  ENTRY(cuLaunchKernel);
  fakeCuda()->launches.push_back({*static_cast<std::string *>(function),
                                  {gx, gy, gz},
                                  {bx, by, bz},
                                  sharedBytes});
  if (fakeCuda()->kernel)
    fakeCuda()->kernel(parameters);
  return 0;
}

/// The encoded map is the number of the recorded one, for the kernel to check
/// that it gets the right one.
int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *base,
                           const uint64_t *sizes, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int promotion,
                           int fill) {
  ENTRY(cuTensorMapEncodeTiled);
  *map = fakeCuda()->maps.size();
  fakeCuda()->maps.push_back({type,
                              interleave,
                              swizzle,
                              promotion,
                              fill,
                              reinterpret_cast<uint64_t>(base),
                              {sizes, sizes + rank},
                              {strides, strides + rank - 1},
                              {box, box + rank},
                              {steps, steps + rank}});
  return 0;
}

} // extern "C"
