//===- HostCpu.cpp - The machine that this runs on ------------------------===//
//
// Instruction sets come from LLVM, less the tile registers where the operating
// system does not save them; caches and clock come from the operating system
// (sysfs, then sysconf). What no interface tells, such as the width of the
// multiply-add ports, is known by core name or takes the commoner value.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/KnownTargets.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Threading.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <set>
#include <unistd.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#endif

using namespace attn;

namespace {
/// What the multiply-add ports of a core do in a cycle.
struct CorePorts {
  int64_t f32Macs, bf16DotMacs, exp2Per64Cycles;
};
} // namespace

static std::string readLine(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().split('\n').first.trim().str()
                : std::string();
}

/// A size such as "2048K" as sysfs prints it.
static int64_t parseSize(llvm::StringRef text) {
  int64_t size = 0;
  text.consumeInteger(10, size);
  return text.starts_with("K")   ? size << 10
         : text.starts_with("M") ? size << 20
                                 : size;
}

static int64_t cacheSize(int level) {
  const std::string root = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0; index < 8; ++index) {
    std::string folder = root + std::to_string(index) + "/";
    if (readLine(folder + "level") == std::to_string(level) &&
        readLine(folder + "type") != "Instruction")
      return parseSize(readLine(folder + "size"));
  }
#ifdef _SC_LEVEL1_DCACHE_SIZE
  int name = level == 1   ? _SC_LEVEL1_DCACHE_SIZE
             : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                          : _SC_LEVEL3_CACHE_SIZE;
  return std::max<long>(sysconf(name), 0);
#else
  return 0;
#endif
}

static int64_t clockMHz() {
  int64_t kHz = 0;
  if (!llvm::StringRef(
           readLine("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
           .getAsInteger(10, kHz) &&
      kHz > 0)
    return kHz / 1000;
  if (auto buffer = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo")) {
    llvm::StringRef text = (*buffer)->getBuffer();
    double mhz = 0;
    if (size_t at = text.find("cpu MHz");
        at != llvm::StringRef::npos &&
        !text.substr(at).split(':').second.split('\n').first.trim().getAsDouble(
            mhz))
      return static_cast<int64_t>(mhz);
  }
  return 2500;
}

/// Zen 4 splits 512-bit operations in two; its bf16 dot product is at full
/// rate, that of Sapphire and Emerald Rapids at half (both measured). Zen 5 is
/// taken as twice Zen 4.
static CorePorts x86Ports(llvm::StringRef core, bool hasAvx512, bool hasAvx2) {
  if (hasAvx512)
    return llvm::StringSwitch<CorePorts>(core)
        .Case("znver4", {16, 32, 165})
        .Case("znver5", {32, 64, 186})
        .Case("cooperlake", {32, 32, 186})
        .Default({32, 16, 186});
  return hasAvx2 ? CorePorts{16, 0, 93} : CorePorts{4, 0, 46};
}

/// Features that the core's name does not imply, and those that it does and
/// the machine withholds (a hypervisor may).
static std::string x86Features(llvm::StringRef core,
                               const llvm::StringMap<bool> &host) {
  llvm::SmallVector<llvm::StringRef> implied;
  llvm::X86::getFeaturesForCPU(core, implied);
  std::set<llvm::StringRef> byName(implied.begin(), implied.end());
  byName.insert({"64bit", "sse2"}); // in every x86-64
  std::set<std::string> flags;
  for (const auto &feature : host)
    if (feature.getValue() != (byName.count(feature.getKey()) != 0))
      flags.insert((feature.getValue() ? "+" : "-") + feature.getKey().str());
  return llvm::join(flags, ",");
}

/// Whether a process may use the AMX tile registers, should it ask. Code that
/// asks and is refused cannot run at all, so it is better compiled without.
static bool grantsTileRegisters() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kGetSupported = 0x1021; // ARCH_GET_XCOMP_SUPP
  constexpr uint64_t kTileData = 1 << 18;
  uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 &&
         (supported & kTileData);
#else
  return false;
#endif
}

static void withholdTileRegisters(llvm::StringMap<bool> &host) {
  for (auto &feature : host)
    if (feature.getKey().starts_with("amx"))
      feature.second = false;
}

static void describeX86(TargetDescription &t,
                        const llvm::StringMap<bool> &host) {
  auto has = [&](const char *name) { return host.lookup(name); };
  t.features = x86Features(t.arch, host);
  for (const char *name :
       {"amx-tile", "amx-bf16", "amx-int8", "avx512bf16", "avx512f", "avx512bw",
        "avx512dq", "avx512vl", "avx2", "fma", "f16c"})
    if (has(name))
      t.capabilities.push_back(name);
  bool avx512 = has("avx512f") && has("avx512vl");
  bool avx2 = has("avx2") && has("fma");
  t.simdBits = avx512 ? 512 : avx2 ? 256 : 128;
  t.simdRegisters = avx512 ? 32 : 16;
  t.cacheBytesPerCycle = 32;
  CorePorts ports = x86Ports(t.arch, avx512, avx2);
  int64_t lanes = t.simdBits / 32;
  // One 16x16x32 product in 16 cycles.
  if (has("amx-bf16") && has("amx-tile"))
    t.matrixUnits.push_back({"amx", "bf16", 16, 16, 32, 512});
  if (avx512 && has("avx512bf16"))
    t.matrixUnits.push_back({"dot", "bf16", 1, lanes, 2, ports.bf16DotMacs});
  t.matrixUnits.push_back({"fma", "f32", 1, lanes, 1, ports.f32Macs});
  t.matrixUnits.push_back({"fma", "f64", 1, lanes / 2, 1, ports.f32Macs / 2});
  t.exp2Per64Cycles = ports.exp2Per64Cycles;
}

static void describeAArch64(TargetDescription &t,
                            const llvm::StringMap<bool> &host) {
  std::set<std::string> flags = {"+neon"};
  for (const auto &feature : host)
    if (feature.getValue())
      flags.insert("+" + feature.getKey().str());
  t.features = llvm::join(flags, ",");
  t.simdBits = 128;
  t.simdRegisters = 32;
  t.cacheBytesPerCycle = 32;
  // Two pipes are the least; Apple's and the Neoverse V cores have four.
  bool isWide = llvm::StringRef(t.arch).starts_with("apple") ||
                llvm::StringRef(t.arch).starts_with("neoverse-v");
  int64_t macs = isWide ? 16 : 8;
  if (host.lookup("bf16")) {
    t.capabilities.push_back("bf16");
    t.matrixUnits.push_back({"dot", "bf16", 1, 4, 2, 2 * macs});
  }
  t.capabilities.push_back("neon");
  t.matrixUnits.push_back({"fma", "f32", 1, 4, 1, macs});
  t.matrixUnits.push_back({"fma", "f64", 1, 2, 1, macs / 2});
  t.exp2Per64Cycles = isWide ? 93 : 46;
}

TargetDescription attn::detectHostTarget() {
  TargetDescription t;
  t.name = "cpu";
  t.family = "cpu";
  t.arch = llvm::sys::getHostCPUName().str();
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  llvm::Triple triple(llvm::sys::getProcessTriple());
  if (triple.isX86()) {
    if (!grantsTileRegisters())
      withholdTileRegisters(host);
    describeX86(t, host);
  } else if (triple.isAArch64()) {
    describeAArch64(t, host);
  } else {
    t.simdBits = 128;
    t.simdRegisters = 32;
    t.matrixUnits = {{"fma", "f32", 1, 4, 1, 4}, {"fma", "f64", 1, 2, 1, 2}};
    t.exp2Per64Cycles = 23;
  }
  t.computeUnits =
      std::max(1u, llvm::hardware_concurrency().compute_thread_count());
  t.clockMHz = clockMHz();
  t.scratchBytes = cacheSize(1);
  t.cacheBytes = cacheSize(2);
  t.lastLevelBytes = cacheSize(3);
  // No interface tells the bandwidth. A core rarely draws more than this, and
  // a socket saturates.
  t.bandwidthMBps = std::min<int64_t>(12000 * t.computeUnits, 300000);
  t.source = "host: features from LLVM, caches and clock from the operating "
             "system, bandwidth assumed 12 GB/s a core";
  return t;
}
