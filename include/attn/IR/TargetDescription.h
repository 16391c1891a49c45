//===- TargetDescription.h - A chip as data ---------------------*- C++ -*-===//
//
// The numbers that the planner reads and the capabilities that the back ends
// ask for. `#attn.target<...>` carries one of these in the IR. Emitting an
// instruction is code; having it is data.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_IR_TARGETDESCRIPTION_H
#define ATTN_IR_TARGETDESCRIPTION_H

#include <cstdint>
#include <string>
#include <vector>

namespace attn {

/// One way the chip multiplies tiles. `kind` is the name the back end knows:
/// "fma" (vector multiply-add), "dot" (pairs or quads into f32), "amx",
/// "mma" (mma.sync), "wgmma", "tcgen05", "coopmat" (KHR cooperative matrix).
struct MatrixUnit {
  std::string kind;
  /// Element type of the factors: "f32", "f64", "f16", "bf16", "i8".
  std::string type;
  /// The native tile, rows of A x columns of B x depth.
  int64_t m = 0, n = 0, k = 0;
  /// Multiply-adds that one compute unit retires in a cycle.
  int64_t macsPerCycle = 0;

  bool operator==(const MatrixUnit &o) const {
    return kind == o.kind && type == o.type && m == o.m && n == o.n &&
           k == o.k && macsPerCycle == o.macsPerCycle;
  }
};

/// A chip. Zero means "not known" or "has none"; sizes are bytes.
struct TargetDescription {
  /// The name that --target takes, for example "cpu:avx512" or "h200".
  std::string name;
  /// "cpu", "cuda" or "vulkan": which back end maps the tiled form.
  std::string family;
  /// What the code generator is told: an LLVM CPU ("x86-64-v4"), "sm_90a", or
  /// a SPIR-V environment ("vulkan1.1").
  std::string arch;
  /// LLVM target features, for example "+avx512f,+fma"; CPU only.
  std::string features;
  /// Instruction families by name: "tma", "ldmatrix", "subgroup_reduce", ...
  std::vector<std::string> capabilities;
  std::vector<MatrixUnit> matrixUnits;
  /// Where the elements of a cooperative matrix are expected to lie, of
  /// accumulators and left sides alike: what each bit of an element's number
  /// within its lane, then each bit of the lane, adds to the element's place
  /// (row * columns + column). Kernels ask the device whether that is so, and
  /// do without where it is not. Empty: nothing is known.
  std::vector<int64_t> matrixLayout;

  /// Cores or multiprocessors, and their sustained clock.
  int64_t computeUnits = 0;
  int64_t clockMHz = 0;
  /// Width of a SIMD register (CPU), and how many a thread has.
  int64_t simdBits = 0;
  int64_t simdRegisters = 0;
  /// Lanes that run together (GPU). 0: must not be assumed.
  int64_t subgroupSize = 0;
  /// 32-bit registers of a compute unit and of one thread (GPU).
  int64_t registersPerUnit = 0;
  int64_t registersPerThread = 0;
  int64_t maxWorkgroupThreads = 0;
  /// The explicitly managed memory a workgroup may take (GPU, NPU), or the L1
  /// data cache (CPU).
  int64_t scratchBytes = 0;
  /// The explicitly managed memory of a compute unit, which the workgroups
  /// resident on it share. 0: no more than one workgroup may count on it.
  int64_t unitScratchBytes = 0;
  /// Memory of the matrix unit that holds accumulators in place of registers
  /// ("tensor memory" of tcgen05).
  int64_t matrixMemoryBytes = 0;
  /// Private second-level cache of a unit (CPU), or the chip's L2 (GPU).
  int64_t cacheBytes = 0;
  /// Bytes that one unit reads from that cache in a cycle.
  int64_t cacheBytesPerCycle = 0;
  /// The last-level cache that all units share (CPU).
  int64_t lastLevelBytes = 0;
  /// Main-memory bandwidth in MB/s.
  int64_t bandwidthMBps = 0;
  /// Exponentials that one compute unit retires in 64 cycles.
  int64_t exp2Per64Cycles = 0;
  /// Where the numbers come from.
  std::string source;

  /// Calls `visit(name, field)` for every field, in the order of printing.
  template <typename Self, typename Visitor>
  static void visitFields(Self &self, Visitor &&visit) {
    visit("name", self.name);
    visit("family", self.family);
    visit("arch", self.arch);
    visit("features", self.features);
    visit("capabilities", self.capabilities);
    visit("matrix_units", self.matrixUnits);
    visit("matrix_layout", self.matrixLayout);
    visit("compute_units", self.computeUnits);
    visit("clock_mhz", self.clockMHz);
    visit("simd_bits", self.simdBits);
    visit("simd_registers", self.simdRegisters);
    visit("subgroup_size", self.subgroupSize);
    visit("registers_per_unit", self.registersPerUnit);
    visit("registers_per_thread", self.registersPerThread);
    visit("max_workgroup_threads", self.maxWorkgroupThreads);
    visit("scratch_bytes", self.scratchBytes);
    visit("unit_scratch_bytes", self.unitScratchBytes);
    visit("matrix_memory_bytes", self.matrixMemoryBytes);
    visit("cache_bytes", self.cacheBytes);
    visit("cache_bytes_per_cycle", self.cacheBytesPerCycle);
    visit("last_level_bytes", self.lastLevelBytes);
    visit("bandwidth_mbps", self.bandwidthMBps);
    visit("exp2_per_64_cycles", self.exp2Per64Cycles);
    visit("source", self.source);
  }

  bool has(const std::string &capability) const {
    for (const std::string &c : capabilities)
      if (c == capability)
        return true;
    return false;
  }
  const MatrixUnit *findMatrixUnit(const std::string &kind,
                                   const std::string &type) const {
    for (const MatrixUnit &unit : matrixUnits)
      if (unit.kind == kind && unit.type == type)
        return &unit;
    return nullptr;
  }
  bool operator==(const TargetDescription &o) const;
};

/// The decision of the planner: `#attn.tiling<...>`. Written once by
/// attn-select-tiling; every later pass reads it and none decides again.
struct Tiling {
  /// Br: query rows of a tile. Bc: keys of a block.
  int64_t blockQuery = 0;
  int64_t blockKey = 0;
  /// Key/value blocks in flight (GPU). 1: no copy runs ahead.
  int64_t stages = 1;
  /// Query tiles in flight (GPU): 2 lets the next tile load during this one.
  int64_t queryStages = 1;
  /// Warps, subgroups or warpgroups that share a query tile; 1 on a CPU. They
  /// split its rows; where a native tile is too tall for that (block_query <
  /// groups x its rows) they also split the columns of the accumulator.
  int64_t groups = 1;
  /// The matrix unit by its `kind`, see MatrixUnit.
  std::string product = "fma";
  /// The register tile of one product (CPU): rows x columns of elements.
  int64_t registerRows = 0;
  int64_t registerColumns = 0;
  /// Keys (and where the product needs it, values) are copied once per head
  /// into the order that the product reads (CPU).
  bool pack = false;
  /// What is subtracted from the scores of a row: their running maximum
  /// ("exact"), or a reference that follows it when it has grown by more than a
  /// bound ("conditional"), when a row sum leaves a bound ("stale"), or, being
  /// raised above it, when a probability exceeds 1; then the sum of a row is
  /// that of the probabilities as they were rounded ("raised", for bf16).
  std::string softmax = "exact";
  /// Of a backward, how the gradient of the query comes about: by a loop nest
  /// of its own, which computes the scores again ("recomputed", deterministic),
  /// or added up in main memory by the nest over key blocks, in any order
  /// ("accumulated") or in one ("ordered"). Empty of a forward.
  std::string queryGradient;

  template <typename Self, typename Visitor>
  static void visitFields(Self &self, Visitor &&visit) {
    visit("block_query", self.blockQuery);
    visit("block_key", self.blockKey);
    visit("stages", self.stages);
    visit("query_stages", self.queryStages);
    visit("groups", self.groups);
    visit("product", self.product);
    visit("register_rows", self.registerRows);
    visit("register_columns", self.registerColumns);
    visit("pack", self.pack);
    visit("softmax", self.softmax);
    visit("query_gradient", self.queryGradient);
  }
  bool operator==(const Tiling &o) const;
};

} // namespace attn

#endif // ATTN_IR_TARGETDESCRIPTION_H
