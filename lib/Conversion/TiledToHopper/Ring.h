//===- Ring.h - Stages of shared memory in turn -----------------*- C++ -*-===//
//
// A ring is a number of stages that the producer fills and the consumers
// empty, with two mbarriers a stage: "full" completes when the bytes of the
// stage have arrived, "empty" when every consumer has let go of it. The n-th
// use of a ring is stage n mod stages, and its barriers' phase is the parity
// of n div stages; so one counter tells all.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_RING_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_RING_H

#include "../Common/GpuEmitter.h"

namespace attn::hopper {

/// One use of a ring: i32 stage and phase.
struct Slot {
  mlir::Value stage, phase;
};

struct Ring {
  int64_t stages = 0, stageBytes = 0;
  /// Byte offsets in shared memory: the tiles, and the barriers (full ones,
  /// then empty ones, 8 bytes each).
  int64_t tiles = 0, barriers = 0;
  /// Bytes that arrive with those of the stage and lie elsewhere.
  int64_t besideBytes = 0;
  /// Arrivals that fill a stage, and that empty it.
  int64_t producers = 1, consumers = 1;

  int64_t barrierBytes() const { return 16 * stages; }

  Slot slot(GpuEmitter &e, mlir::Value use) const;
  /// Byte address of the stage.
  mlir::Value address(GpuEmitter &e, mlir::Value shared,
                      const Slot &slot) const;
  /// Byte addresses of its barriers.
  mlir::Value fullBarrier(GpuEmitter &e, mlir::Value shared,
                          const Slot &slot) const;
  mlir::Value emptyBarrier(GpuEmitter &e, mlir::Value shared,
                           const Slot &slot) const;

  void initialize(GpuEmitter &e, mlir::Value shared) const;
  void waitFull(GpuEmitter &e, mlir::Value shared, const Slot &slot) const;
  void waitEmpty(GpuEmitter &e, mlir::Value shared, const Slot &slot) const;
  /// Announces the bytes to come.
  void expect(GpuEmitter &e, mlir::Value shared, const Slot &slot) const;
  /// Says, in the threads where `isOne` (i1) holds, that their part of the
  /// stage is filled, or that they let go of it.
  void fill(GpuEmitter &e, mlir::Value shared, const Slot &slot,
            mlir::Value isOne) const;
  void release(GpuEmitter &e, mlir::Value shared, const Slot &slot,
               mlir::Value isOne) const;
};

/// A shared-memory pointer from a byte address.
mlir::Value sharedPointer(GpuEmitter &e, mlir::Value address);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_RING_H
