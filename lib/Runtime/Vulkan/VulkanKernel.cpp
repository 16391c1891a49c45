//===- VulkanKernel.cpp - Kernels on a Vulkan device ----------------------===//
//
// The ABI is "vulkan-buffers": a storage buffer for each argument and for the
// workspace, and the sizes, strides and offsets that the kernel asks for as
// push constants or in a buffer behind them.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Vulkan/VulkanKernel.h"
#include "../StridedBuffer.h"
#include "Bindings.h"
#include "Pipeline.h"
#include "Requirements.h"
#include "attn/Runtime/Arguments.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <chrono>

using namespace llvm;
using namespace attn;
using namespace attn::vulkan;

using QueryPool = Owned<VkQueryPool, &Functions::vkDestroyQueryPool>;

namespace {
/// The arguments of a launch in the memory of the device.
struct Launch {
  std::vector<StridedBuffer> tensors;
  std::vector<int32_t> scalars;
  /// One an argument, the workspace's if there is one, and the scalars' when
  /// they are in one.
  std::vector<Buffer> buffers;
  Bindings bindings;
  /// Workgroups of each kernel.
  std::vector<std::array<uint32_t, 3>> grids;
};

class VulkanKernel : public Kernel {
public:
  VulkanKernel(LaunchDescription description, std::shared_ptr<Device> device,
               std::vector<Pipeline> pipelines)
      : Kernel(std::move(description)), device(std::move(device)),
        pipelines(std::move(pipelines)) {}

  Error launch(MutableArrayRef<HostTensor> arguments) override;
  Expected<Timing> time(MutableArrayRef<HostTensor> arguments,
                        int64_t runs) override;

private:
  Expected<Launch> prepare(MutableArrayRef<HostTensor> arguments);
  Expected<std::array<uint32_t, 3>> evaluateGrid(const KernelLaunch &kernel,
                                                 const SizeMap &sizes);
  Error placeWorkspace(const SizeMap &sizes, Launch &launch);
  Error placeArguments(MutableArrayRef<HostTensor> arguments, Launch &launch);
  Error placeScalars(Launch &launch);
  void record(VkCommandBuffer commands, const Launch &launch);
  Error copyBack(Launch &launch);
  Expected<double> timeOnce(const Launch &launch, const Buffer *flush,
                            VkQueryPool stamps);

  std::shared_ptr<Device> device;
  std::vector<Pipeline> pipelines;
};
} // namespace

//===----------------------------------------------------------------------===//
// Preparing a launch
//===----------------------------------------------------------------------===//

/// Workgroups may be none.
Expected<std::array<uint32_t, 3>>
VulkanKernel::evaluateGrid(const KernelLaunch &kernel, const SizeMap &sizes) {
  const auto &most =
      device->physical.properties.limits.maxComputeWorkGroupCount;
  std::array<uint32_t, 3> grid;
  for (int d : {0, 1, 2}) {
    const std::string &expression = kernel.grid[d];
    int64_t value = 0;
    if (Error error = evaluateSize(expression, sizes).moveInto(value))
      return error;
    if (value > int64_t(most[d]))
      return createStringError("kernel '" + description().name + "' needs " +
                               Twine(value) + " of " + expression + ", and " +
                               device->physical.name() + " has at most " +
                               Twine(most[d]) + "; give smaller sizes");
    grid[d] = std::max<int64_t>(value, 0);
  }
  return grid;
}

/// Whatever it holds will do: so it holds NaN, which shows in a result that it
/// reaches.
Error VulkanKernel::placeWorkspace(const SizeMap &sizes, Launch &launch) {
  if (!hasWorkspace(description()))
    return Error::success();
  int64_t bytes = 0;
  if (Error error =
          evaluateSize(description().workspaceBytes, sizes).moveInto(bytes))
    return error;
  constexpr StringLiteral kWhat = "the workspace";
  constexpr char kNaN = '\xFF';
  std::vector<char> nothing(std::max<int64_t>(bytes, 4), kNaN);
  Expected<Buffer> buffer =
      Buffer::createStorage(*device, nothing.size(), kWhat);
  if (!buffer)
    return buffer.takeError();
  launch.buffers.push_back(std::move(*buffer));
  return launch.buffers.back().write(nothing.data(), nothing.size(), kWhat);
}

Error VulkanKernel::placeArguments(MutableArrayRef<HostTensor> arguments,
                                   Launch &launch) {
  int64_t most = device->physical.properties.limits.maxStorageBufferRange;
  for (auto [argument, tensor] : zip(description().arguments, arguments)) {
    Expected<StridedBuffer> strided = StridedBuffer::create(argument, tensor);
    if (!strided)
      return strided.takeError();
    // Kernels read whole words, and an empty tensor is a buffer, too.
    int64_t bytes = alignTo(std::max<int64_t>(strided->bytes(), 1), 4);
    std::string what = "'" + argument.name + "'";
    if (bytes > most)
      return createStringError("argument " + what + " has " + Twine(bytes) +
                               " bytes, and a buffer of " +
                               device->physical.name() + " at most " +
                               Twine(most) + "; give smaller sizes");
    Expected<Buffer> buffer = Buffer::createStorage(*device, bytes, what);
    if (!buffer)
      return buffer.takeError();
    // Outputs, too: where a kernel does not write, what was there shows.
    if (Error error = buffer->write(strided->data(), strided->bytes(), what))
      return error;
    launch.buffers.push_back(std::move(*buffer));
    launch.tensors.push_back(std::move(*strided));
  }
  return Error::success();
}

Error VulkanKernel::placeScalars(Launch &launch) {
  for (const ScalarDescription &scalar : description().scalars) {
    const StridedBuffer &tensor = launch.tensors[scalar.argument];
    int64_t value = 0;
    switch (scalar.field) {
    case ScalarDescription::Field::Size:
      value = tensor.shape()[scalar.dimension];
      break;
    case ScalarDescription::Field::Stride:
      value = tensor.strides()[scalar.dimension];
      break;
    case ScalarDescription::Field::Offset:
      value = tensor.offset();
      break;
    }
    if (!isInt<32>(value))
      return createStringError(
          "argument '" + description().arguments[scalar.argument].name +
          "': a Vulkan kernel counts in 32 bits, got " + Twine(value) +
          "; give smaller sizes and strides");
    launch.scalars.push_back(value);
  }
  if (boundBuffers(description()) == launch.buffers.size())
    return Error::success();
  size_t bytes = sizeof(int32_t) * launch.scalars.size();
  Expected<Buffer> buffer = Buffer::createStorage(*device, bytes, "sizes");
  if (!buffer)
    return buffer.takeError();
  launch.buffers.push_back(std::move(*buffer));
  return launch.buffers.back().write(launch.scalars.data(), bytes, "sizes");
}

Expected<Launch> VulkanKernel::prepare(MutableArrayRef<HostTensor> arguments) {
  Launch launch;
  if (Error error = checkArguments(arguments))
    return error;
  Expected<SizeMap> sizes = bindSizes(description(), arguments);
  if (!sizes)
    return sizes.takeError();
  for (const KernelLaunch *kernel : description().kernels()) {
    auto grid = evaluateGrid(*kernel, *sizes);
    if (!grid)
      return grid.takeError();
    launch.grids.push_back(*grid);
  }
  if (Error error = placeArguments(arguments, launch))
    return error;
  if (Error error = placeWorkspace(*sizes, launch))
    return error;
  if (Error error = placeScalars(launch))
    return error;
  if (Error error =
          Bindings::create(*device, pipelines[0].setLayout(), launch.buffers)
              .moveInto(launch.bindings))
    return error;
  return launch;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

static void barrier(const Device &device, VkCommandBuffer commands,
                    VkPipelineStageFlags after, VkAccessFlags written,
                    VkPipelineStageFlags before, VkAccessFlags used) {
  VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, written,
                         used};
  device.vk.vkCmdPipelineBarrier(commands, after, before, 0, 1, &memory, 0,
                                 nullptr, 0, nullptr);
}

/// A kernel sees what those before it wrote.
void VulkanKernel::record(VkCommandBuffer commands, const Launch &launch) {
  const Functions &vk = device->vk;
  for (auto [number, grid] : enumerate(launch.grids)) {
    auto [x, y, z] = grid;
    if (!x || !y || !z)
      continue;
    if (number != 0)
      barrier(*device, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
              VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
              VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    const Pipeline &pipeline = pipelines[number];
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                         pipeline.get());
    launch.bindings.bind(*device, commands, pipeline.layout());
    if (uint32_t bytes = pushedBytes(description()))
      vk.vkCmdPushConstants(commands, pipeline.layout(),
                            VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes,
                            launch.scalars.data());
    vk.vkCmdDispatch(commands, x, y, z);
  }
}

Error VulkanKernel::copyBack(Launch &launch) {
  // An argument each; workspace and scalars stay behind.
  for (auto [argument, tensor, buffer] :
       zip_first(description().arguments, launch.tensors, launch.buffers)) {
    if (argument.access == Access::In)
      continue;
    if (Error error = buffer.read(tensor.data(), tensor.bytes(),
                                  "'" + argument.name + "'"))
      return error;
    tensor.copyBack();
  }
  return Error::success();
}

Error VulkanKernel::launch(MutableArrayRef<HostTensor> arguments) {
  Expected<Launch> launch = prepare(arguments);
  if (!launch)
    return launch.takeError();
  if (Error error = device->run(
          [&](VkCommandBuffer commands) {
            record(commands, *launch);
            device->makeVisible(commands);
          },
          "kernel '" + description().name + "'"))
    return error;
  return copyBack(*launch);
}

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

/// Overwriting more than the L2 cache holds makes each run start from main
/// memory, and keeps the GPU busy until the launch is queued behind it.
static constexpr size_t kFlushBytes = size_t(256) << 20;

/// Seconds between two timestamps of which `bits` count.
static double secondsBetween(const uint64_t stamps[2], uint32_t bits,
                             double nanoseconds) {
  return double((stamps[1] - stamps[0]) & maskTrailingOnes<uint64_t>(bits)) *
         nanoseconds * 1e-9;
}

Expected<double> VulkanKernel::timeOnce(const Launch &launch,
                                        const Buffer *flush,
                                        VkQueryPool stamps) {
  using Clock = std::chrono::steady_clock;
  const Functions &vk = device->vk;
  std::string what = "kernel '" + description().name + "'";
  auto stamp = [&](VkCommandBuffer commands, uint32_t query) {
    if (stamps)
      vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                             stamps, query);
  };
  Clock::time_point begin = Clock::now();
  if (Error error = device->run(
          [&](VkCommandBuffer commands) {
            if (stamps)
              vk.vkCmdResetQueryPool(commands, stamps, 0, 2);
            if (flush)
              vk.vkCmdFillBuffer(commands, flush->get(), 0, VK_WHOLE_SIZE, 0);
            barrier(*device, commands,
                    VK_PIPELINE_STAGE_TRANSFER_BIT |
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
            stamp(commands, 0);
            record(commands, launch);
            stamp(commands, 1);
          },
          what))
    return error;
  double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!stamps)
    return wall;
  uint64_t results[2];
  if (Error error =
          device->check(vk.vkGetQueryPoolResults(
                            device->handle, stamps, 0, 2, sizeof(results),
                            results, sizeof(uint64_t), VK_QUERY_RESULT_64_BIT),
                        "timestamps"))
    return error;
  return secondsBetween(results, device->timestampBits,
                        device->physical.properties.limits.timestampPeriod);
}

Expected<Timing> VulkanKernel::time(MutableArrayRef<HostTensor> arguments,
                                    int64_t runs) {
  Expected<Launch> launch = prepare(arguments);
  if (!launch)
    return launch.takeError();
  Buffer flush;
  bool isGpu = !device->physical.isProcessor();
  if (isGpu)
    if (Error error =
            Buffer::createStorage(*device, kFlushBytes, "flushing the cache")
                .moveInto(flush))
      return error;
  QueryPool stamps;
  if (device->timestampBits) {
    auto info =
        zeroed<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2;
    if (Error error = createOwned<&Functions::vkCreateQueryPool,
                                  &Functions::vkDestroyQueryPool, VkQueryPool>(
                          *device, info, "timestamps")
                          .moveInto(stamps))
      return error;
  }
  Expected<Timing> timing = repeatTimed(
      [&] { return timeOnce(*launch, isGpu ? &flush : nullptr, stamps.get()); },
      runs, /*fewest=*/isGpu ? 20 : 5);
  if (!timing)
    return timing;
  if (Error error = copyBack(*launch))
    return error;
  return timing;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Kernel>>
attn::loadVulkanKernel(const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  if (!launch.isVulkan())
    return createStringError("kernel '" + launch.name + "' has abi '" +
                             launch.abi + "', expected vulkan-buffers");
  Expected<std::shared_ptr<Device>> device = Device::get(launch);
  if (!device)
    return device.takeError();
  Expected<std::vector<Pipeline>> pipelines =
      Pipeline::createAll(**device, artifact);
  if (!pipelines)
    return pipelines.takeError();
  return std::make_unique<VulkanKernel>(launch, std::move(*device),
                                        std::move(*pipelines));
}
