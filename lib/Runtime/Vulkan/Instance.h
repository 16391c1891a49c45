//===- Instance.h - The Vulkan loader ---------------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_INSTANCE_H
#define ATTN_LIB_RUNTIME_VULKAN_INSTANCE_H

#include "Extensions.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace attn::vulkan {

// clang-format off
/// Found without an instance, and with one.
#define ATTN_VULKAN_GLOBAL_ENTRY_POINTS(X)                                     \
  X(vkCreateInstance)                                                          \
  X(vkEnumerateInstanceVersion)                                                \
  X(vkEnumerateInstanceExtensionProperties)                                    \
  X(vkEnumerateInstanceLayerProperties)
#define ATTN_VULKAN_ENTRY_POINTS(X)                                            \
  X(vkDestroyInstance)                                                         \
  X(vkEnumeratePhysicalDevices)                                                \
  X(vkEnumerateDeviceExtensionProperties)                                      \
  X(vkGetPhysicalDeviceFeatures2)                                              \
  X(vkGetPhysicalDeviceProperties)                                             \
  X(vkGetPhysicalDeviceProperties2)                                            \
  X(vkGetPhysicalDeviceMemoryProperties)                                       \
  X(vkGetPhysicalDeviceQueueFamilyProperties)                                  \
  X(vkCreateDevice)                                                            \
  X(vkDestroyDevice)                                                           \
  X(vkDeviceWaitIdle)                                                          \
  X(vkGetDeviceQueue)                                                          \
  X(vkCreateBuffer)                                                            \
  X(vkDestroyBuffer)                                                           \
  X(vkGetBufferMemoryRequirements)                                             \
  X(vkAllocateMemory)                                                          \
  X(vkFreeMemory)                                                              \
  X(vkBindBufferMemory)                                                        \
  X(vkMapMemory)                                                               \
  X(vkCreateShaderModule)                                                      \
  X(vkDestroyShaderModule)                                                     \
  X(vkCreateDescriptorSetLayout)                                               \
  X(vkDestroyDescriptorSetLayout)                                              \
  X(vkCreatePipelineLayout)                                                    \
  X(vkDestroyPipelineLayout)                                                   \
  X(vkCreatePipelineCache)                                                     \
  X(vkDestroyPipelineCache)                                                    \
  X(vkGetPipelineCacheData)                                                    \
  X(vkCreateComputePipelines)                                                  \
  X(vkDestroyPipeline)                                                         \
  X(vkCreateDescriptorPool)                                                    \
  X(vkDestroyDescriptorPool)                                                   \
  X(vkAllocateDescriptorSets)                                                  \
  X(vkUpdateDescriptorSets)                                                    \
  X(vkCreateCommandPool)                                                       \
  X(vkDestroyCommandPool)                                                      \
  X(vkAllocateCommandBuffers)                                                  \
  X(vkBeginCommandBuffer)                                                      \
  X(vkEndCommandBuffer)                                                        \
  X(vkCmdBindPipeline)                                                         \
  X(vkCmdBindDescriptorSets)                                                   \
  X(vkCmdPushConstants)                                                        \
  X(vkCmdDispatch)                                                             \
  X(vkCmdCopyBuffer)                                                           \
  X(vkCmdFillBuffer)                                                           \
  X(vkCmdPipelineBarrier)                                                      \
  X(vkCmdResetQueryPool)                                                       \
  X(vkCmdWriteTimestamp)                                                       \
  X(vkCreateQueryPool)                                                         \
  X(vkDestroyQueryPool)                                                        \
  X(vkGetQueryPoolResults)                                                     \
  X(vkCreateFence)                                                             \
  X(vkDestroyFence)                                                            \
  X(vkWaitForFences)                                                           \
  X(vkQueueSubmit)
/// Null where the loader does not know them.
#define ATTN_VULKAN_OPTIONAL_ENTRY_POINTS(X)                                   \
  X(vkGetPipelineExecutablePropertiesKHR)                                      \
  X(vkGetPipelineExecutableStatisticsKHR)
// clang-format on

struct Functions {
#define X(name) PFN_##name name = nullptr;
  ATTN_VULKAN_GLOBAL_ENTRY_POINTS(X)
  ATTN_VULKAN_ENTRY_POINTS(X)
  ATTN_VULKAN_OPTIONAL_ENTRY_POINTS(X)
#undef X
};

/// A VkInstance, with the validation layers in front of the driver where the
/// environment's ATTN_VULKAN_VALIDATION is 1. What they say is an error of the
/// next check.
class Instance {
public:
  /// One that still lives, or a new one.
  static llvm::Expected<std::shared_ptr<Instance>> get();
  ~Instance();

  Functions vk;
  VkInstance handle = nullptr;

  /// Success, or "WHAT: VK_X; remedy" in one line.
  llvm::Error check(VkResult result, const llvm::Twine &what) const;

private:
  Instance() = default;
  llvm::Error open();
  llvm::Error create(PFN_vkGetInstanceProcAddr find);
  static VKAPI_ATTR VkBool32 VKAPI_CALL
  report(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
         VkDebugUtilsMessageTypeFlagsEXT types,
         const VkDebugUtilsMessengerCallbackDataEXT *data, void *user);

  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  PFN_vkDestroyDebugUtilsMessengerEXT destroyMessenger = nullptr;
  mutable std::mutex mutex;
  mutable std::vector<std::string> messages;
};

/// A structure of Vulkan with no field set but its type.
template <typename T> T zeroed(VkStructureType type) {
  T structure = {};
  structure.sType = type;
  return structure;
}

/// A list that Vulkan hands out in two calls: `ask(&count, data)`.
template <typename T, typename Ask> std::vector<T> listOf(Ask ask) {
  uint32_t count = 0;
  ask(&count, static_cast<T *>(nullptr));
  std::vector<T> list(count);
  ask(&count, list.data());
  list.resize(count);
  return list;
}

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_INSTANCE_H
