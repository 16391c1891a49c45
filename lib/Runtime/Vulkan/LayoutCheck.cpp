//===- LayoutCheck.cpp - Do matrices lie as a kernel expects? -------------===//
//
// A workgroup of one subgroup writes a word a lane: 1 where its elements lie as
// the kernel expects. A driver answers once; the file is "1" or "0".
//
//===----------------------------------------------------------------------===//

#include "LayoutCheck.h"
#include "Bindings.h"
#include "PipelineCache.h"
#include "attn/Artifact/File.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

static std::optional<bool> readAnswer(StringRef path) {
  if (path.empty() || !sys::fs::exists(path))
    return std::nullopt;
  Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
  if (!file) {
    consumeError(file.takeError());
    return std::nullopt;
  }
  StringRef text = (*file)->getBuffer();
  if (text != "0" && text != "1")
    return std::nullopt;
  return text == "1";
}

static Expected<bool> ask(const Device &device, const LaunchDescription &launch,
                          ArrayRef<uint32_t> code) {
  std::string what = "entry '" + launch.layoutCheck + "'";
  Pipeline::Entry entry;
  entry.name = launch.layoutCheck;
  entry.buffers = 1;
  entry.subgroupSize = entry.threads = launch.subgroupSize;
  Expected<Pipeline> pipeline =
      Pipeline::compile(device, code, entry, VK_NULL_HANDLE);
  if (!pipeline)
    return pipeline.takeError();
  std::vector<uint32_t> answer(std::max<int64_t>(launch.subgroupSize, 1), 0);
  size_t bytes = answer.size() * sizeof(uint32_t);
  Expected<Buffer> buffer = Buffer::createStorage(device, bytes, what);
  if (!buffer)
    return buffer.takeError();
  if (Error error = buffer->write(answer.data(), bytes, what))
    return error;
  Expected<Bindings> bindings =
      Bindings::create(device, pipeline->setLayout(), ArrayRef(*buffer));
  if (!bindings)
    return bindings.takeError();
  if (Error error = device.run(
          [&](VkCommandBuffer commands) {
            device.vk.vkCmdBindPipeline(
                commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline->get());
            bindings->bind(device, commands, pipeline->layout());
            device.vk.vkCmdDispatch(commands, 1, 1, 1);
            device.makeVisible(commands);
          },
          what))
    return error;
  if (Error error = buffer->read(answer.data(), bytes, what))
    return error;
  return all_of(answer, [](uint32_t word) { return word == 1; });
}

Expected<bool> attn::vulkan::askLayout(const Device &device,
                                       const LaunchDescription &launch,
                                       ArrayRef<uint32_t> code) {
  constexpr StringLiteral kVariable = "ATTN_VULKAN_LAYOUT";
  if (sys::Process::GetEnv(kVariable) == "unknown")
    return false;
  std::string path = cachePath(device, code);
  if (!path.empty())
    path += ".layout";
  if (std::optional<bool> known = readAnswer(path))
    return *known;
  Expected<bool> answer = ask(device, launch, code);
  if (answer && !path.empty())
    consumeError(writeFile(path, {*answer ? "1" : "0"}));
  return answer;
}
