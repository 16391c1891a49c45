//===- Device.h - A Vulkan device in use ------------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_DEVICE_H
#define ATTN_LIB_RUNTIME_VULKAN_DEVICE_H

#include "PhysicalDevice.h"
#include "attn/Artifact/LaunchDescription.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <atomic>

namespace attn::vulkan {

/// A logical device with all features that kernels may ask for, and its queue.
class Device {
public:
  /// The device that ATTN_VULKAN_DEVICE names, or the best that runs `launch`;
  /// one that is open already is shared.
  static llvm::Expected<std::shared_ptr<Device>>
  get(const LaunchDescription &launch);
  ~Device();

  llvm::Error check(VkResult result, const llvm::Twine &what) const {
    isLost = isLost || result == VK_ERROR_DEVICE_LOST;
    return instance->check(result, what);
  }

  /// Records commands by `record`, submits them and waits until they are done.
  /// `what` names them in errors.
  llvm::Error run(llvm::function_ref<void(VkCommandBuffer)> record,
                  const llvm::Twine &what) const;

  /// Records that what kernels wrote is to be seen by copies and the host.
  void makeVisible(VkCommandBuffer commands) const;

  /// The first memory type of `allowed` (a bit each) with all of `flags`.
  std::optional<uint32_t> findMemory(uint32_t allowed,
                                     VkMemoryPropertyFlags flags) const;

  /// Whether it is worth while to destroy things: not when a kernel did not
  /// end, since then the device may still use them.
  bool isAbandoned() const { return abandoned; }
  /// Whether buffers are written through a copy: the memory is not the host's,
  /// or ATTN_VULKAN_STAGED is 1.
  bool isStaged() const { return staged; }

  std::shared_ptr<Instance> instance;
  const PhysicalDevice physical;
  const Functions &vk;
  VkDevice handle = nullptr;
  /// Bits of a timestamp that count; 0 when there are none.
  uint32_t timestampBits = 0;

private:
  Device(std::shared_ptr<Instance> instance, PhysicalDevice physical);
  llvm::Error open();
  llvm::Error wait(VkFence fence, double seconds,
                   const llvm::Twine &what) const;

  uint32_t family = 0;
  VkQueue queue = nullptr;
  bool staged = false;
  mutable std::mutex queueMutex;
  mutable std::atomic<bool> isLost{false}, abandoned{false};
};

/// A handle with the entry point that frees it. The device has to live as long.
template <typename T, auto kDestroy> class Owned {
public:
  Owned() = default;
  Owned(const Device &device, T handle) : device(&device), handle(handle) {}
  Owned(Owned &&other) { *this = std::move(other); }
  Owned &operator=(Owned &&other) {
    std::swap(device, other.device);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (handle && !device->isAbandoned())
      (device->vk.*kDestroy)(device->handle, handle, nullptr);
  }
  T get() const { return handle; }
  explicit operator bool() const { return handle; }

private:
  const Device *device = nullptr;
  T handle = VK_NULL_HANDLE;
};

/// Calls `create(device, &info, nullptr, &handle)`; `what` names it in errors.
template <auto kCreate, auto kDestroy, typename T, typename Info>
llvm::Expected<Owned<T, kDestroy>>
createOwned(const Device &device, const Info &info, const llvm::Twine &what) {
  T handle = VK_NULL_HANDLE;
  VkResult result =
      (device.vk.*kCreate)(device.handle, &info, nullptr, &handle);
  Owned<T, kDestroy> owned(device, handle);
  if (llvm::Error error = device.check(result, what))
    return error;
  return owned;
}

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_DEVICE_H
