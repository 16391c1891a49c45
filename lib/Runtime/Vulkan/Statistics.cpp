//===- Statistics.cpp - What a driver says of a pipeline ------------------===//

#include "Statistics.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace attn::vulkan;

bool attn::vulkan::wantsStatistics(const Device &device) {
  return sys::Process::GetEnv("ATTN_VULKAN_STATISTICS") == "1" &&
         device.physical.features.executables.pipelineExecutableInfo &&
         device.vk.vkGetPipelineExecutablePropertiesKHR &&
         device.vk.vkGetPipelineExecutableStatisticsKHR;
}

static void print(raw_ostream &os, const VkPipelineExecutableStatisticKHR &s) {
  os << ", " << s.name << " ";
  switch (s.format) {
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
    os << (s.value.b32 ? "yes" : "no");
    break;
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
    os << s.value.i64;
    break;
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
    os << s.value.u64;
    break;
  default:
    os << s.value.f64;
  }
}

void attn::vulkan::printStatistics(const Device &device, VkPipeline pipeline,
                                   StringRef name) {
  auto info = zeroed<VkPipelineInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR);
  info.pipeline = pipeline;
  uint32_t count = 0;
  const Functions &vk = device.vk;
  if (vk.vkGetPipelineExecutablePropertiesKHR(device.handle, &info, &count,
                                              nullptr))
    return;
  for (uint32_t i = 0; i < count; ++i) {
    auto executable = zeroed<VkPipelineExecutableInfoKHR>(
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR);
    executable.pipeline = pipeline;
    executable.executableIndex = i;
    uint32_t size = 0;
    vk.vkGetPipelineExecutableStatisticsKHR(device.handle, &executable, &size,
                                            nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> statistics(
        size, zeroed<VkPipelineExecutableStatisticKHR>(
                  VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR));
    vk.vkGetPipelineExecutableStatisticsKHR(device.handle, &executable, &size,
                                            statistics.data());
    errs() << name;
    for (const VkPipelineExecutableStatisticKHR &statistic : statistics)
      print(errs(), statistic);
    errs() << "\n";
  }
}
