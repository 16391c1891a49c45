//===- LoadedModule.cpp - Code on a GPU -----------------------------------===//

#include "LoadedModule.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <mutex>

using namespace llvm;
using namespace attn;
using namespace attn::cuda;

//===----------------------------------------------------------------------===//
// The choice of a GPU
//===----------------------------------------------------------------------===//

/// Whether a chip of compute capability `major`.`minor` runs code for `arch`,
/// which is sm_ and two or three digits, perhaps with a letter. With one, code
/// is for that chip alone. Without, a cubin runs within the generation, and the
/// driver compiles PTX for every later chip.
static bool runs(StringRef arch, bool isPtx, int major, int minor) {
  StringRef digits = arch;
  digits.consume_front("sm_");
  StringRef number = digits.take_while(isDigit);
  int needed;
  if (number.getAsInteger(10, needed))
    return false;
  int given = major * 10 + minor;
  if (number.size() < digits.size())
    return given == needed;
  return given >= needed && (isPtx || major == needed / 10);
}

Expected<std::unique_ptr<Gpu>> Gpu::open(const Driver &driver,
                                         const LaunchDescription &launch) {
  int count = 0;
  if (Error error =
          driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"))
    return error;
  std::vector<std::string> others;
  for (int number = 0; number < count; ++number) {
    Device device;
    int major, minor;
    char name[128] = "";
    for (Result result :
         {driver.cuDeviceGet(&device, number),
          driver.cuDeviceGetName(name, sizeof(name) - 1, device),
          driver.cuDeviceGetAttribute(&major, kComputeCapabilityMajor, device),
          driver.cuDeviceGetAttribute(&minor, kComputeCapabilityMinor, device)})
      if (Error error =
              driver.check(result, "properties of GPU " + Twine(number)))
        return error;
    if (!runs(launch.arch, launch.format == "ptx", major, minor)) {
      others.push_back(
          (Twine(name) + " (sm_" + Twine(major * 10 + minor) + ")").str());
      continue;
    }
    std::unique_ptr<Gpu> gpu(new Gpu(driver, device));
    if (Error error =
            driver.check(driver.cuDevicePrimaryCtxRetain(&gpu->context, device),
                         "context on " + Twine(name)))
      return error;
    return gpu;
  }
  return createStringError(
      "kernel '" + launch.name + "' is built for " + launch.arch + ", and " +
      (others.empty() ? "no GPU is visible; see what nvidia-smi lists, and "
                        "CUDA_VISIBLE_DEVICES"
                      : "the GPUs are " + join(others, ", ") +
                            "; compile it for one of them"));
}

Gpu::~Gpu() {
  if (context)
    (void)driver.cuDevicePrimaryCtxRelease_v2(device);
}

Error Gpu::makeCurrent() const {
  return driver.check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// The first line of the compiler's log that is an error.
static StringRef causeOf(StringRef log) {
  StringRef first;
  while (!log.empty()) {
    auto [line, rest] = log.split('\n');
    if (line.contains("error") || line.contains("fatal"))
      return line.trim();
    if (first.empty())
      first = line.trim();
    log = rest;
  }
  return first;
}

Expected<std::shared_ptr<LoadedModule>>
LoadedModule::load(const Artifact &artifact) {
  static std::mutex mutex;
  static StringMap<std::weak_ptr<LoadedModule>> cache;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<LoadedModule> &slot =
      cache[artifact.launch.arch + "\n" + artifact.code];
  if (std::shared_ptr<LoadedModule> loaded = slot.lock())
    return loaded;

  Expected<const Driver *> driver = Driver::get();
  if (!driver)
    return driver.takeError();
  Expected<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, artifact.launch);
  if (!gpu)
    return gpu.takeError();
  if (Error error = (*gpu)->makeCurrent())
    return error;
  std::shared_ptr<LoadedModule> loaded(new LoadedModule());
  loaded->owner = std::move(*gpu);
  char log[4096] = "";
  int options[] = {kJitErrorLogBuffer, kJitErrorLogBufferSize};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  Result result = (*driver)->cuModuleLoadDataEx(
      &loaded->handle, artifact.code.c_str(), 2, options, values);
  StringRef cause = causeOf(log);
  if (Error error = (*driver)->check(
          result, "cannot load kernel '" + artifact.launch.name + "'" +
                      (cause.empty() ? "" : ": " + cause)))
    return error;
  slot = loaded;
  return loaded;
}

LoadedModule::~LoadedModule() {
  // The process may be ending, and the driver be gone before us: no report.
  if (handle && !errorToBool(owner->makeCurrent()))
    (void)owner->driver.cuModuleUnload(handle);
}

Expected<Function> LoadedModule::find(StringRef entry) const {
  Function function = nullptr;
  const Driver &driver = owner->driver;
  if (Error error = driver.check(
          driver.cuModuleGetFunction(&function, handle, entry.str().c_str()),
          "entry '" + entry + "'"))
    return error;
  return function;
}
