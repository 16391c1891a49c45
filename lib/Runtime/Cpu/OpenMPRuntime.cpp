//===- OpenMPRuntime.cpp - The OpenMP runtime of CPU kernels --------------===//

#include "OpenMPRuntime.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <dlfcn.h>

using namespace llvm;
using namespace attn;

/// Debian's versioned packages keep theirs in /usr/lib/llvm-N/lib, which the
/// loader does not search; the newest first.
static std::vector<std::string> versionedLibraries() {
  std::vector<std::pair<unsigned, std::string>> found;
  std::error_code error;
  for (sys::fs::directory_iterator it("/usr/lib", error), end;
       !error && it != end; it.increment(error)) {
    StringRef name = sys::path::filename(it->path());
    unsigned version;
    if (!name.consume_front("llvm-") || name.getAsInteger(10, version))
      continue;
    found.emplace_back(version, it->path() + "/lib/libomp.so.5");
  }
  llvm::sort(found, std::greater<>());
  std::vector<std::string> paths;
  for (auto &entry : found)
    paths.push_back(std::move(entry.second));
  return paths;
}

/// A handle for dlsym, or null. Opened once and never closed: its threads
/// outlive the kernels.
static void *openMPRuntime() {
  static void *handle = []() -> void * {
    constexpr const char *kProbe = "__kmpc_fork_call";
    if (dlsym(RTLD_DEFAULT, kProbe))
      return dlopen(nullptr, RTLD_NOW);
    std::vector<std::string> candidates = {"libomp.so.5", "libomp.so",
                                           "libiomp5.so"};
    for (std::string &path : versionedLibraries())
      candidates.push_back(std::move(path));
    for (const std::string &candidate : candidates)
      if (void *library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL))
        if (dlsym(library, kProbe))
          return library;
    return nullptr;
  }();
  return handle;
}

Error OpenMPGenerator::tryToGenerate(orc::LookupState &, orc::LookupKind,
                                     orc::JITDylib &library,
                                     orc::JITDylibLookupFlags,
                                     const orc::SymbolLookupSet &symbols) {
  orc::SymbolMap found;
  for (const auto &[symbol, flags] : symbols) {
    StringRef name = *symbol;
    if (!name.starts_with("__kmpc_") && !name.starts_with("omp_"))
      continue;
    void *runtime = openMPRuntime();
    if (!runtime)
      return createStringError(
          "the kernel runs threads by LLVM's OpenMP runtime, and libomp.so.5 "
          "is not on this machine; install the package libomp5");
    if (void *address = dlsym(runtime, name.str().c_str()))
      found[symbol] = {orc::ExecutorAddr::fromPtr(address),
                       JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  }
  if (found.empty())
    return Error::success();
  return library.define(orc::absoluteSymbols(std::move(found)));
}
