//===- Ring.cpp - Stages of shared memory in turn -------------------------===//

#include "Ring.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

Value hopper::sharedPointer(GpuEmitter &e, Value address) {
  constexpr unsigned kShared = 3;
  auto type = LLVM::LLVMPointerType::get(e.b.getContext(), kShared);
  return LLVM::IntToPtrOp::create(e.b, e.loc, type, address);
}

Slot Ring::slot(GpuEmitter &e, Value use) const {
  return {e.rem(use, stages), e.bitAnd(e.div(use, stages), 1)};
}

Value Ring::address(GpuEmitter &e, Value shared, const Slot &slot) const {
  return e.add(e.add(shared, e.mul(slot.stage, stageBytes)), tiles);
}

Value Ring::fullBarrier(GpuEmitter &e, Value shared, const Slot &slot) const {
  return e.add(e.add(shared, e.mul(slot.stage, 8)), barriers);
}

Value Ring::emptyBarrier(GpuEmitter &e, Value shared, const Slot &slot) const {
  return e.add(e.add(shared, e.mul(slot.stage, 8)), barriers + 8 * stages);
}

void Ring::initialize(GpuEmitter &e, Value shared) const {
  for (int64_t i = 0; i < 2 * stages; ++i) {
    Value barrier = sharedPointer(e, e.add(shared, barriers + 8 * i));
    NVVM::MBarrierInitOp::create(e.b, e.loc, barrier,
                                 e.i32(i < stages ? producers : consumers),
                                 Value());
  }
}

static void wait(GpuEmitter &e, Value barrier, Value phase) {
  constexpr int64_t kTicks = 10000000;
  NVVM::MBarrierTryWaitParityOp::create(e.b, e.loc, sharedPointer(e, barrier),
                                        phase, e.i32(kTicks));
}

void Ring::waitFull(GpuEmitter &e, Value shared, const Slot &slot) const {
  wait(e, fullBarrier(e, shared, slot), slot.phase);
}

/// A fresh barrier lets the phase before the first pass.
void Ring::waitEmpty(GpuEmitter &e, Value shared, const Slot &slot) const {
  wait(e, emptyBarrier(e, shared, slot), e.bitXor(slot.phase, e.i32(1)));
}

void Ring::expect(GpuEmitter &e, Value shared, const Slot &slot) const {
  NVVM::MBarrierArriveExpectTxOp::create(
      e.b, e.loc, Type(), sharedPointer(e, fullBarrier(e, shared, slot)),
      e.i32(stageBytes + besideBytes), NVVM::MemScopeKind::CTA,
      /*relaxed=*/false, Value());
}

static void arrive(GpuEmitter &e, Value barrier, Value isOne) {
  Value flag = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), isOne);
  e.ptx("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t"
        "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}",
        "r,r,~{memory}", {barrier, flag});
}

void Ring::fill(GpuEmitter &e, Value shared, const Slot &slot,
                Value isOne) const {
  arrive(e, fullBarrier(e, shared, slot), isOne);
}

void Ring::release(GpuEmitter &e, Value shared, const Slot &slot,
                   Value isOne) const {
  arrive(e, emptyBarrier(e, shared, slot), isOne);
}
