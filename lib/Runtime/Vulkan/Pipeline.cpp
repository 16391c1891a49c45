//===- Pipeline.cpp - A compiled Vulkan kernel ----------------------------===//

#include "Pipeline.h"
#include "PipelineCache.h"
#include "Requirements.h"
#include "SpirvModule.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

uint32_t attn::vulkan::boundBuffers(const LaunchDescription &launch) {
  bool hasScalars =
      launch.scalarsIn == ScalarsIn::Buffer && !launch.scalars.empty();
  return launch.arguments.size() + hasScalars;
}

uint32_t attn::vulkan::pushedBytes(const LaunchDescription &launch) {
  return launch.scalarsIn == ScalarsIn::PushConstants
             ? sizeof(int32_t) * launch.scalars.size()
             : 0;
}

Error Pipeline::createLayout(const Device &device,
                             const LaunchDescription &launch) {
  std::vector<VkDescriptorSetLayoutBinding> bindings(boundBuffers(launch));
  for (size_t i = 0; i < bindings.size(); ++i)
    bindings[i] = {uint32_t(i), VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                   VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  auto setInfo = zeroed<VkDescriptorSetLayoutCreateInfo>(
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  setInfo.bindingCount = bindings.size();
  setInfo.pBindings = bindings.data();
  if (Error error =
          createOwned<&Functions::vkCreateDescriptorSetLayout,
                      &Functions::vkDestroyDescriptorSetLayout,
                      VkDescriptorSetLayout>(device, setInfo, "descriptors")
              .moveInto(descriptors))
    return error;
  VkDescriptorSetLayout set = descriptors.get();
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            pushedBytes(launch)};
  auto info = zeroed<VkPipelineLayoutCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  info.setLayoutCount = 1;
  info.pSetLayouts = &set;
  info.pushConstantRangeCount = range.size ? 1 : 0;
  info.pPushConstantRanges = &range;
  return createOwned<&Functions::vkCreatePipelineLayout,
                     &Functions::vkDestroyPipelineLayout, VkPipelineLayout>(
             device, info, "pipeline layout")
      .moveInto(pipelineLayout);
}

/// Whether the pipeline may ask for subgroups without idle threads.
static bool hasFullSubgroups(const Device &device,
                             const LaunchDescription &launch) {
  Expected<int64_t> threads = constantSize(launch.workgroup[0]);
  if (!threads) {
    consumeError(threads.takeError());
    return false;
  }
  return device.physical.features.subgroupSize.computeFullSubgroups &&
         *threads % launch.subgroupSize == 0;
}

Expected<Pipeline> Pipeline::create(const Device &device,
                                    const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  Pipeline result;
  Expected<std::vector<uint32_t>> code = readModule(artifact);
  if (!code)
    return code.takeError();
  if (Error error = result.createLayout(device, launch))
    return error;
  std::string what = "cannot load kernel '" + launch.name + "'";
  auto moduleInfo = zeroed<VkShaderModuleCreateInfo>(
      VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  moduleInfo.codeSize = 4 * code->size();
  moduleInfo.pCode = code->data();
  auto module = createOwned<&Functions::vkCreateShaderModule,
                            &Functions::vkDestroyShaderModule, VkShaderModule>(
      device, moduleInfo, what);
  if (!module)
    return module.takeError();
  Expected<PipelineCache> cache = PipelineCache::open(device, *code);
  if (!cache)
    return cache.takeError();

  auto subgroup = zeroed<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  auto info = zeroed<VkComputePipelineCreateInfo>(
      VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module->get();
  info.stage.pName = launch.entry.c_str();
  info.layout = result.layout();
  if (launch.subgroupSize &&
      device.physical.features.subgroupSize.subgroupSizeControl) {
    subgroup.requiredSubgroupSize = launch.subgroupSize;
    info.stage.pNext = &subgroup;
    if (hasFullSubgroups(device, launch))
      info.stage.flags |=
          VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  VkPipeline handle = VK_NULL_HANDLE;
  VkResult made = device.vk.vkCreateComputePipelines(
      device.handle, cache->get(), 1, &info, nullptr, &handle);
  result.pipeline = {device, handle};
  if (Error error = device.check(made, what))
    return error;
  cache->save(device);
  return result;
}
