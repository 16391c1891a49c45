//===- Nvidia.cpp - Known NVIDIA GPUs -------------------------------------===//
//
// Sources. Shared memory, registers and threads: CUDA C++ Programming Guide,
// table "Technical Specifications per Compute Capability". Exponentials and
// f32/f64 multiply-adds: the same guide, table "Throughput of Native
// Arithmetic Instructions". Units, clocks, tensor rates, L2 and bandwidth:
// A100, H100 and Blackwell architecture whitepapers. L2 reads 5120 bytes a
// clock (A100 whitepaper), shared by the units.
//
//===----------------------------------------------------------------------===//

#include "Vendors.h"

using namespace attn;

/// `ptx` is the version of the language, as a feature of LLVM's: the oldest
/// that has the chip's instructions is the one that most drivers take.
static TargetDescription cuda(const char *name, const char *arch,
                              const char *ptx) {
  TargetDescription t;
  t.name = name;
  t.family = "cuda";
  t.arch = arch;
  t.features = ptx;
  t.subgroupSize = 32;
  t.registersPerUnit = 65536;
  t.registersPerThread = 255;
  t.maxWorkgroupThreads = 1024;
  t.exp2Per64Cycles = 16 * 64;
  return t;
}

static void addTensorUnit(TargetDescription &t, const char *kind, int64_t m,
                          int64_t n, int64_t macs) {
  for (const char *type : {"bf16", "f16"})
    t.matrixUnits.push_back({kind, type, m, n, 16, macs});
}

static void addLaneUnits(TargetDescription &t, int64_t f32Macs,
                         int64_t f64Macs) {
  t.matrixUnits.push_back({"fma", "f32", 1, 1, 1, f32Macs});
  t.matrixUnits.push_back({"fma", "f64", 1, 1, 1, f64Macs});
}

/// A100 SXM, 40 GB: 108 multiprocessors, 312 TFLOP/s at 1410 MHz.
static TargetDescription sm80() {
  TargetDescription t = cuda("sm_80", "sm_80", "+ptx80");
  t.capabilities = {"mma", "ldmatrix", "cp.async"};
  addTensorUnit(t, "mma", 16, 8, 1024);
  addLaneUnits(t, 64, 32);
  t.computeUnits = 108;
  t.clockMHz = 1410;
  t.scratchBytes = 163 << 10;
  t.unitScratchBytes = 164 << 10;
  t.cacheBytes = 40 << 20;
  t.cacheBytesPerCycle = 47;
  t.bandwidthMBps = 1555000;
  t.source = "NVIDIA A100 whitepaper (SXM, 40 GB), CUDA programming guide";
  return t;
}

/// H100 SXM: 132 multiprocessors, 989 TFLOP/s at 1830 MHz. mma.sync reaches
/// about half of what wgmma does.
static TargetDescription sm90a() {
  TargetDescription t = cuda("sm_90a", "sm_90a", "+ptx86");
  t.capabilities = {"wgmma", "tma",      "setmaxnreg", "stmatrix",
                    "mma",   "ldmatrix", "cp.async"};
  addTensorUnit(t, "wgmma", 64, 256, 2048);
  addTensorUnit(t, "mma", 16, 8, 1024);
  addLaneUnits(t, 128, 64);
  t.computeUnits = 132;
  t.clockMHz = 1830;
  t.scratchBytes = 227 << 10;
  t.unitScratchBytes = 228 << 10;
  t.cacheBytes = 50 << 20;
  t.cacheBytesPerCycle = 38;
  t.bandwidthMBps = 3350000;
  t.source = "NVIDIA H100 whitepaper (SXM), CUDA programming guide";
  return t;
}

/// Measured on one H200 (bf16 product 8192^3: 794 TFLOP/s, device copy 4.29
/// TB/s): under load the power limit holds the clock near 1470 MHz.
static TargetDescription h200() {
  TargetDescription t = sm90a();
  t.name = "h200";
  t.clockMHz = 1470;
  t.bandwidthMBps = 4290000;
  t.source = "NVIDIA H100 whitepaper, H200 data sheet; clock and bandwidth "
             "measured under load";
  return t;
}

/// B200: 148 multiprocessors, 2.25 PFLOP/s dense bf16. Tensor memory: PTX ISA,
/// section "Tensor Memory", 128 lanes x 512 columns of 4 bytes.
static TargetDescription sm100a() {
  TargetDescription t = cuda("sm_100a", "sm_100a", "+ptx88");
  t.capabilities = {"tcgen05", "tma",      "setmaxnreg", "stmatrix",
                    "mma",     "ldmatrix", "cp.async"};
  addTensorUnit(t, "tcgen05", 128, 256, 4096);
  addTensorUnit(t, "mma", 16, 8, 1024);
  addLaneUnits(t, 128, 64);
  t.computeUnits = 148;
  t.clockMHz = 1850;
  t.scratchBytes = 227 << 10;
  t.unitScratchBytes = 228 << 10;
  t.matrixMemoryBytes = 256 << 10;
  t.cacheBytes = 126 << 20;
  t.cacheBytesPerCycle = 35;
  t.bandwidthMBps = 8000000;
  t.source = "NVIDIA Blackwell architecture brief (B200), CUDA programming "
             "guide, PTX ISA; L2 rate assumed as on H100";
  return t;
}

void attn::planner::addNvidiaTargets(Targets &targets) {
  targets.insert(targets.end(), {sm80(), sm90a(), h200(), sm100a()});
}
