//===- Device.cpp - A Vulkan device in use --------------------------------===//

#include "Device.h"
#include "Requirements.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

static constexpr StringLiteral kDeviceVariable = "ATTN_VULKAN_DEVICE";
static constexpr StringLiteral kStagedVariable = "ATTN_VULKAN_STAGED";
static constexpr StringLiteral kTimeoutVariable = "ATTN_VULKAN_TIMEOUT";

//===----------------------------------------------------------------------===//
// The choice of a device
//===----------------------------------------------------------------------===//

/// Lower is better.
static int rankOf(const PhysicalDevice &device) {
  switch (device.properties.deviceType) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return 0;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return 1;
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
    return 2;
  default:
    return 3;
  }
}

static std::string describe(ArrayRef<PhysicalDevice> devices) {
  std::vector<std::string> names;
  for (auto [number, device] : enumerate(devices))
    names.push_back(utostr(number) + " (" + device.name().str() + ")");
  return join(names, ", ");
}

/// `devices` is not empty.
static Expected<PhysicalDevice> choose(ArrayRef<PhysicalDevice> devices,
                                       const LaunchDescription &launch) {
  std::optional<std::string> wish = sys::Process::GetEnv(kDeviceVariable);
  unsigned number;
  if (wish && !wish->empty()) {
    bool isNumber = !StringRef(*wish).getAsInteger(10, number);
    auto isWanted = [&](size_t index) {
      return isNumber ? index == number
                      : devices[index].name().contains_insensitive(*wish);
    };
    for (auto [index, device] : enumerate(devices)) {
      if (!isWanted(index))
        continue;
      if (Error error = checkRuns(device, launch))
        return error;
      return device;
    }
    return createStringError("no Vulkan device is '" + *wish + "', which " +
                             kDeviceVariable + " asks for; expected one of " +
                             describe(devices));
  }
  std::vector<const PhysicalDevice *> ranked;
  for (const PhysicalDevice &device : devices)
    ranked.push_back(&device);
  // Of equals, the one that the driver lists first.
  sort(ranked, [](const PhysicalDevice *a, const PhysicalDevice *b) {
    return std::pair(rankOf(*a), a) < std::pair(rankOf(*b), b);
  });
  std::string problem;
  for (const PhysicalDevice *device : ranked) {
    Error error = checkRuns(*device, launch);
    if (!error)
      return *device;
    // What the best one lacks is what the user has to know.
    std::string text = toString(std::move(error));
    if (problem.empty())
      problem = std::move(text);
  }
  return createStringError(Twine(problem));
}

Expected<std::shared_ptr<Device>> Device::get(const LaunchDescription &launch) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<Device>> living;
  std::lock_guard<std::mutex> lock(mutex);
  Expected<std::shared_ptr<Instance>> instance = Instance::get();
  if (!instance)
    return instance.takeError();
  Expected<std::vector<PhysicalDevice>> devices =
      PhysicalDevice::list(**instance);
  if (!devices)
    return devices.takeError();
  if (devices->empty())
    return createStringError(
        "no Vulkan device; install a driver (Debian: mesa-vulkan-drivers), or "
        "see VK_DRIVER_FILES");
  Expected<PhysicalDevice> chosen = choose(*devices, launch);
  if (!chosen)
    return chosen.takeError();
  bool staged = sys::Process::GetEnv(kStagedVariable) == "1";
  erase_if(living, [](const std::weak_ptr<Device> &d) { return d.expired(); });
  for (const std::weak_ptr<Device> &slot : living)
    if (std::shared_ptr<Device> device = slot.lock();
        device && device->physical.handle == chosen->handle &&
        device->staged == (staged || !chosen->isUnified()) && !device->isLost &&
        !device->abandoned)
      return device;
  std::shared_ptr<Device> device(
      new Device(std::move(*instance), std::move(*chosen)));
  device->staged = staged || !device->physical.isUnified();
  if (Error error = device->open())
    return error;
  living.push_back(device);
  return device;
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

Device::Device(std::shared_ptr<Instance> instance, PhysicalDevice physical)
    : instance(std::move(instance)), physical(std::move(physical)),
      vk(this->instance->vk) {}

Error Device::open() {
  auto families = listOf<VkQueueFamilyProperties>([&](auto *count, auto *list) {
    vk.vkGetPhysicalDeviceQueueFamilyProperties(physical.handle, count, list);
  });
  while (family < families.size() &&
         !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    ++family;
  if (family == families.size())
    return createStringError(physical.name() +
                             " has no queue that computes; choose another "
                             "device by " +
                             kDeviceVariable);
  timestampBits = families[family].timestampValidBits;

  float priority = 1;
  auto queues = zeroed<VkDeviceQueueCreateInfo>(
      VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queues.queueFamilyIndex = family;
  queues.queueCount = 1;
  queues.pQueuePriorities = &priority;
  Features features = physical.features;
  VkPhysicalDeviceFeatures2 chain = physical.chain(features);
  std::vector<const char *> extensions = physical.neededExtensions();
  auto info = zeroed<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &chain;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queues;
  info.enabledExtensionCount = extensions.size();
  info.ppEnabledExtensionNames = extensions.data();
  if (Error error =
          check(vk.vkCreateDevice(physical.handle, &info, nullptr, &handle),
                physical.name()))
    return error;
  vk.vkGetDeviceQueue(handle, family, 0, &queue);
  return Error::success();
}

Device::~Device() {
  if (abandoned) {
    // The device still works on what belongs to the instance.
    new std::shared_ptr<Instance>(instance);
    return;
  }
  if (handle)
    vk.vkDestroyDevice(handle, nullptr);
}

std::optional<uint32_t> Device::findMemory(uint32_t allowed,
                                           VkMemoryPropertyFlags flags) const {
  const VkPhysicalDeviceMemoryProperties &memory = physical.memory;
  for (uint32_t type = 0; type < memory.memoryTypeCount; ++type)
    if ((allowed >> type & 1) &&
        (memory.memoryTypes[type].propertyFlags & flags) == flags)
      return type;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// How long commands may run.
static Expected<double> readTimeout() {
  std::string text = sys::Process::GetEnv(kTimeoutVariable).value_or("600");
  double seconds = 0;
  if (to_float(text, seconds) && seconds > 0 && seconds < 1e9)
    return seconds;
  return createStringError("expected " + kTimeoutVariable +
                           " to be a number of seconds, got '" + text + "'");
}

Error Device::wait(VkFence fence, double seconds, const Twine &what) const {
  VkResult result =
      vk.vkWaitForFences(handle, 1, &fence, VK_TRUE, uint64_t(seconds * 1e9));
  if (result != VK_TIMEOUT)
    return check(result, what);
  abandoned = true;
  return createStringError(what + " did not end within " +
                           formatv("{0:f2}", seconds).str() +
                           " s; give smaller sizes, or more time by " +
                           kTimeoutVariable + "=SECONDS");
}

Error Device::run(function_ref<void(VkCommandBuffer)> record,
                  const Twine &what) const {
  Expected<double> timeout = readTimeout();
  if (!timeout)
    return timeout.takeError();
  auto poolInfo = zeroed<VkCommandPoolCreateInfo>(
      VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  poolInfo.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  poolInfo.queueFamilyIndex = family;
  auto pool = createOwned<&Functions::vkCreateCommandPool,
                          &Functions::vkDestroyCommandPool, VkCommandPool>(
      *this, poolInfo, what);
  if (!pool)
    return pool.takeError();
  auto bufferInfo = zeroed<VkCommandBufferAllocateInfo>(
      VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  bufferInfo.commandPool = pool->get();
  bufferInfo.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  bufferInfo.commandBufferCount = 1;
  VkCommandBuffer commands = nullptr;
  if (Error error = check(
          vk.vkAllocateCommandBuffers(handle, &bufferInfo, &commands), what))
    return error;
  auto begin = zeroed<VkCommandBufferBeginInfo>(
      VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  if (Error error = check(vk.vkBeginCommandBuffer(commands, &begin), what))
    return error;
  record(commands);
  if (Error error = check(vk.vkEndCommandBuffer(commands), what))
    return error;

  auto fenceInfo =
      zeroed<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
  auto fence =
      createOwned<&Functions::vkCreateFence, &Functions::vkDestroyFence,
                  VkFence>(*this, fenceInfo, what);
  if (!fence)
    return fence.takeError();
  auto submit = zeroed<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  {
    std::lock_guard<std::mutex> lock(queueMutex);
    if (Error error =
            check(vk.vkQueueSubmit(queue, 1, &submit, fence->get()), what))
      return error;
  }
  return wait(fence->get(), *timeout, what);
}

void Device::makeVisible(VkCommandBuffer commands) const {
  VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                         VK_ACCESS_SHADER_WRITE_BIT,
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT};
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          VK_PIPELINE_STAGE_TRANSFER_BIT |
                              VK_PIPELINE_STAGE_HOST_BIT,
                          0, 1, &memory, 0, nullptr, 0, nullptr);
}
