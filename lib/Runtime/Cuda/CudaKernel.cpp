//===- CudaKernel.cpp - Kernels on an NVIDIA GPU --------------------------===//
//
// The ABI is "memref-parameters": each argument as address (twice), offset,
// sizes and strides, then the tensor maps. Arguments are copied to the GPU for
// a launch, and back.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Cuda/CudaKernel.h"
#include "../StridedBuffer.h"
#include "LoadedModule.h"
#include "TensorMap.h"
#include "attn/Runtime/Arguments.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace attn;
using namespace attn::cuda;

//===----------------------------------------------------------------------===//
// What is to be freed
//===----------------------------------------------------------------------===//

namespace {
/// A handle with the entry point that frees it.
template <typename T, Result (*Driver::*kFree)(T)> class Owned {
public:
  Owned() = default;
  Owned(const Driver &driver, T handle) : driver(&driver), handle(handle) {}
  Owned(Owned &&other) { *this = std::move(other); }
  Owned &operator=(Owned &&other) {
    std::swap(driver, other.driver);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (driver)
      (void)(driver->*kFree)(handle);
  }
  T get() const { return handle; }

private:
  const Driver *driver = nullptr;
  T handle = {};
};
using DeviceMemory = Owned<Address, &Driver::cuMemFree_v2>;
using OwnedStream = Owned<Stream, &Driver::cuStreamDestroy_v2>;
using OwnedEvent = Owned<Event, &Driver::cuEventDestroy_v2>;

/// The arguments of a launch in the memory of the GPU, and the parameters of
/// the kernel.
struct Launch {
  std::vector<StridedBuffer> buffers;
  std::vector<DeviceMemory> memory;
  std::vector<int64_t> words;
  std::vector<TensorMap> maps;
  std::vector<void *> parameters;
  std::array<unsigned, 3> grid, workgroup;
  unsigned sharedBytes = 0;
  OwnedStream stream;
};

class CudaKernel : public Kernel {
public:
  CudaKernel(LaunchDescription description,
             std::shared_ptr<LoadedModule> module, Function function)
      : Kernel(std::move(description)), module(std::move(module)),
        driver(this->module->gpu().driver), function(function) {}

  Error launch(MutableArrayRef<HostTensor> arguments) override;
  Expected<Timing> time(MutableArrayRef<HostTensor> arguments,
                        int64_t runs) override;

private:
  Expected<Launch> prepare(MutableArrayRef<HostTensor> arguments);
  Error placeArguments(MutableArrayRef<HostTensor> arguments, Launch &launch);
  Error encodeMaps(Launch &launch);
  Error evaluateSizes(ArrayRef<HostTensor> arguments, Launch &launch);
  Error start(Launch &launch);
  Error wait(const Launch &launch);
  Error copyBack(Launch &launch);
  Expected<DeviceMemory> allocate(size_t bytes, const Twine &what);
  Expected<double> timeOnce(Launch &launch, const DeviceMemory &flush,
                            Event begin, Event end);

  std::shared_ptr<LoadedModule> module;
  const Driver &driver;
  Function function;
};
} // namespace

//===----------------------------------------------------------------------===//
// Preparing a launch
//===----------------------------------------------------------------------===//

Expected<DeviceMemory> CudaKernel::allocate(size_t bytes, const Twine &what) {
  Address address = 0;
  // An empty tensor has an address, too.
  if (Error error = driver.check(
          driver.cuMemAlloc_v2(&address, std::max<size_t>(bytes, 16)),
          Twine(bytes) + " bytes for " + what))
    return error;
  return DeviceMemory(driver, address);
}

Error CudaKernel::placeArguments(MutableArrayRef<HostTensor> arguments,
                                 Launch &launch) {
  for (auto [argument, tensor] : zip(description().arguments, arguments)) {
    Expected<StridedBuffer> buffer = StridedBuffer::create(argument, tensor);
    if (!buffer)
      return buffer.takeError();
    Expected<DeviceMemory> memory =
        allocate(buffer->bytes(), "'" + argument.name + "'");
    if (!memory)
      return memory.takeError();
    // Outputs, too: where a kernel does not write, what was there shows.
    if (Error error =
            driver.check(driver.cuMemcpyHtoD_v2(memory->get(), buffer->data(),
                                                buffer->bytes()),
                         "copy of '" + argument.name + "' to the GPU"))
      return error;
    int64_t address = memory->get();
    append_range(launch.words,
                 ArrayRef<int64_t>({address, address, buffer->offset()}));
    append_range(launch.words, buffer->shape());
    append_range(launch.words, buffer->strides());
    launch.memory.push_back(std::move(*memory));
    launch.buffers.push_back(std::move(*buffer));
  }
  return Error::success();
}

Error CudaKernel::encodeMaps(Launch &launch) {
  for (const TensorMapDescription &map : description().tensorMaps) {
    const ArgumentDescription &argument = description().arguments[map.argument];
    const StridedBuffer &buffer = launch.buffers[map.argument];
    Address base = launch.memory[map.argument].get() +
                   buffer.offset() * elementBytes(argument.type);
    Expected<TensorMap> encoded = encodeTensorMap(
        driver, argument, map, {base, buffer.shape(), buffer.strides()});
    if (!encoded)
      return encoded.takeError();
    launch.maps.push_back(*encoded);
  }
  return Error::success();
}

/// Blocks may be none, threads may not.
Error CudaKernel::evaluateSizes(ArrayRef<HostTensor> arguments,
                                Launch &launch) {
  Expected<SizeMap> sizes = bindSizes(description(), arguments);
  if (!sizes)
    return sizes.takeError();
  auto evaluate = [&](StringRef expression, int64_t most,
                      unsigned &result) -> Error {
    int64_t value = 0;
    if (Error error = evaluateSize(expression, *sizes).moveInto(value))
      return error;
    if (value > most)
      return createStringError("kernel '" + description().name + "' needs " +
                               Twine(value) + " of " + expression +
                               ", a GPU has at most " + Twine(most));
    result = std::max<int64_t>(value, 0);
    return Error::success();
  };
  constexpr int64_t kMostBlocks[] = {0x7FFFFFFF, 65535, 65535};
  for (int d : {0, 1, 2}) {
    if (Error error =
            evaluate(description().grid[d], kMostBlocks[d], launch.grid[d]))
      return error;
    if (Error error =
            evaluate(description().workgroup[d], 1024, launch.workgroup[d]))
      return error;
  }
  return evaluate(description().sharedMemoryBytes, 0x7FFFFFFF,
                  launch.sharedBytes);
}

Expected<Launch> CudaKernel::prepare(MutableArrayRef<HostTensor> arguments) {
  constexpr unsigned kSharedByDefault = 48 << 10;
  Launch launch;
  if (Error error = checkArguments(arguments))
    return error;
  if (Error error = module->gpu().makeCurrent())
    return error;
  if (Error error = evaluateSizes(arguments, launch))
    return error;
  if (launch.sharedBytes > kSharedByDefault)
    if (Error error = driver.check(
            driver.cuFuncSetAttribute(function, kMaxDynamicSharedSize,
                                      launch.sharedBytes),
            Twine(launch.sharedBytes) + " bytes of shared memory"))
      return error;
  Stream stream = nullptr;
  if (Error error =
          driver.check(driver.cuStreamCreate(&stream, 0), "cuStreamCreate"))
    return error;
  launch.stream = OwnedStream(driver, stream);
  if (Error error = placeArguments(arguments, launch))
    return error;
  if (Error error = encodeMaps(launch))
    return error;
  for (int64_t &word : launch.words)
    launch.parameters.push_back(&word);
  for (TensorMap &map : launch.maps)
    launch.parameters.push_back(&map);
  return launch;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

Error CudaKernel::start(Launch &launch) {
  auto [x, y, z] = launch.grid;
  if (!x || !y || !z)
    return Error::success();
  auto [bx, by, bz] = launch.workgroup;
  return driver.check(driver.cuLaunchKernel(function, x, y, z, bx, by, bz,
                                            launch.sharedBytes,
                                            launch.stream.get(),
                                            launch.parameters.data(), nullptr),
                      "launch of '" + description().name + "'");
}

Error CudaKernel::wait(const Launch &launch) {
  return driver.check(driver.cuStreamSynchronize(launch.stream.get()),
                      "kernel '" + description().name + "'");
}

Error CudaKernel::copyBack(Launch &launch) {
  for (auto [argument, buffer, memory] :
       zip(description().arguments, launch.buffers, launch.memory)) {
    if (argument.access == Access::In)
      continue;
    if (Error error = driver.check(
            driver.cuMemcpyDtoH_v2(buffer.data(), memory.get(), buffer.bytes()),
            "copy of '" + argument.name + "' from the GPU"))
      return error;
    buffer.copyBack();
  }
  return Error::success();
}

Error CudaKernel::launch(MutableArrayRef<HostTensor> arguments) {
  Expected<Launch> launch = prepare(arguments);
  if (!launch)
    return launch.takeError();
  if (Error error = start(*launch))
    return error;
  if (Error error = wait(*launch))
    return error;
  return copyBack(*launch);
}

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

/// Overwriting more than the L2 cache holds makes each run start from main
/// memory, and keeps the GPU busy until the launch is queued behind it.
static constexpr size_t kFlushBytes = size_t(256) << 20;

Expected<double> CudaKernel::timeOnce(Launch &launch, const DeviceMemory &flush,
                                      Event begin, Event end) {
  Stream stream = launch.stream.get();
  if (Error error = driver.check(
          driver.cuMemsetD8Async(flush.get(), 0, kFlushBytes, stream),
          "cuMemsetD8Async"))
    return error;
  if (Error error =
          driver.check(driver.cuEventRecord(begin, stream), "cuEventRecord"))
    return error;
  if (Error error = start(launch))
    return error;
  if (Error error =
          driver.check(driver.cuEventRecord(end, stream), "cuEventRecord"))
    return error;
  if (Error error = wait(launch))
    return error;
  float milliseconds = 0;
  if (Error error =
          driver.check(driver.cuEventElapsedTime(&milliseconds, begin, end),
                       "cuEventElapsedTime"))
    return error;
  return milliseconds * 1e-3;
}

Expected<Timing> CudaKernel::time(MutableArrayRef<HostTensor> arguments,
                                  int64_t runs) {
  constexpr int64_t kFewest = 20;
  Expected<Launch> launch = prepare(arguments);
  if (!launch)
    return launch.takeError();
  Expected<DeviceMemory> flush = allocate(kFlushBytes, "flushing the cache");
  if (!flush)
    return flush.takeError();
  OwnedEvent events[2];
  for (OwnedEvent &event : events) {
    Event created = nullptr;
    if (Error error =
            driver.check(driver.cuEventCreate(&created, 0), "cuEventCreate"))
      return error;
    event = OwnedEvent(driver, created);
  }
  Expected<Timing> timing = repeatTimed(
      [&] {
        return timeOnce(*launch, *flush, events[0].get(), events[1].get());
      },
      runs, kFewest);
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
attn::loadCudaKernel(const Artifact &artifact) {
  const LaunchDescription &launch = artifact.launch;
  if (launch.abi != "memref-parameters")
    return createStringError("kernel '" + launch.name + "' has abi '" +
                             launch.abi + "', expected memref-parameters");
  Expected<std::shared_ptr<LoadedModule>> module = LoadedModule::load(artifact);
  if (!module)
    return module.takeError();
  Expected<Function> function = (*module)->find(launch.entry);
  if (!function)
    return function.takeError();
  return std::make_unique<CudaKernel>(launch, std::move(*module), *function);
}
