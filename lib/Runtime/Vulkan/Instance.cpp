//===- Instance.cpp - The Vulkan loader -----------------------------------===//

#include "Instance.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace attn::vulkan;

static constexpr StringLiteral kPathVariable = "ATTN_LIBVULKAN";
static constexpr StringLiteral kValidationVariable = "ATTN_VULKAN_VALIDATION";
static constexpr const char *kValidationLayer = "VK_LAYER_KHRONOS_validation";

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static std::string nameOf(VkResult result) {
  switch (result) {
#define X(name)                                                                \
  case name:                                                                   \
    return #name;
    X(VK_NOT_READY)
    X(VK_TIMEOUT)
    X(VK_INCOMPLETE)
    X(VK_ERROR_OUT_OF_HOST_MEMORY)
    X(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    X(VK_ERROR_INITIALIZATION_FAILED)
    X(VK_ERROR_DEVICE_LOST)
    X(VK_ERROR_MEMORY_MAP_FAILED)
    X(VK_ERROR_LAYER_NOT_PRESENT)
    X(VK_ERROR_EXTENSION_NOT_PRESENT)
    X(VK_ERROR_FEATURE_NOT_PRESENT)
    X(VK_ERROR_INCOMPATIBLE_DRIVER)
    X(VK_ERROR_TOO_MANY_OBJECTS)
    X(VK_ERROR_OUT_OF_POOL_MEMORY)
    X(VK_ERROR_INVALID_SHADER_NV)
#undef X
  default:
    return "VkResult " + itostr(result);
  }
}

static StringRef remedyFor(VkResult result) {
  switch (result) {
  case VK_ERROR_OUT_OF_HOST_MEMORY:
  case VK_ERROR_OUT_OF_DEVICE_MEMORY:
  case VK_ERROR_MEMORY_MAP_FAILED:
    return "free memory on the device, or give smaller sizes";
  case VK_ERROR_DEVICE_LOST:
    return "the kernel ran longer than the system allows, or reached outside "
           "of its memory; ATTN_VULKAN_VALIDATION=1 may say where";
  case VK_ERROR_INCOMPATIBLE_DRIVER:
    return "install a Vulkan driver (Debian: mesa-vulkan-drivers), or see "
           "VK_DRIVER_FILES";
  case VK_ERROR_INITIALIZATION_FAILED:
  case VK_ERROR_UNKNOWN:
    return "VK_LOADER_DEBUG=all shows what the loader tried";
  default:
    return "";
  }
}

Error Instance::check(VkResult result, const Twine &what) const {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!messages.empty()) {
      std::string first = std::move(messages.front());
      messages.clear();
      return createStringError(what + ": validation: " + first);
    }
  }
  if (result == VK_SUCCESS)
    return Error::success();
  StringRef remedy = remedyFor(result);
  return createStringError(what + ": " + nameOf(result) +
                           (remedy.empty() ? "" : "; ") + remedy);
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

VkBool32 Instance::report(VkDebugUtilsMessageSeverityFlagBitsEXT,
                          VkDebugUtilsMessageTypeFlagsEXT,
                          const VkDebugUtilsMessengerCallbackDataEXT *data,
                          void *user) {
  auto *instance = static_cast<Instance *>(user);
  std::lock_guard<std::mutex> lock(instance->mutex);
  // The text has line breaks; errors are one line.
  std::string text = data->pMessage;
  llvm::replace(text, '\n', ' ');
  instance->messages.push_back(std::move(text));
  return VK_FALSE;
}

Error Instance::open() {
  std::string path =
      sys::Process::GetEnv(kPathVariable).value_or("libvulkan.so.1");
  std::string problem;
  sys::DynamicLibrary library =
      sys::DynamicLibrary::getLibrary(path.c_str(), &problem);
  if (!library.isValid())
    return createStringError("cannot open the Vulkan loader: " + problem +
                             "; install it (Debian: libvulkan1), or set " +
                             kPathVariable + " to its libvulkan.so.1");
  auto find = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      library.getAddressOfSymbol("vkGetInstanceProcAddr"));
  if (!find)
    return createStringError("'" + path +
                             "' has no vkGetInstanceProcAddr; set " +
                             kPathVariable + " to a Vulkan loader");
#define X(name) vk.name = reinterpret_cast<PFN_##name>(find(nullptr, #name));
  ATTN_VULKAN_GLOBAL_ENTRY_POINTS(X)
#undef X
  if (!vk.vkCreateInstance || !vk.vkEnumerateInstanceVersion)
    return createStringError("'" + path +
                             "' is a loader of Vulkan 1.0; 1.1 or later is "
                             "needed");
  if (Error error = create(find))
    return error;
#define X(name)                                                                \
  vk.name = reinterpret_cast<PFN_##name>(find(handle, #name));                 \
  if (!vk.name)                                                                \
    return createStringError("'" + path +                                      \
                             "' has no " #name                                 \
                             "; a loader of Vulkan 1.1 or later is needed");
  ATTN_VULKAN_ENTRY_POINTS(X)
#undef X
#define X(name) vk.name = reinterpret_cast<PFN_##name>(find(handle, #name));
  ATTN_VULKAN_OPTIONAL_ENTRY_POINTS(X)
#undef X
  return Error::success();
}

Error Instance::create(PFN_vkGetInstanceProcAddr find) {
  bool validates = sys::Process::GetEnv(kValidationVariable) == "1";
  std::vector<const char *> layers, extensions;
  auto known = listOf<VkExtensionProperties>([&](auto *count, auto *list) {
    vk.vkEnumerateInstanceExtensionProperties(nullptr, count, list);
  });
  auto isKnown = [&](StringRef name) {
    return any_of(known, [&](const VkExtensionProperties &p) {
      return name == p.extensionName;
    });
  };
  auto info =
      zeroed<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  // Devices such as MoltenVK's are listed to those who ask.
  if (isKnown(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  auto messages = zeroed<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messages.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                             VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = report;
  messages.pUserData = this;
  if (validates) {
    auto present = listOf<VkLayerProperties>([&](auto *count, auto *list) {
      vk.vkEnumerateInstanceLayerProperties(count, list);
    });
    if (none_of(present, [](const VkLayerProperties &p) {
          return StringRef(p.layerName) == kValidationLayer;
        }))
      return createStringError(kValidationVariable + "=1 needs " +
                               kValidationLayer +
                               "; install it (Debian: "
                               "vulkan-validationlayers), or unset it");
    layers.push_back(kValidationLayer);
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    info.pNext = &messages;
  }
  uint32_t offered = VK_API_VERSION_1_0;
  if (Error error =
          check(vk.vkEnumerateInstanceVersion(&offered), "version of Vulkan"))
    return error;
  auto application =
      zeroed<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "attn";
  application.apiVersion = std::min(offered, VK_API_VERSION_1_3);
  info.pApplicationInfo = &application;
  info.enabledLayerCount = layers.size();
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = extensions.size();
  info.ppEnabledExtensionNames = extensions.data();
  if (Error error =
          check(vk.vkCreateInstance(&info, nullptr, &handle), "Vulkan"))
    return error;
  if (!validates)
    return Error::success();
  auto createMessenger = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
      find(handle, "vkCreateDebugUtilsMessengerEXT"));
  destroyMessenger = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
      find(handle, "vkDestroyDebugUtilsMessengerEXT"));
  return check(createMessenger(handle, &messages, nullptr, &messenger),
               "messages of the validation layers");
}

Expected<std::shared_ptr<Instance>> Instance::get() {
  static std::mutex mutex;
  static std::weak_ptr<Instance> living;
  std::lock_guard<std::mutex> lock(mutex);
  if (std::shared_ptr<Instance> instance = living.lock())
    return instance;
  std::shared_ptr<Instance> instance(new Instance());
  if (Error error = instance->open())
    return error;
  living = instance;
  return instance;
}

Instance::~Instance() {
  if (messenger)
    destroyMessenger(handle, messenger, nullptr);
  if (handle && vk.vkDestroyInstance)
    vk.vkDestroyInstance(handle, nullptr);
  // Nobody is left to return them to.
  for (const std::string &message : messages)
    errs() << "Vulkan validation: " << message << "\n";
}
