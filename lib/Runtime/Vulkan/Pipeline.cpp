//===- Pipeline.cpp - A compiled Vulkan kernel ----------------------------===//

#include "Pipeline.h"
#include "LayoutCheck.h"
#include "PipelineCache.h"
#include "Requirements.h"
#include "SpirvModule.h"
#include "Statistics.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

bool attn::vulkan::hasWorkspace(const LaunchDescription &launch) {
  return launch.workspaceBytes != "0";
}

uint32_t attn::vulkan::boundBuffers(const LaunchDescription &launch) {
  bool hasScalars =
      launch.scalarsIn == ScalarsIn::Buffer && !launch.scalars.empty();
  return launch.arguments.size() + hasWorkspace(launch) + hasScalars;
}

uint32_t attn::vulkan::pushedBytes(const LaunchDescription &launch) {
  return launch.scalarsIn == ScalarsIn::PushConstants
             ? sizeof(int32_t) * launch.scalars.size()
             : 0;
}

Error Pipeline::createLayout(const Device &device, const Entry &entry) {
  std::vector<VkDescriptorSetLayoutBinding> bindings(entry.buffers);
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
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, entry.pushedBytes};
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

Expected<Pipeline> Pipeline::compile(const Device &device,
                                     ArrayRef<uint32_t> code,
                                     const Entry &entry,
                                     VkPipelineCache cache) {
  Pipeline result;
  if (Error error = result.createLayout(device, entry))
    return error;
  std::string what = "cannot load kernel '" + entry.name + "'";
  auto moduleInfo = zeroed<VkShaderModuleCreateInfo>(
      VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  moduleInfo.codeSize = 4 * code.size();
  moduleInfo.pCode = code.data();
  auto module = createOwned<&Functions::vkCreateShaderModule,
                            &Functions::vkDestroyShaderModule, VkShaderModule>(
      device, moduleInfo, what);
  if (!module)
    return module.takeError();

  VkBool32 isLayoutKnown = entry.isLayoutKnown;
  VkSpecializationMapEntry constant{0, 0, sizeof(isLayoutKnown)};
  VkSpecializationInfo constants{1, &constant, sizeof(isLayoutKnown),
                                 &isLayoutKnown};
  auto subgroup = zeroed<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  auto info = zeroed<VkComputePipelineCreateInfo>(
      VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module->get();
  info.stage.pName = entry.name.c_str();
  if (entry.isLayoutKnown)
    info.stage.pSpecializationInfo = &constants;
  info.layout = result.layout();
  const auto &control = device.physical.features.subgroupSize;
  if (entry.subgroupSize && control.subgroupSizeControl) {
    subgroup.requiredSubgroupSize = entry.subgroupSize;
    info.stage.pNext = &subgroup;
    // Subgroups without idle threads.
    if (control.computeFullSubgroups && entry.threads % entry.subgroupSize == 0)
      info.stage.flags |=
          VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  bool saysStatistics = wantsStatistics(device);
  if (saysStatistics)
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  VkPipeline handle = VK_NULL_HANDLE;
  VkResult made = device.vk.vkCreateComputePipelines(device.handle, cache, 1,
                                                     &info, nullptr, &handle);
  result.pipeline = {device, handle};
  if (Error error = device.check(made, what))
    return error;
  if (saysStatistics)
    printStatistics(device, handle, entry.name);
  return result;
}

Expected<std::vector<Pipeline>> Pipeline::createAll(const Device &device,
                                                    const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  Expected<std::vector<uint32_t>> code = readModule(artifact);
  if (!code)
    return code.takeError();
  Entry entry;
  entry.buffers = boundBuffers(launch);
  entry.pushedBytes = pushedBytes(launch);
  entry.subgroupSize = launch.subgroupSize;
  if (!launch.layoutCheck.empty())
    if (Error error =
            askLayout(device, launch, *code).moveInto(entry.isLayoutKnown))
      return error;
  Expected<PipelineCache> cache = PipelineCache::open(device, *code);
  if (!cache)
    return cache.takeError();
  std::vector<Pipeline> pipelines;
  for (const KernelLaunch *kernel : launch.kernels()) {
    entry.name = kernel->entry;
    if (Error error =
            constantSize(kernel->workgroup[0]).moveInto(entry.threads))
      return error;
    Expected<Pipeline> pipeline = compile(device, *code, entry, cache->get());
    if (!pipeline)
      return pipeline.takeError();
    pipelines.push_back(std::move(*pipeline));
  }
  cache->save(device);
  return pipelines;
}
