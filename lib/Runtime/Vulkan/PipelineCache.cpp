//===- PipelineCache.cpp - Compiled kernels on disk -----------------------===//
//
// The file is a hash of what follows and the driver's bytes. Drivers check
// that the bytes are their own, but not that they are whole.
//
//===----------------------------------------------------------------------===//

#include "PipelineCache.h"
#include "attn/Artifact/File.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

static constexpr size_t kHashBytes = 8;

static StringRef bytesOf(ArrayRef<uint32_t> words) {
  return StringRef(reinterpret_cast<const char *>(words.data()),
                   4 * words.size());
}

std::string attn::vulkan::cachePath(const Device &device,
                                    ArrayRef<uint32_t> code) {
  SmallString<128> path;
  if (!sys::path::cache_directory(path))
    return "";
  sys::path::append(path, "attn");
  if (sys::fs::create_directories(path))
    return "";
  StringRef driver(reinterpret_cast<const char *>(
                       device.physical.properties.pipelineCacheUUID),
                   VK_UUID_SIZE);
  sys::path::append(path, "vulkan-" + toHex(driver, /*LowerCase=*/true) + "-" +
                              utohexstr(xxh3_64bits(bytesOf(code)),
                                        /*LowerCase=*/true));
  return path.str().str();
}

/// The driver's bytes, or nothing.
static std::string readCache(StringRef path) {
  if (path.empty() || !sys::fs::exists(path))
    return "";
  Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
  if (!file) {
    consumeError(file.takeError());
    return "";
  }
  StringRef bytes = (*file)->getBuffer();
  if (bytes.size() <= kHashBytes ||
      support::endian::read64le(bytes.data()) !=
          xxh3_64bits(bytes.drop_front(kHashBytes)))
    return "";
  return bytes.drop_front(kHashBytes).str();
}

Expected<PipelineCache> PipelineCache::open(const Device &device,
                                            ArrayRef<uint32_t> code) {
  PipelineCache result;
  result.path = cachePath(device, code);
  std::string data = readCache(result.path);
  result.bytesRead = data.size();
  auto info = zeroed<VkPipelineCacheCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  if (Error error =
          createOwned<&Functions::vkCreatePipelineCache,
                      &Functions::vkDestroyPipelineCache, VkPipelineCache>(
              device, info, "pipeline cache")
              .moveInto(result.cache))
    return error;
  return result;
}

void PipelineCache::save(const Device &device) const {
  size_t size = 0;
  if (path.empty() ||
      device.vk.vkGetPipelineCacheData(device.handle, get(), &size, nullptr) ||
      size == bytesRead)
    return;
  std::string data(size, '\0');
  if (device.vk.vkGetPipelineCacheData(device.handle, get(), &size,
                                       data.data()))
    return;
  data.resize(size);
  char hash[kHashBytes];
  support::endian::write64le(hash, xxh3_64bits(data));
  consumeError(writeFile(path, {StringRef(hash, kHashBytes), data}));
}
