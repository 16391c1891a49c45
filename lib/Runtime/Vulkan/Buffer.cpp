//===- Buffer.cpp - Memory of a Vulkan device -----------------------------===//
//
// Where the device's memory is the host's, buffers are written in place. Else
// they are copied through a buffer of the host's, a piece at a time.
//
//===----------------------------------------------------------------------===//

#include "Buffer.h"
#include <cstring>

using namespace llvm;
using namespace attn::vulkan;

static constexpr size_t kPieceBytes = size_t(64) << 20;

/// Memory types in the order of preference; a bit set is required.
static std::optional<uint32_t> chooseMemory(const Device &device,
                                            uint32_t allowed, bool isMapped,
                                            bool isStorage) {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                          VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kCached =
      kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  auto preferred = [&]() -> ArrayRef<VkMemoryPropertyFlags> {
    static constexpr VkMemoryPropertyFlags kShared[] = {
        kLocal | kCached, kLocal | kHost, kCached, kHost};
    static constexpr VkMemoryPropertyFlags kStaging[] = {kCached, kHost};
    static constexpr VkMemoryPropertyFlags kDevice[] = {kLocal, 0};
    if (!isMapped)
      return kDevice;
    return isStorage ? ArrayRef(kShared) : ArrayRef(kStaging);
  }();
  for (VkMemoryPropertyFlags flags : preferred)
    if (std::optional<uint32_t> type = device.findMemory(allowed, flags))
      return type;
  return std::nullopt;
}

Expected<Buffer> Buffer::create(const Device &device, size_t bytes,
                                VkBufferUsageFlags usage, bool isMapped,
                                const Twine &what) {
  Buffer result;
  std::string whole = (Twine(bytes) + " bytes for " + what).str();
  result.device = &device;
  result.size = bytes;
  auto info = zeroed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = bytes;
  info.usage = usage;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  if (Error error =
          createOwned<&Functions::vkCreateBuffer, &Functions::vkDestroyBuffer,
                      VkBuffer>(device, info, whole)
              .moveInto(result.buffer))
    return error;
  VkMemoryRequirements needs;
  device.vk.vkGetBufferMemoryRequirements(device.handle, result.get(), &needs);
  std::optional<uint32_t> type =
      chooseMemory(device, needs.memoryTypeBits, isMapped,
                   usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
  if (!type)
    return createStringError(device.physical.name() +
                             " has no memory of the kind that " + whole +
                             " need");
  auto allocation =
      zeroed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = *type;
  if (Error error =
          createOwned<&Functions::vkAllocateMemory, &Functions::vkFreeMemory,
                      VkDeviceMemory>(device, allocation, whole)
              .moveInto(result.memory))
    return error;
  if (Error error =
          device.check(device.vk.vkBindBufferMemory(device.handle, result.get(),
                                                    result.memory.get(), 0),
                       whole))
    return error;
  if (!isMapped)
    return result;
  void *pointer = nullptr;
  if (Error error =
          device.check(device.vk.vkMapMemory(device.handle, result.memory.get(),
                                             0, VK_WHOLE_SIZE, 0, &pointer),
                       whole))
    return error;
  result.mapped = static_cast<char *>(pointer);
  return result;
}

Expected<Buffer> Buffer::createStorage(const Device &device, size_t bytes,
                                       const Twine &what) {
  return create(device, bytes,
                VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                    VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                    VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                /*isMapped=*/!device.isStaged(), what);
}

Error Buffer::write(const void *data, size_t bytes, const Twine &what) {
  if (!bytes)
    return Error::success();
  auto *bytesOfHost = static_cast<const char *>(data);
  if (mapped) {
    std::memcpy(mapped, bytesOfHost, bytes);
    return Error::success();
  }
  Expected<Buffer> staging =
      create(*device, std::min(bytes, kPieceBytes),
             VK_BUFFER_USAGE_TRANSFER_SRC_BIT, /*isMapped=*/true, what);
  if (!staging)
    return staging.takeError();
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    VkBufferCopy piece{0, done, std::min(bytes - done, kPieceBytes)};
    std::memcpy(staging->mapped, bytesOfHost + done, piece.size);
    if (Error error = device->run(
            [&](VkCommandBuffer commands) {
              device->vk.vkCmdCopyBuffer(commands, staging->get(), get(), 1,
                                         &piece);
            },
            "copy of " + what + " to the device"))
      return error;
  }
  return Error::success();
}

Error Buffer::read(void *data, size_t bytes, const Twine &what) const {
  if (!bytes)
    return Error::success();
  auto *bytesOfHost = static_cast<char *>(data);
  if (mapped) {
    std::memcpy(bytesOfHost, mapped, bytes);
    return Error::success();
  }
  Expected<Buffer> staging =
      create(*device, std::min(bytes, kPieceBytes),
             VK_BUFFER_USAGE_TRANSFER_DST_BIT, /*isMapped=*/true, what);
  if (!staging)
    return staging.takeError();
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    VkBufferCopy piece{done, 0, std::min(bytes - done, kPieceBytes)};
    // What the host reads has to be made visible to it.
    VkMemoryBarrier written{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                            VK_ACCESS_TRANSFER_WRITE_BIT,
                            VK_ACCESS_HOST_READ_BIT};
    if (Error error = device->run(
            [&](VkCommandBuffer commands) {
              device->vk.vkCmdCopyBuffer(commands, get(), staging->get(), 1,
                                         &piece);
              device->vk.vkCmdPipelineBarrier(commands,
                                              VK_PIPELINE_STAGE_TRANSFER_BIT,
                                              VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                              &written, 0, nullptr, 0, nullptr);
            },
            "copy of " + what + " from the device"))
      return error;
    std::memcpy(bytesOfHost + done, staging->mapped, piece.size);
  }
  return Error::success();
}
