//===- Buffer.h - Memory of a Vulkan device ---------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_BUFFER_H
#define ATTN_LIB_RUNTIME_VULKAN_BUFFER_H

#include "Device.h"

namespace attn::vulkan {

/// A buffer with memory of its own. The device has to live as long.
class Buffer {
public:
  Buffer() = default;
  /// What a kernel reads and writes: the device's memory, and the host's too
  /// where they are one.
  static llvm::Expected<Buffer>
  createStorage(const Device &device, size_t bytes, const llvm::Twine &what);

  VkBuffer get() const { return buffer.get(); }
  size_t bytes() const { return size; }

  /// Copies between the host's memory and the first `bytes` of the buffer.
  llvm::Error write(const void *data, size_t bytes, const llvm::Twine &what);
  llvm::Error read(void *data, size_t bytes, const llvm::Twine &what) const;

private:
  static llvm::Expected<Buffer> create(const Device &device, size_t bytes,
                                       VkBufferUsageFlags usage, bool isMapped,
                                       const llvm::Twine &what);

  const Device *device = nullptr;
  Owned<VkDeviceMemory, &Functions::vkFreeMemory> memory;
  Owned<VkBuffer, &Functions::vkDestroyBuffer> buffer;
  size_t size = 0;
  /// Where the host sees the memory, or null.
  char *mapped = nullptr;
};

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_BUFFER_H
