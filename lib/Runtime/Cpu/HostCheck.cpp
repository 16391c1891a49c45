//===- HostCheck.cpp - Whether this processor runs an artifact ------------===//

#include "attn/Runtime/Cpu/CpuKernel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace llvm;
using namespace attn;

/// Whether the code generator uses the feature of its own accord. A processor
/// model has others, which a virtual machine often hides (enqcmd, ptwrite).
static bool isSelected(StringRef feature) {
  constexpr StringLiteral kPrefixes[] = {"amx",   "sse",   "ssse", "avx",
                                         "fma",   "f16c",  "bmi",  "lzcnt",
                                         "movbe", "popcnt"};
  return any_of(kPrefixes,
                [&](StringRef prefix) { return feature.starts_with(prefix); });
}

/// Features that the code may use, by LLVM's names.
static SmallVector<StringRef> requiredFeatures(const LaunchDescription &launch,
                                               const Triple &triple) {
  SmallVector<StringRef> required, explicitOnes;
  if (triple.isX86() && X86::parseArchX86(launch.arch) != X86::CK_None)
    X86::getFeaturesForCPU(launch.arch, required);
  llvm::erase_if(required, [](StringRef f) { return !isSelected(f); });
  StringRef(launch.features).split(explicitOnes, ',', -1, /*KeepEmpty=*/false);
  for (StringRef feature : explicitOnes)
    if (feature.consume_front("+"))
      required.push_back(feature);
    else if (feature.consume_front("-"))
      llvm::erase(required, feature);
  return required;
}

/// AMX state is large, so Linux (since 5.16) saves it only for processes that
/// have asked; without that, the first tile instruction is a SIGILL.
static Error requestTileRegisters() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023; // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;              // XFEATURE_XTILE_DATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0)
    return createStringError("the Linux kernel refuses the AMX tile registers "
                             "that the code uses; it takes Linux 5.16 or "
                             "later, or compile for cpu:avx512");
#endif
  return Error::success();
}

Error attn::checkHostRuns(const LaunchDescription &launch) {
  Triple triple(launch.triple), host(sys::getProcessTriple());
  if (triple.getArch() != host.getArch() || triple.getOS() != host.getOS())
    return createStringError("kernel '" + launch.name + "' is built for " +
                             launch.triple + ", this machine is " + host.str() +
                             "; compile it for --target=cpu");
  StringMap<bool> hostFeatures = sys::getHostCPUFeatures();
  bool usesTiles = false;
  for (StringRef feature : requiredFeatures(launch, triple)) {
    // The host's map does not mention what every processor of the
    // architecture has.
    auto known = hostFeatures.find(feature);
    if (known != hostFeatures.end() && !known->second)
      return createStringError("kernel '" + launch.name + "' for target '" +
                               launch.target + "' uses " + feature +
                               ", which this processor does not have; "
                               "compile it for --target=cpu");
    usesTiles |= feature.starts_with("amx");
  }
  return usesTiles ? requestTileRegisters() : Error::success();
}
