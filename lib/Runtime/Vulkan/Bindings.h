//===- Bindings.h - The buffers that a dispatch binds -----------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_BINDINGS_H
#define ATTN_LIB_RUNTIME_VULKAN_BINDINGS_H

#include "Buffer.h"

namespace attn::vulkan {

/// A descriptor set with buffer i at binding i. Device and buffers have to live
/// as long.
class Bindings {
public:
  Bindings() = default;
  static llvm::Expected<Bindings> create(const Device &device,
                                         VkDescriptorSetLayout layout,
                                         llvm::ArrayRef<Buffer> buffers);

  /// As set 0 of what is recorded next.
  void bind(const Device &device, VkCommandBuffer commands,
            VkPipelineLayout layout) const;

private:
  Owned<VkDescriptorPool, &Functions::vkDestroyDescriptorPool> pool;
  VkDescriptorSet set = VK_NULL_HANDLE;
};

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_BINDINGS_H
