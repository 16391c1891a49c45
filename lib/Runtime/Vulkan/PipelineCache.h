//===- PipelineCache.h - Compiled kernels on disk ---------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_PIPELINECACHE_H
#define ATTN_LIB_RUNTIME_VULKAN_PIPELINECACHE_H

#include "Device.h"

namespace attn::vulkan {

/// Where what is known of a kernel (its module) on this driver and device is
/// kept, without an ending; "" where there is no place for it.
std::string cachePath(const Device &device, llvm::ArrayRef<uint32_t> code);

/// What the driver made of one kernel, kept for the next process in a file of
/// $XDG_CACHE_HOME/attn or ~/.cache/attn. A cache that cannot be read or
/// written costs time and is no error.
class PipelineCache {
public:
  /// `code` is the kernel's module.
  static llvm::Expected<PipelineCache> open(const Device &device,
                                            llvm::ArrayRef<uint32_t> code);

  VkPipelineCache get() const { return cache.get(); }
  /// Writes the file, unless it was read and holds the kernel already.
  void save(const Device &device) const;

private:
  Owned<VkPipelineCache, &Functions::vkDestroyPipelineCache> cache;
  /// "" where there is no place for it.
  std::string path;
  size_t bytesRead = 0;
};

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_PIPELINECACHE_H
