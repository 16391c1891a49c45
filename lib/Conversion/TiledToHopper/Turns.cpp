//===- Turns.cpp - Which warpgroup has the tensor cores -------------------===//
//
// Consumer warpgroups issue their products in turn, so that the softmax of one
// runs beside the products of another. Two meet at a named barrier: the one
// that waits for its turn, and the one that passes it on. Turns rotate; every
// warpgroup takes as many in a task, also those that have nothing to issue.
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Named barriers: 0 is the whole block's, then a turn for each warpgroup,
/// then one among the threads of each.
static Value turnBarrier(GpuEmitter &e, Value group) { return e.add(group, 1); }
static Value groupBarrier(const Consumer &c) {
  return c.thread.e.add(c.group, 1 + c.thread.kernel.groups);
}

void hopper::fenceAsyncProxy(GpuEmitter &e) {
  auto space = NVVM::SharedSpaceAttr::get(e.b.getContext(),
                                          NVVM::SharedSpace::shared_cta);
  NVVM::FenceProxyOp::create(e.b, e.loc, NVVM::ProxyKind::async_shared, space);
}

void hopper::publishToAsyncProxy(const Consumer &c) {
  GpuEmitter &e = c.thread.e;
  fenceAsyncProxy(e);
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), groupBarrier(c),
                          e.i32(kWarpgroup), {}, Value());
}

void hopper::waitTurn(const Consumer &c) {
  GpuEmitter &e = c.thread.e;
  if (c.thread.kernel.groups > 1)
    NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), turnBarrier(e, c.group),
                            e.i32(2 * kWarpgroup), {}, Value());
}

void hopper::passTurn(const Consumer &c) {
  GpuEmitter &e = c.thread.e;
  int64_t groups = c.thread.kernel.groups;
  if (groups == 1)
    return;
  Value next = e.add(c.group, 1);
  next = e.select(e.equals(next, groups), e.i32(0), next);
  NVVM::BarrierArriveOp::create(e.b, e.loc, turnBarrier(e, next),
                                e.i32(2 * kWarpgroup));
}
