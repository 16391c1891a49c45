//===- Cpu.cpp - Known CPUs -----------------------------------------------===//
//
// Named instruction sets with the numbers of a common core that has them. The
// host's own numbers are in HostCpu.cpp.
//
// exp2_per_64_cycles is counted, where no measurement is named, from a
// polynomial of degree 5: eleven vector operations on the ports that take
// them.
//
//===----------------------------------------------------------------------===//

#include "Vendors.h"

using namespace attn;

static TargetDescription cpu(const char *name, const char *arch,
                             const char *features,
                             std::vector<std::string> capabilities) {
  TargetDescription t;
  t.name = name;
  t.family = "cpu";
  t.arch = arch;
  t.features = features;
  t.capabilities = std::move(capabilities);
  return t;
}

/// Haswell to Comet Lake, four cores. Caches and ports: Intel 64 and IA-32
/// Architectures Optimization Reference Manual (248966).
static TargetDescription avx2() {
  TargetDescription t =
      cpu("cpu:avx2", "x86-64-v3", "+avx2,+fma,+f16c", {"avx2", "fma", "f16c"});
  t.matrixUnits = {{"fma", "f32", 1, 8, 1, 16}, {"fma", "f64", 1, 4, 1, 8}};
  t.computeUnits = 4;
  t.clockMHz = 3500;
  t.simdBits = 256;
  t.simdRegisters = 16;
  t.scratchBytes = 32 << 10;
  t.cacheBytes = 256 << 10;
  t.cacheBytesPerCycle = 32;
  t.lastLevelBytes = 8 << 20;
  t.bandwidthMBps = 34100; // two channels of DDR4-2133
  t.exp2Per64Cycles = 93;
  t.source = "Intel optimization manual 248966: Skylake client, 4 cores";
  return t;
}

/// Skylake-SP and later Xeons without AMX: two 512-bit ports, 1 MiB of L2.
static TargetDescription avx512() {
  TargetDescription t = cpu(
      "cpu:avx512", "x86-64-v4",
      "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+avx2,+fma,+f16c",
      {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"});
  t.matrixUnits = {{"fma", "f32", 1, 16, 1, 32}, {"fma", "f64", 1, 8, 1, 16}};
  t.computeUnits = 16;
  t.clockMHz = 2500;
  t.simdBits = 512;
  t.simdRegisters = 32;
  t.scratchBytes = 32 << 10;
  t.cacheBytes = 1 << 20;
  t.cacheBytesPerCycle = 48;   // sustained, of a peak of 64
  t.lastLevelBytes = 22 << 20; // 1.375 MiB a core
  t.bandwidthMBps = 128000;    // six channels of DDR4-2666
  t.exp2Per64Cycles = 186;
  t.source = "Intel optimization manual 248966: Skylake server, 16 cores";
  return t;
}

/// Zen 4, eight cores: each 512-bit operation takes both 256-bit halves of a
/// port. Software Optimization Guide for the AMD Zen4 Microarchitecture
/// (57647). Peaks measured: f32 124 GFLOP/s and bf16
/// dot products 233 a core, exp2 1.6 ns for 16 lanes.
static TargetDescription avx512bf16() {
  TargetDescription t = avx512();
  t.name = "cpu:avx512-bf16";
  t.features += ",+avx512bf16";
  t.capabilities.insert(t.capabilities.begin(), "avx512bf16");
  t.matrixUnits = {{"dot", "bf16", 1, 16, 2, 32},
                   {"fma", "f32", 1, 16, 1, 16},
                   {"fma", "f64", 1, 8, 1, 8}};
  t.computeUnits = 8;
  t.clockMHz = 3900;
  t.cacheBytesPerCycle = 32;
  t.lastLevelBytes = 32 << 20;
  t.bandwidthMBps = 83200; // two channels of DDR5-5200
  t.exp2Per64Cycles = 165;
  t.source = "AMD optimization guide 57647: Zen 4, 8 cores; peaks measured";
  return t;
}

/// Sapphire Rapids, 32 cores. TDPBF16PS retires 16x16x32 multiply-adds in 16
/// cycles; VDPBF16PS does half the multiply-adds of the f32 instruction there
/// (measured on Emerald Rapids, two cores: 161 against 322 GFLOP/s), so
/// widening beats it.
static TargetDescription amx() {
  TargetDescription t = avx512();
  t.name = "cpu:amx";
  t.arch = "x86-64-v4"; // not "sapphirerapids", which asks for enqcmd too
  t.features += ",+avx512bf16,+amx-tile,+amx-bf16,+amx-int8";
  t.capabilities.insert(t.capabilities.begin(),
                        {"amx-tile", "amx-bf16", "amx-int8", "avx512bf16"});
  t.matrixUnits = {{"amx", "bf16", 16, 16, 32, 512},
                   {"dot", "bf16", 1, 16, 2, 16},
                   {"fma", "f32", 1, 16, 1, 32},
                   {"fma", "f64", 1, 8, 1, 16}};
  t.computeUnits = 32;
  t.scratchBytes = 48 << 10;
  t.cacheBytes = 2 << 20;
  t.lastLevelBytes = 60 << 20;
  t.bandwidthMBps = 307200; // eight channels of DDR5-4800
  t.source = "Intel optimization manual 248966: Sapphire Rapids, 32 cores";
  return t;
}

/// Neoverse N1, and what any ARMv8-A core runs: two 128-bit pipes (Arm Neoverse
/// N1 Software Optimization Guide).
static TargetDescription neon() {
  TargetDescription t = cpu("cpu:neon", "generic", "+neon", {"neon"});
  t.matrixUnits = {{"fma", "f32", 1, 4, 1, 8}, {"fma", "f64", 1, 2, 1, 4}};
  t.computeUnits = 16;
  t.clockMHz = 2500;
  t.simdBits = 128;
  t.simdRegisters = 32;
  t.scratchBytes = 64 << 10;
  t.cacheBytes = 1 << 20;
  t.cacheBytesPerCycle = 32;
  t.lastLevelBytes = 32 << 20;
  t.bandwidthMBps = 204800; // eight channels of DDR4-3200
  t.exp2Per64Cycles = 46;
  t.source = "Arm Neoverse N1 Software Optimization Guide; 16 cores, server "
             "caches and memory assumed";
  return t;
}

/// Neoverse N2: BFDOT on both pipes (Arm Neoverse N2 Software Optimization
/// Guide).
static TargetDescription neonBf16() {
  TargetDescription t = neon();
  t.name = "cpu:neon-bf16";
  t.features = "+neon,+fullfp16,+bf16";
  t.capabilities = {"bf16", "fullfp16", "neon"};
  t.matrixUnits.insert(t.matrixUnits.begin(), {"dot", "bf16", 1, 4, 2, 16});
  t.clockMHz = 2700;
  t.source = "Arm Neoverse N2 Software Optimization Guide; 16 cores, server "
             "caches and memory assumed";
  return t;
}

void attn::planner::addCpuTargets(Targets &targets) {
  targets.insert(targets.end(),
                 {avx2(), avx512(), avx512bf16(), amx(), neon(), neonBf16()});
}
