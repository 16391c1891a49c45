//===- Npu.cpp - Profiles of NPUs -----------------------------------------===//
//
// A matrix unit beside a vector unit and a scratchpad that software fills by
// DMA. A matrix unit whose accumulators live in the scratchpad, and are no
// subgroup's, has no mapping: kernels multiply by the vector unit, in f32. A
// driver that takes SPIR-V for such a chip is rare.
//
//===----------------------------------------------------------------------===//

#include "Vendors.h"

using namespace attn;

static TargetDescription npu(const char *name) {
  TargetDescription t;
  t.name = name;
  t.family = "vulkan";
  t.arch = "vulkan1.3";
  return t;
}

/// No chip in particular: 256 KiB of scratchpad, 16x16x16 products.
static TargetDescription generic() {
  TargetDescription t = npu("npu");
  for (const char *type : {"f16", "bf16"})
    t.matrixUnits.push_back({"coopmat", type, 16, 16, 16, 512});
  t.matrixUnits.push_back({"fma", "f32", 1, 1, 1, 32});
  t.computeUnits = 1;
  t.clockMHz = 1000;
  t.scratchBytes = 256 << 10;
  t.bandwidthMBps = 30000;
  t.exp2Per64Cycles = 16 * 64;
  t.source = "assumed: a small profile that most NPUs exceed";
  return t;
}

/// Meteor Lake's NPU: two tiles of 2 MiB, 4096 i8 multiply-adds a cycle in all
/// and half as many in f16, 1.16 GHz (Chips and Cheese, "Intel Meteor Lake's
/// NPU").
static TargetDescription intelNpu() {
  TargetDescription t = npu("npu:intel");
  t.matrixUnits = {{"coopmat", "f16", 16, 16, 16, 1024},
                   {"fma", "f32", 1, 1, 1, 16}};
  t.computeUnits = 2;
  t.clockMHz = 1160;
  t.scratchBytes = 2 << 20;
  t.bandwidthMBps = 60000;
  t.exp2Per64Cycles = 16 * 64;
  t.source = "Chips and Cheese on Meteor Lake's NPU; vector unit and half of "
             "the memory bandwidth assumed";
  return t;
}

/// AMD XDNA (Phoenix): sixteen tiles of 64 KiB, 4x8x4 in bf16 at 128
/// multiply-adds a cycle (AMD AI Engine-ML architecture manual AM020;
/// scalable.uni-jena.de, "Hello XDNA": 398 GFLOP/s are 86 % of a tile's peak).
static TargetDescription xdna() {
  TargetDescription t = npu("npu:xdna");
  t.matrixUnits = {{"coopmat", "bf16", 4, 4, 8, 128},
                   {"fma", "f32", 1, 1, 1, 8}};
  t.computeUnits = 16;
  t.clockMHz = 1800;
  t.scratchBytes = 64 << 10;
  t.bandwidthMBps = 60000;
  t.exp2Per64Cycles = 4 * 64;
  t.source = "AMD AM020, uni-jena on XDNA; vector unit and bandwidth assumed";
  return t;
}

void attn::planner::addNpuTargets(Targets &targets) {
  targets.insert(targets.end(), {generic(), intelNpu(), xdna()});
}
