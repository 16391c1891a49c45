//===- Vulkan.cpp - Known GPUs behind Vulkan and OpenCL -------------------===//
//
// `vulkan` promises only what the specification does; the others describe a
// common device of each vendor. What a driver reports (shared memory, subgroup
// size, cooperative matrices) matters for correctness and comes from Vulkan
// device reports; rates only rank tiles.
//
// registers_per_thread is what a thread may use while enough others stay
// resident to hide memory, not the largest number that compiles.
//
//===----------------------------------------------------------------------===//

#include "Vendors.h"

using namespace attn;

static TargetDescription vulkan(const char *name, const char *environment) {
  TargetDescription t;
  t.name = name;
  t.family = "vulkan";
  t.arch = environment;
  return t;
}

/// Vulkan 1.1, table "Required Limits": 16384 bytes of shared memory, 128
/// invocations. Rates are those of a middling phone.
static TargetDescription portable() {
  TargetDescription t = vulkan("vulkan", "vulkan1.1");
  t.matrixUnits = {{"fma", "f32", 1, 1, 1, 64}};
  t.computeUnits = 6;
  t.clockMHz = 800;
  t.registersPerThread = 64;
  t.maxWorkgroupThreads = 128;
  t.scratchBytes = 16 << 10;
  t.cacheBytes = 512 << 10;
  t.cacheBytesPerCycle = 32;
  t.bandwidthMBps = 30000;
  t.exp2Per64Cycles = 8 * 64;
  t.source = "Vulkan specification, required limits; rates assumed";
  return t;
}

/// Runtimes that take SPIR-V kernels of OpenCL in the place of Vulkan's: the
/// limits of the full profile (OpenCL 3.0, table of device queries), and a
/// workgroup that every driver known has. Rates as above.
static TargetDescription openCL() {
  TargetDescription t = portable();
  t.name = "opencl";
  t.arch = "opencl2.1";
  t.capabilities = {"int64"};
  t.scratchBytes = 32 << 10;
  t.source = "OpenCL 3.0 specification, full profile; rates assumed";
  return t;
}

/// KHR_cooperative_matrix as measured on an H200 behind Vulkan (driver 580):
/// 16x16x16 in f16 and bf16 at 617 TFLOP/s from registers, 48 KiB of shared
/// memory for a multiprocessor and for a workgroup alike; left sides lie in the
/// threads as accumulators do.
static TargetDescription cooperativeMatrix() {
  TargetDescription t = vulkan("vulkan-coopmat", "vulkan1.3");
  t.capabilities = {"cooperative_matrix",
                    "matrix_layout_shared",
                    "float16",
                    "bfloat16",
                    "float64",
                    "int64",
                    "subgroup_vote",
                    "subgroup_reduce"};
  t.matrixUnits = {{"coopmat", "f16", 16, 16, 16, 1280},
                   {"coopmat", "bf16", 16, 16, 16, 1280},
                   {"fma", "f32", 1, 1, 1, 128},
                   {"fma", "f64", 1, 1, 1, 64}};
  // Elements 0 to 7 of a lane: two neighbours, the same 8 columns further, the
  // same 8 rows further. Lanes: four side by side, then eight rows.
  t.matrixLayout = {1, 8, 128, 2, 4, 16, 32, 64};
  t.computeUnits = 132;
  t.clockMHz = 1755;
  t.subgroupSize = 32;
  t.registersPerUnit = 65536;
  t.registersPerThread = 255;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 48 << 10;
  t.unitScratchBytes = 48 << 10;
  t.cacheBytes = 50 << 20;
  t.cacheBytesPerCycle = 38;
  t.bandwidthMBps = 4290000;
  t.exp2Per64Cycles = 16 * 64;
  t.source = "measured on an H200, driver 580";
  return t;
}

/// Adreno 740: six shader processors, 32 KiB of shared memory (Mesa,
/// src/freedreno/common/a7xx_gpu.py), 256 f32 lanes each and one special
/// function in eight (Chips and Cheese, "The Snapdragon X Elite's Adreno
/// iGPU" and "Inside the Snapdragon 855's iGPU"), LPDDR5X-8400 on 64 bits.
static TargetDescription adreno() {
  TargetDescription t = vulkan("adreno", "vulkan1.3");
  t.capabilities = {"float16", "subgroup_vote", "subgroup_reduce"};
  t.matrixUnits = {{"fma", "f32", 1, 1, 1, 256}};
  t.computeUnits = 6;
  t.clockMHz = 680;
  t.subgroupSize = 64;
  t.registersPerThread = 96;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 32 << 10;
  t.unitScratchBytes = 32 << 10;
  t.cacheBytes = 1 << 20;
  t.cacheBytesPerCycle = 64;
  t.bandwidthMBps = 67200;
  t.exp2Per64Cycles = 32 * 64;
  t.source = "Mesa a7xx_gpu.py (FD740), Chips and Cheese on Adreno X1; L2 and "
             "clock assumed";
  return t;
}

/// Mali-G710, ten cores: warps of 16, 64 multiply-adds a core (AnandTech, "Arm
/// Announces New Mali-G710"), 64 registers at half occupancy (Arm, The Valhall
/// Shader Core), up to 2 MiB of L2. Shared memory is ordinary cached memory
/// there.
static TargetDescription mali() {
  TargetDescription t = vulkan("mali", "vulkan1.3");
  t.capabilities = {"float16", "subgroup_vote", "subgroup_reduce"};
  t.matrixUnits = {{"fma", "f32", 1, 1, 1, 64}};
  t.computeUnits = 10;
  t.clockMHz = 850;
  t.subgroupSize = 16;
  t.registersPerThread = 64;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 32 << 10;
  t.unitScratchBytes = 32 << 10;
  t.cacheBytes = 2 << 20;
  t.cacheBytesPerCycle = 32;
  t.bandwidthMBps = 60000;
  t.exp2Per64Cycles = 16 * 64;
  t.source = "AnandTech on Mali-G710, Arm Valhall shader core guide (102203), "
             "ten cores; exponentials and clock assumed, LPDDR5X-7500";
  return t;
}

/// M1, eight cores, through MoltenVK: 128 multiply-adds and 32 special
/// functions a core, 32 KiB of threadgroup memory, 384 KiB of registers
/// (github.com/philipturner/metal-benchmarks; Metal feature set tables).
static TargetDescription apple() {
  TargetDescription t = vulkan("apple", "vulkan1.2");
  t.capabilities = {"float16", "subgroup_vote", "subgroup_reduce"};
  t.matrixUnits = {{"fma", "f32", 1, 1, 1, 128}};
  t.computeUnits = 8;
  t.clockMHz = 1278;
  t.subgroupSize = 32;
  t.registersPerUnit = 98304;
  t.registersPerThread = 128;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 32 << 10;
  t.unitScratchBytes = 60 << 10;
  t.cacheBytes = 768 << 10;
  t.cacheBytesPerCycle = 64;
  t.bandwidthMBps = 68250;
  t.exp2Per64Cycles = 32 * 64;
  t.source = "philipturner/metal-benchmarks (M1), Metal feature set tables";
  return t;
}

/// Meteor Lake's Xe-LPG: eight Xe cores of 128 f32 lanes at 2.25 GHz, 4 MiB of
/// L2 (Chips and Cheese, "Intel's Ambitious Meteor Lake iGPU"), 128 registers
/// of 32 bytes a thread (Intel Graphics Programmer's Reference Manuals), no
/// matrix engine.
static TargetDescription intel() {
  TargetDescription t = vulkan("intel", "vulkan1.3");
  t.capabilities = {"float16", "subgroup_vote", "subgroup_reduce",
                    "subgroup_size_control"};
  t.matrixUnits = {{"fma", "f32", 1, 1, 1, 128}};
  t.computeUnits = 8;
  t.clockMHz = 2250;
  t.subgroupSize = 16;
  t.registersPerThread = 64;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 64 << 10;
  t.unitScratchBytes = 128 << 10;
  t.cacheBytes = 4 << 20;
  t.cacheBytesPerCycle = 64;
  t.bandwidthMBps = 119500;
  t.exp2Per64Cycles = 32 * 64;
  t.source = "Chips and Cheese on Meteor Lake's iGPU, Intel graphics PRM; "
             "bandwidth LPDDR5X-7467";
  return t;
}

/// Radeon RX 7900 XTX: 96 units, WMMA 16x16x16 in f16 and bf16 at 512 FLOP a
/// cycle (RDNA3 ISA guide; AMD, "How to accelerate AI applications on RDNA 3
/// using WMMA"), 64 KiB of LDS for a workgroup of 128 for two units.
static TargetDescription amd() {
  TargetDescription t = vulkan("amd", "vulkan1.3");
  t.capabilities = {"cooperative_matrix",
                    "float16",
                    "float64",
                    "int64",
                    "subgroup_vote",
                    "subgroup_reduce",
                    "subgroup_size_control"};
  t.matrixUnits = {{"coopmat", "f16", 16, 16, 16, 256},
                   {"coopmat", "bf16", 16, 16, 16, 256},
                   {"fma", "f32", 1, 1, 1, 64},
                   {"fma", "f64", 1, 1, 1, 2}};
  t.computeUnits = 96;
  t.clockMHz = 2500;
  t.subgroupSize = 32;
  t.registersPerUnit = 98304;
  t.registersPerThread = 255;
  t.maxWorkgroupThreads = 1024;
  t.scratchBytes = 64 << 10;
  t.unitScratchBytes = 64 << 10;
  t.cacheBytes = 6 << 20;
  t.cacheBytesPerCycle = 32;
  t.bandwidthMBps = 960000;
  t.exp2Per64Cycles = 16 * 64;
  t.source = "AMD RDNA3 ISA guide and WMMA article, RX 7900 XTX data sheet; "
             "L2 rate assumed";
  return t;
}

void attn::planner::addVulkanTargets(Targets &targets) {
  targets.insert(targets.end(), {portable(), openCL(), cooperativeMatrix(),
                                 adreno(), mali(), apple(), intel(), amd()});
}
