//===- QuerySum.cpp - Main memory that the kernels share ------------------===//

#include "../Common/TaskLoop.h"
#include "GradientKernels.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static constexpr int64_t kNumberBytes = 4;

/// Of a tile: one for each warp of the consumers.
static constexpr int64_t kTurns = 8,
                         kTurnsBytes = kTurns * Workspace::kTurnBytes;
/// The counter, in whole units of 16 bytes.
static constexpr int64_t kCounterBytes = 16;

FailureOr<std::string> Workspace::bytes(const WarpgroupForm &form) {
  FailureOr<std::string> tiles = countTasks(form.rows.tasks);
  if (failed(tiles))
    return failure();
  int64_t numbers = QuerySum(form).elements() + 2 * form.blockQuery;
  int64_t bytes = numbers * kNumberBytes;
  if (!form.isOrdered())
    return *tiles + " * " + std::to_string(bytes);
  return *tiles + " * " + std::to_string(bytes + kTurnsBytes) + " + " +
         std::to_string(kTurnsBytes + kCounterBytes);
}

Workspace::Workspace(GpuEmitter &e, const WarpgroupForm &form,
                     const KernelOutline &outline)
    : e(e), sum(form), blockQuery(form.blockQuery),
      sizes(taskSizes(e, form.rows.tasks, outline)) {
  base = memref::ExtractAlignedPointerAsIndexOp::create(e.b, e.loc,
                                                        outline.workspace);
  tiles = e.mul(e.mul(e.toIndex(sizes[0]), e.toIndex(sizes[1])),
                e.toIndex(sizes[2]));
}

Value Workspace::tile(Value batch, Value head, Value block) {
  return e.add(e.mul(e.add(e.mul(batch, sizes[1]), head), sizes[2]), block);
}

/// `before` and `size` count f32 numbers of each tile.
Value Workspace::at(Value tile, int64_t before, int64_t size) {
  Value offset = e.mul(e.toIndex(tile), size * kNumberBytes);
  if (before != 0)
    offset = e.add(offset, e.mul(tiles, before * kNumberBytes));
  return arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(),
                                    e.add(base, offset));
}

Value Workspace::turns(Value tile) {
  return at(tile, sum.elements() + 2 * blockQuery, kTurns);
}
Value Workspace::querySum(Value tile) { return at(tile, 0, sum.elements()); }
Value Workspace::reference(Value tile) {
  return at(tile, sum.elements(), blockQuery);
}
Value Workspace::delta(Value tile) {
  return at(tile, sum.elements() + blockQuery, blockQuery);
}
