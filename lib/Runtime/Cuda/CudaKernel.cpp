//===- CudaKernel.cpp - Kernels on an NVIDIA GPU --------------------------===//
//
// The ABI is "memref-parameters": each argument as address (twice), offset,
// sizes and strides, then the workspace in the same way, then the tensor maps.
// Arguments are copied to the GPU for a launch, and back.
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

/// One kernel of a launch.
struct Step {
  const KernelLaunch *kernel = nullptr;
  Function function = nullptr;
  std::vector<TensorMap> maps;
  std::vector<void *> parameters;
  std::array<unsigned, 3> grid, workgroup;
  unsigned sharedBytes = 0;
};

/// The arguments of a launch in the memory of the GPU, and the kernels in order
/// with their parameters.
struct Launch {
  std::vector<StridedBuffer> buffers;
  std::vector<DeviceMemory> memory;
  std::vector<int64_t> words;
  DeviceMemory workspace;
  std::vector<Step> steps;
  OwnedStream stream;
};

class CudaKernel : public Kernel {
public:
  CudaKernel(LaunchDescription description,
             std::shared_ptr<LoadedModule> module,
             std::vector<Function> functions, std::vector<Function> otherwise)
      : Kernel(std::move(description)), module(std::move(module)),
        driver(this->module->gpu().driver), functions(std::move(functions)),
        otherwise(std::move(otherwise)) {}

  Error launch(MutableArrayRef<HostTensor> arguments) override;
  Expected<Timing> time(MutableArrayRef<HostTensor> arguments,
                        int64_t runs) override;

private:
  Expected<Launch> prepare(MutableArrayRef<HostTensor> arguments);
  Error placeArguments(MutableArrayRef<HostTensor> arguments, Launch &launch);
  Error placeWorkspace(const SizeMap &sizes, Launch &launch);
  Error encodeMaps(const Launch &launch, Step &step);
  Error addSteps(ArrayRef<const KernelLaunch *> kernels,
                 ArrayRef<Function> found, Launch &launch);
  Error chooseSteps(Launch &launch);
  Error evaluateSizes(const SizeMap &sizes, Step &step);
  Error prepareStep(const SizeMap &sizes, Launch &launch, Step &step);
  Error start(Launch &launch);
  Error wait(const Launch &launch);
  Error copyBack(Launch &launch);
  Expected<DeviceMemory> allocate(size_t bytes, const Twine &what);
  Expected<double> timeOnce(Launch &launch, const DeviceMemory &flush,
                            Event begin, Event end);

  std::shared_ptr<LoadedModule> module;
  const Driver &driver;
  /// Of `kernels()` of the description, and of its `otherwise`.
  std::vector<Function> functions, otherwise;
};
} // namespace

/// The kernels that can take the place of the others.
static std::vector<const KernelLaunch *>
fallbacksOf(const LaunchDescription &description) {
  std::vector<const KernelLaunch *> kernels;
  for (const KernelLaunch &kernel : description.otherwise)
    kernels.push_back(&kernel);
  return kernels;
}

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

/// Whatever it holds will do: so it holds NaN, which shows in a result that it
/// reaches.
Error CudaKernel::placeWorkspace(const SizeMap &sizes, Launch &launch) {
  int64_t bytes = 0;
  if (Error error =
          evaluateSize(description().workspaceBytes, sizes).moveInto(bytes))
    return error;
  if (bytes == 0 && description().workspaceBytes == "0")
    return Error::success();
  Expected<DeviceMemory> memory = allocate(bytes, "the workspace");
  if (!memory)
    return memory.takeError();
  launch.workspace = std::move(*memory);
  constexpr unsigned char kNaN = 0xFF;
  if (bytes != 0)
    if (Error error =
            driver.check(driver.cuMemsetD8Async(launch.workspace.get(), kNaN,
                                                bytes, launch.stream.get()),
                         "cuMemsetD8Async"))
      return error;
  int64_t address = launch.workspace.get();
  int64_t elements = bytes / int64_t(sizeof(float));
  append_range(launch.words,
               ArrayRef<int64_t>({address, address, 0, elements, 1}));
  return Error::success();
}

Error CudaKernel::encodeMaps(const Launch &launch, Step &step) {
  for (const TensorMapDescription &map : step.kernel->tensorMaps) {
    const ArgumentDescription &argument = description().arguments[map.argument];
    const StridedBuffer &buffer = launch.buffers[map.argument];
    Address base = launch.memory[map.argument].get() +
                   buffer.offset() * elementBytes(argument.type);
    Expected<TensorMap> encoded = encodeTensorMap(
        driver, argument, map, {base, buffer.shape(), buffer.strides()});
    if (!encoded)
      return encoded.takeError();
    step.maps.push_back(*encoded);
  }
  return Error::success();
}

Error CudaKernel::addSteps(ArrayRef<const KernelLaunch *> kernels,
                           ArrayRef<Function> found, Launch &launch) {
  for (auto [kernel, function] : zip_equal(kernels, found)) {
    Step &step = launch.steps.emplace_back();
    step.kernel = kernel;
    step.function = function;
    if (Error error = encodeMaps(launch, step))
      return error;
  }
  return Error::success();
}

/// What no tensor map describes, strides that are no whole units in
/// particular, is for the kernels that need none.
Error CudaKernel::chooseSteps(Launch &launch) {
  Error error = addSteps(description().kernels(), functions, launch);
  if (!error || otherwise.empty())
    return error;
  consumeError(std::move(error));
  launch.steps.clear();
  return addSteps(fallbacksOf(description()), otherwise, launch);
}

/// Blocks may be none, threads may not.
Error CudaKernel::evaluateSizes(const SizeMap &sizes, Step &step) {
  const KernelLaunch &kernel = *step.kernel;
  auto evaluate = [&](StringRef expression, int64_t most,
                      unsigned &result) -> Error {
    int64_t value = 0;
    if (Error error = evaluateSize(expression, sizes).moveInto(value))
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
    if (Error error = evaluate(kernel.grid[d], kMostBlocks[d], step.grid[d]))
      return error;
    if (Error error = evaluate(kernel.workgroup[d], 1024, step.workgroup[d]))
      return error;
  }
  return evaluate(kernel.sharedMemoryBytes, 0x7FFFFFFF, step.sharedBytes);
}

Error CudaKernel::prepareStep(const SizeMap &sizes, Launch &launch,
                              Step &step) {
  constexpr unsigned kSharedByDefault = 48 << 10;
  if (Error error = evaluateSizes(sizes, step))
    return error;
  if (step.sharedBytes > kSharedByDefault)
    if (Error error = driver.check(
            driver.cuFuncSetAttribute(step.function, kMaxDynamicSharedSize,
                                      step.sharedBytes),
            Twine(step.sharedBytes) + " bytes of shared memory"))
      return error;
  for (int64_t &word : launch.words)
    step.parameters.push_back(&word);
  for (TensorMap &map : step.maps)
    step.parameters.push_back(&map);
  return Error::success();
}

Expected<Launch> CudaKernel::prepare(MutableArrayRef<HostTensor> arguments) {
  Launch launch;
  if (Error error = checkArguments(arguments))
    return error;
  if (Error error = module->gpu().makeCurrent())
    return error;
  Expected<SizeMap> sizes = bindSizes(description(), arguments);
  if (!sizes)
    return sizes.takeError();
  Stream stream = nullptr;
  if (Error error =
          driver.check(driver.cuStreamCreate(&stream, 0), "cuStreamCreate"))
    return error;
  launch.stream = OwnedStream(driver, stream);
  if (Error error = placeArguments(arguments, launch))
    return error;
  if (Error error = placeWorkspace(*sizes, launch))
    return error;
  if (Error error = chooseSteps(launch))
    return error;
  for (Step &step : launch.steps)
    if (Error error = prepareStep(*sizes, launch, step))
      return error;
  return launch;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

Error CudaKernel::start(Launch &launch) {
  for (Step &step : launch.steps) {
    auto [x, y, z] = step.grid;
    if (!x || !y || !z)
      continue;
    auto [bx, by, bz] = step.workgroup;
    if (Error error = driver.check(
            driver.cuLaunchKernel(step.function, x, y, z, bx, by, bz,
                                  step.sharedBytes, launch.stream.get(),
                                  step.parameters.data(), nullptr),
            "launch of '" + description().name + "'"))
      return error;
  }
  return Error::success();
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
  auto find = [&](ArrayRef<const KernelLaunch *> kernels,
                  std::vector<Function> &functions) -> Error {
    for (const KernelLaunch *kernel : kernels) {
      Expected<Function> function = (*module)->find(kernel->entry);
      if (!function)
        return function.takeError();
      functions.push_back(*function);
    }
    return Error::success();
  };
  std::vector<Function> functions, otherwise;
  if (Error error = find(launch.kernels(), functions))
    return error;
  if (Error error = find(fallbacksOf(launch), otherwise))
    return error;
  return std::make_unique<CudaKernel>(
      launch, std::move(*module), std::move(functions), std::move(otherwise));
}
