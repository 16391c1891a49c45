//===- Bindings.cpp - The buffers that a dispatch binds -------------------===//

#include "Bindings.h"

using namespace llvm;
using namespace attn::vulkan;

Expected<Bindings> Bindings::create(const Device &device,
                                    VkDescriptorSetLayout layout,
                                    ArrayRef<Buffer> buffers) {
  Bindings result;
  uint32_t count = buffers.size();
  VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                            std::max(count, 1u)};
  auto poolInfo = zeroed<VkDescriptorPoolCreateInfo>(
      VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
  poolInfo.maxSets = 1;
  poolInfo.poolSizeCount = 1;
  poolInfo.pPoolSizes = &size;
  if (Error error =
          createOwned<&Functions::vkCreateDescriptorPool,
                      &Functions::vkDestroyDescriptorPool, VkDescriptorPool>(
              device, poolInfo, "descriptors")
              .moveInto(result.pool))
    return error;
  auto info = zeroed<VkDescriptorSetAllocateInfo>(
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  info.descriptorPool = result.pool.get();
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  if (Error error = device.check(
          device.vk.vkAllocateDescriptorSets(device.handle, &info, &result.set),
          "descriptors"))
    return error;
  std::vector<VkDescriptorBufferInfo> infos(count);
  std::vector<VkWriteDescriptorSet> writes(count);
  for (uint32_t i = 0; i < count; ++i) {
    infos[i] = {buffers[i].get(), 0, VK_WHOLE_SIZE};
    writes[i] =
        zeroed<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    writes[i].dstSet = result.set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &infos[i];
  }
  device.vk.vkUpdateDescriptorSets(device.handle, count, writes.data(), 0,
                                   nullptr);
  if (Error error = device.check(VK_SUCCESS, "descriptors"))
    return error;
  return result;
}

void Bindings::bind(const Device &device, VkCommandBuffer commands,
                    VkPipelineLayout layout) const {
  device.vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                    layout, 0, 1, &set, 0, nullptr);
}
