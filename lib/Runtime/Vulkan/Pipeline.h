//===- Pipeline.h - A compiled Vulkan kernel --------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_PIPELINE_H
#define ATTN_LIB_RUNTIME_VULKAN_PIPELINE_H

#include "Device.h"
#include "attn/Artifact/Artifact.h"

namespace attn::vulkan {

/// A compute pipeline and the layout of what it takes: storage buffers at
/// binding 0 and up of set 0, and push constants.
class Pipeline {
public:
  /// Those of all kernels, in their order. Compiles, or takes what an earlier
  /// process left in the cache on disk.
  static llvm::Expected<std::vector<Pipeline>>
  createAll(const Device &device, const Artifact &artifact);

  /// An entry point of a module, what it takes, and how it runs.
  struct Entry {
    std::string name;
    uint32_t buffers = 0, pushedBytes = 0;
    /// Threads of a workgroup, and of a subgroup that is asked for or 0.
    int64_t threads = 0, subgroupSize = 0;
    /// Specialisation constant 0.
    bool isLayoutKnown = false;
  };
  static llvm::Expected<Pipeline> compile(const Device &device,
                                          llvm::ArrayRef<uint32_t> code,
                                          const Entry &entry,
                                          VkPipelineCache cache);

  VkPipeline get() const { return pipeline.get(); }
  VkPipelineLayout layout() const { return pipelineLayout.get(); }
  VkDescriptorSetLayout setLayout() const { return descriptors.get(); }

private:
  llvm::Error createLayout(const Device &device, const Entry &entry);

  Owned<VkDescriptorSetLayout, &Functions::vkDestroyDescriptorSetLayout>
      descriptors;
  Owned<VkPipelineLayout, &Functions::vkDestroyPipelineLayout> pipelineLayout;
  Owned<VkPipeline, &Functions::vkDestroyPipeline> pipeline;
};

/// Buffers that `launch` binds (arguments, workspace, scalars), and bytes that
/// it pushes.
uint32_t boundBuffers(const LaunchDescription &launch);
uint32_t pushedBytes(const LaunchDescription &launch);
/// Whether the workspace is among them.
bool hasWorkspace(const LaunchDescription &launch);

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_PIPELINE_H
