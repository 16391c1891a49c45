//===- Epilogue.cpp - Output and lse --------------------------------------===//
//
// The output leaves through the query stage that its rows came by: every
// warpgroup reads and overwrites its own 64 rows of it. Threads store pairs of
// columns in the 128-byte swizzle (eight rows of a warp fall on different
// banks). When all warps have, a thread of the producer's warpgroup issues the
// copy, by TMA, which leaves out rows and columns past the end, and lets the
// stage go once the copy has read it: no consumer waits for that.
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

LogicalResult hopper::storeToShared(GpuEmitter &e, AccumulatorLayout &layout,
                                    Value tile, Value address, int64_t rows,
                                    Value inGroup) {
  // Row r of a chunk has its 16-byte unit u at u ^ (r mod 8).
  Value lane = e.bitAnd(inGroup, 31);
  Value row = e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4));
  Value line = e.add(e.add(address, e.mul(row, kChunkRowBytes)),
                     e.mul(e.bitAnd(lane, 3), 4));
  Value phase = e.bitAnd(row, 7);
  return layout.forEachPair(
      tile, cast<VectorType>(tile.getType()).getDimSize(1),
      [&](int64_t group, int64_t half, Value pair) {
        Value bits = vector::BitCastOp::create(
            e.b, e.loc, VectorType::get(1, e.b.getI32Type()), pair);
        bits = vector::ExtractOp::create(e.b, e.loc, bits, 0);
        Value unit = e.bitXor(phase, e.i32(group % 8));
        int64_t chunk = group / 8 * rows * kChunkRowBytes;
        Value at = e.add(e.add(line, e.mul(unit, 16)),
                         chunk + half * 8 * kChunkRowBytes);
        e.ptx("st.shared.b32 [$0], $1;", "r,r,~{memory}", {at, bits});
      });
}

static LogicalResult storeLse(Consumer &c, ConsumerTask &task) {
  GpuEmitter &e = c.thread.e;
  TiledForm &form = c.thread.kernel.form;
  FailureOr<RowPair> values = task.layout.rows(form.lse.getVector());
  if (failed(values))
    return failure();
  Value view = task.scalars.lookup(form.lse.getBase());
  Value firstRow = task.scalars.lookupOrDefault(form.lse.getIndices()[0]);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  for (int64_t half : {0, 1}) {
    Value row = e.add(firstRow, task.layout.rowOf(half));
    Value isReal =
        arith::AndIOp::create(e.b, e.loc, c.isRowLeader, e.less(row, length));
    e.branch(isReal, [&]() {
      memref::StoreOp::create(e.b, e.loc, (*values)[half], view, row);
    });
  }
  return success();
}

LogicalResult hopper::emitEpilogue(Consumer &c, ConsumerTask &task) {
  GpuEmitter &e = c.thread.e;
  const HopperKernel &kernel = c.thread.kernel;
  if (kernel.form.lse && failed(storeLse(c, task)))
    return failure();
  if (failed(storeToShared(e, task.layout, kernel.form.output.getVector(),
                           task.queryAddress, kernel.form.blockQuery,
                           c.inGroup)))
    return failure();
  fenceAsyncProxy(e);
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  kernel.outputRing.fill(e, c.thread.shared, task.querySlot, c.isWarpLeader);
  return success();
}

void hopper::emitOutputCopies(Thread &thread) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  TiledForm &form = kernel.form;
  TaskOrder order(thread);
  e.loop(e.i32(0), order.rounds(), e.i32(1), {}, [&](Value round, ValueRange) {
    Slot slot = kernel.outputRing.slot(e, round);
    kernel.outputRing.waitFull(e, thread.shared, slot);
    IRMapping scalars = order.enter(order.read(slot));
    Value firstRow =
        e.toI32(scalars.lookupOrDefault(form.output.getIndices()[0]));
    Value address = kernel.outputRing.address(e, thread.shared, slot);
    kernel.output.store(e, thread.outline.tensorMaps[OutputMap], scalars,
                        firstRow, address);
    NVVM::CpAsyncBulkCommitGroupOp::create(e.b, e.loc);
    NVVM::CpAsyncBulkWaitGroupOp::create(e.b, e.loc, 0, e.b.getUnitAttr());
    kernel.queryRing.release(e, thread.shared, slot, e.equals(e.i32(0), 0));
    return SmallVector<Value>();
  });
}
