//===- Driver.cpp - What is used of NVIDIA's driver API -------------------===//

#include "Driver.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/Process.h"
#include <mutex>
#include <optional>
#include <string>

using namespace llvm;
using namespace attn::cuda;

static constexpr StringLiteral kPathVariable = "ATTN_LIBCUDA";

static Expected<Driver> openDriver() {
  std::string path =
      sys::Process::GetEnv(kPathVariable).value_or("libcuda.so.1");
  std::string problem;
  sys::DynamicLibrary library =
      sys::DynamicLibrary::getLibrary(path.c_str(), &problem);
  if (!library.isValid())
    return createStringError("cannot open NVIDIA's driver: " + problem +
                             "; install the driver, or set " + kPathVariable +
                             " to its libcuda.so.1");
  Driver driver;
#define X(name, parameters)                                                    \
  driver.name = reinterpret_cast<decltype(driver.name)>(                       \
      library.getAddressOfSymbol(#name));                                      \
  if (!driver.name)                                                            \
    return createStringError("'" + path +                                      \
                             "' has no " #name                                 \
                             "; a driver of CUDA 12.0 or later is needed");
  ATTN_CUDA_ENTRY_POINTS(X)
#undef X
  if (Error error = driver.check(driver.cuInit(0), "cuInit"))
    return error;
  return driver;
}

Expected<const Driver *> Driver::get() {
  // Failures are not kept: a GPU or a driver may appear later.
  static std::mutex mutex;
  static std::optional<Driver> opened;
  std::lock_guard<std::mutex> lock(mutex);
  if (!opened) {
    Expected<Driver> driver = openDriver();
    if (!driver)
      return driver.takeError();
    opened = *driver;
  }
  return &*opened;
}

static StringRef remedyFor(Result result) {
  switch (result) {
  case kOutOfMemory:
    return "free memory on the GPU, or give smaller sizes";
  case kNoDevice:
    return "see what nvidia-smi lists, and CUDA_VISIBLE_DEVICES";
  case kNoBinaryForGpu:
    return "compile it for this chip";
  case kInvalidPtx:
  case kUnsupportedPtxVersion:
    return "update the driver, or compile to a cubin for this chip";
  case kLaunchOutOfResources:
    return "the target that it was compiled for has more registers or shared "
           "memory than this GPU";
  case kIllegalAddress:
  case kMisalignedAddress:
  case kLaunchFailed:
    return "compute-sanitizer shows where";
  default:
    return "";
  }
}

Error Driver::check(Result result, const Twine &what) const {
  if (result == kSuccess)
    return Error::success();
  const char *name = nullptr, *text = nullptr;
  std::string message = what.str() + ": ";
  if (cuGetErrorName(result, &name) == kSuccess && name)
    message += name;
  else
    message += "CUDA error " + std::to_string(result);
  if (cuGetErrorString(result, &text) == kSuccess && text)
    message += std::string(": ") + text;
  if (StringRef remedy = remedyFor(result); !remedy.empty())
    message += "; " + remedy.str();
  return createStringError(Twine(message));
}
