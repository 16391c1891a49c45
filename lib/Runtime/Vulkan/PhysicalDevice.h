//===- PhysicalDevice.h - What a Vulkan device can do -----------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_PHYSICALDEVICE_H
#define ATTN_LIB_RUNTIME_VULKAN_PHYSICALDEVICE_H

#include "Instance.h"
#include "llvm/ADT/StringSet.h"

namespace attn::vulkan {

/// The features that kernels may ask for. What a device does not know stays 0.
struct Features {
  VkPhysicalDeviceFeatures core;
  VkPhysicalDevice16BitStorageFeatures storage16;
  VkPhysicalDevice8BitStorageFeatures storage8;
  VkPhysicalDeviceShaderFloat16Int8Features float16Int8;
  VkPhysicalDeviceVulkanMemoryModelFeatures memoryModel;
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroupSize;
  VkPhysicalDeviceShaderIntegerDotProductFeatures integerDot;
  VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR workgroupLayout;
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomicFloat;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperativeMatrix;
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables;
};

/// A device of the list, as it describes itself.
class PhysicalDevice {
public:
  /// All devices, in the driver's order.
  static llvm::Expected<std::vector<PhysicalDevice>>
  list(const Instance &instance);

  llvm::StringRef name() const { return properties.deviceName; }
  bool hasVersion(uint32_t version) const {
    return properties.apiVersion >= version;
  }
  bool hasExtension(llvm::StringRef extension) const {
    return extensions.contains(extension);
  }
  /// Whether `extension` may be used, by name or because it became part of
  /// Vulkan `version` (0: of none).
  bool has(llvm::StringRef extension, uint32_t version) const {
    return hasExtension(extension) || (version && hasVersion(version));
  }
  /// Its memory is the host's.
  bool isUnified() const {
    return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
           isProcessor();
  }
  bool isProcessor() const {
    return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  }

  /// Links the structures of `features` that this device knows into the chain
  /// that Vulkan fills and takes. Their contents stay.
  VkPhysicalDeviceFeatures2 chain(Features &features) const;
  /// The extensions that the chain and kernels need, of those it has.
  std::vector<const char *> neededExtensions() const;

  VkPhysicalDevice handle = nullptr;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceSubgroupProperties subgroup;
  VkPhysicalDeviceSubgroupSizeControlProperties subgroupSizes;
  VkPhysicalDeviceFloatControlsProperties floatControls;
  VkPhysicalDeviceMemoryProperties memory;
  Features features;

private:
  void readProperties(const Functions &vk);

  llvm::StringSet<> extensions;
};

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_PHYSICALDEVICE_H
