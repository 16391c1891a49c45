//===- LoadedModule.h - Code on a GPU ---------------------------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_CUDA_LOADEDMODULE_H
#define ATTN_LIB_RUNTIME_CUDA_LOADEDMODULE_H

#include "Driver.h"
#include "attn/Artifact/Artifact.h"
#include <memory>

namespace attn::cuda {

/// A GPU with its primary context, which torch and the runtime API use too.
class Gpu {
public:
  /// The first GPU that runs the code of `launch`.
  static llvm::Expected<std::unique_ptr<Gpu>>
  open(const Driver &driver, const LaunchDescription &launch);
  ~Gpu();

  const Driver &driver;
  /// Makes the context the calling thread's: what every entry point works on.
  llvm::Error makeCurrent() const;

private:
  Gpu(const Driver &driver, Device device) : driver(driver), device(device) {}

  Device device;
  Context context = nullptr;
};

/// Code that the driver has loaded, or compiled from PTX.
class LoadedModule {
public:
  /// One that lives already with the same code and architecture, or a new one.
  static llvm::Expected<std::shared_ptr<LoadedModule>>
  load(const Artifact &artifact);
  ~LoadedModule();

  const Gpu &gpu() const { return *owner; }
  llvm::Expected<Function> find(llvm::StringRef entry) const;

private:
  LoadedModule() = default;

  std::unique_ptr<Gpu> owner;
  Module handle = nullptr;
};

} // namespace attn::cuda

#endif // ATTN_LIB_RUNTIME_CUDA_LOADEDMODULE_H
