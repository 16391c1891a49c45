//===- PhysicalDevice.cpp - What a Vulkan device can do -------------------===//

#include "PhysicalDevice.h"

using namespace llvm;
using namespace attn::vulkan;

namespace {
/// An extension and the version of Vulkan that it became a part of, or 0.
struct KnownExtension {
  const char *name;
  uint32_t version;
};
} // namespace

static constexpr KnownExtension
    kStorage16 = {VK_KHR_16BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_1},
    kStorage8 = {VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2},
    kFloat16Int8 = {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
                    VK_API_VERSION_1_2},
    kMemoryModel = {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
                    VK_API_VERSION_1_2},
    kFloatControls = {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME,
                      VK_API_VERSION_1_2},
    kSubgroupSize = {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
                     VK_API_VERSION_1_3},
    kIntegerDot = {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
                   VK_API_VERSION_1_3},
    kWorkgroupLayout = {VK_KHR_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_EXTENSION_NAME,
                        0},
    kAtomicFloat = {VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME, 0},
    kCooperativeMatrix = {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, 0},
    kBfloat16 = {VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, 0},
    kExecutables = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, 0};

/// Without features of their own: code generators rely on these.
static constexpr const char *kOthers[] = {
    VK_KHR_SPIRV_1_4_EXTENSION_NAME,
    VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME,
    VK_KHR_STORAGE_BUFFER_STORAGE_CLASS_EXTENSION_NAME,
    // Whoever lists it wants it to be enabled.
    "VK_KHR_portability_subset"};

static constexpr KnownExtension kWithFeatures[] = {
    kStorage16,    kStorage8,          kFloat16Int8,     kMemoryModel,
    kSubgroupSize, kIntegerDot,        kWorkgroupLayout, kAtomicFloat,
    kBfloat16,     kCooperativeMatrix, kExecutables};

VkPhysicalDeviceFeatures2 PhysicalDevice::chain(Features &features) const {
  auto head = zeroed<VkPhysicalDeviceFeatures2>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  head.features = features.core;
  auto link = [&](auto &structure, VkStructureType type,
                  const KnownExtension &extension) {
    if (!has(extension.name, extension.version))
      return;
    structure.sType = type;
    structure.pNext = head.pNext;
    head.pNext = &structure;
  };
  link(features.storage16,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, kStorage16);
  link(features.storage8,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, kStorage8);
  link(features.float16Int8,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
       kFloat16Int8);
  link(features.memoryModel,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
       kMemoryModel);
  link(features.subgroupSize,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
       kSubgroupSize);
  link(features.integerDot,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
       kIntegerDot);
  link(
      features.workgroupLayout,
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR,
      kWorkgroupLayout);
  link(features.atomicFloat,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
       kAtomicFloat);
  link(features.cooperativeMatrix,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
       kCooperativeMatrix);
  link(features.bfloat16,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
       kBfloat16);
  link(
      features.executables,
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      kExecutables);
  return head;
}

std::vector<const char *> PhysicalDevice::neededExtensions() const {
  std::vector<const char *> needed;
  for (const KnownExtension &extension : kWithFeatures)
    if (hasExtension(extension.name))
      needed.push_back(extension.name);
  for (const char *name : kOthers)
    if (hasExtension(name))
      needed.push_back(name);
  return needed;
}

void PhysicalDevice::readProperties(const Functions &vk) {
  auto head = zeroed<VkPhysicalDeviceProperties2>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  auto link = [&](auto &structure, VkStructureType type, bool isKnown) {
    structure = {};
    if (!isKnown)
      return;
    structure.sType = type;
    structure.pNext = head.pNext;
    head.pNext = &structure;
  };
  link(subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
       /*isKnown=*/true);
  link(subgroupSizes,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
       has(kSubgroupSize.name, kSubgroupSize.version));
  link(floatControls,
       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES,
       has(kFloatControls.name, kFloatControls.version));
  vk.vkGetPhysicalDeviceProperties2(handle, &head);
  vk.vkGetPhysicalDeviceMemoryProperties(handle, &memory);

  features = {};
  VkPhysicalDeviceFeatures2 supported = chain(features);
  vk.vkGetPhysicalDeviceFeatures2(handle, &supported);
  // Of these alone: others, such as checked addresses, have a price.
  features.core = {};
  features.core.shaderInt16 = supported.features.shaderInt16;
  features.core.shaderInt64 = supported.features.shaderInt64;
  features.core.shaderFloat64 = supported.features.shaderFloat64;
  features.cooperativeMatrix.cooperativeMatrixRobustBufferAccess = VK_FALSE;
}

Expected<std::vector<PhysicalDevice>>
PhysicalDevice::list(const Instance &instance) {
  const Functions &vk = instance.vk;
  uint32_t count = 0;
  std::vector<VkPhysicalDevice> handles;
  if (Error error = instance.check(
          vk.vkEnumeratePhysicalDevices(instance.handle, &count, nullptr),
          "list of Vulkan devices"))
    return error;
  handles.resize(count);
  if (Error error = instance.check(vk.vkEnumeratePhysicalDevices(
                                       instance.handle, &count, handles.data()),
                                   "list of Vulkan devices"))
    return error;
  std::vector<PhysicalDevice> devices;
  for (VkPhysicalDevice handle : ArrayRef(handles).take_front(count)) {
    PhysicalDevice &device = devices.emplace_back();
    device.handle = handle;
    vk.vkGetPhysicalDeviceProperties(handle, &device.properties);
    for (const VkExtensionProperties &extension :
         listOf<VkExtensionProperties>([&](auto *count, auto *list) {
           vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, count,
                                                   list);
         }))
      device.extensions.insert(extension.extensionName);
    if (device.hasVersion(VK_API_VERSION_1_1))
      device.readProperties(vk);
  }
  return devices;
}
