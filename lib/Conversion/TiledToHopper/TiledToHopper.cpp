//===- TiledToHopper.cpp - The tiled form on warpgroups of Hopper ---------===//
//
// One block of threads for each multiprocessor, persistent:
//
//   warpgroup 0       one thread copies tiles by TMA into rings of shared
//                     memory (Producer), another the output out of it
//                     (Epilogue); where masks hide whole blocks, a warp looks
//                     for those that are left (BlockSearch), another at the
//                     values of keys that no row sees (ValueInspection)
//   warpgroups 1 ..   64 query rows each: S = Q K from shared memory, softmax
//                     in registers, acc += P V with P in registers (Consumer)
//
// Which loads feed which product is what the roles of the tiled form say; the
// scalars around them (bounds, positions, conditions) are cloned into both
// halves. Registers move from the producer to the consumers by setmaxnreg.
//
// Precondition: tiles that TMA and wgmma take, see HopperKernel::plan.
//
//===----------------------------------------------------------------------===//

#include "../Common/TaskLoop.h"
#include "HopperKernel.h"
#include "Wgmma.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn {
#define GEN_PASS_DEF_TILEDTOHOPPER
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// The same value in all lanes, so that what follows from it is uniform.
static Value broadcastFirstLane(GpuEmitter &e, Value value) {
  return NVVM::ShflOp::create(e.b, e.loc, value.getType(), e.i32(-1), value,
                              e.i32(0), e.i32(31), NVVM::ShflKind::idx,
                              UnitAttr());
}

static void setRegisters(GpuEmitter &e, int64_t count, bool increase) {
  auto action = increase ? NVVM::SetMaxRegisterAction::increase
                         : NVVM::SetMaxRegisterAction::decrease;
  NVVM::SetMaxRegisterOp::create(e.b, e.loc, count, action);
}

/// Fills the barriers before anybody uses them.
static void initializeRings(Thread &thread) {
  GpuEmitter &e = thread.e;
  const HopperKernel &kernel = thread.kernel;
  e.branch(e.equals(thread.id, 0), [&]() {
    for (const Ring *ring :
         {&kernel.queryRing, &kernel.keyRing, &kernel.valueRing,
          &kernel.outputRing, &kernel.inspectedRing, &kernel.foundRing})
      ring->initialize(e, thread.shared);
    NVVM::FenceMbarrierInitOp::create(e.b, e.loc);
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
}

static bool emitForWarp(Thread &thread, int64_t warp,
                        function_ref<LogicalResult(Thread &)> body) {
  GpuEmitter &e = thread.e;
  bool valid = true;
  Value own = broadcastFirstLane(e, e.div(thread.id, 32));
  e.branch(e.equals(own, warp), [&]() { valid = succeeded(body(thread)); });
  return valid;
}

static LogicalResult emitKernel(TiledForm &form) {
  FailureOr<HopperKernel> kernel = HopperKernel::plan(form);
  if (failed(kernel))
    return failure();
  FailureOr<std::string> tasks = countTasks(form.tasks);
  if (failed(tasks))
    return failure();
  FailureOr<KernelOutline> outline =
      outlineKernel(form.tasks, kernel->launch(*tasks));
  if (failed(outline))
    return failure();

  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.tasks.getLoc()};
  Value id = NVVM::ThreadIdXOp::create(b, e.loc, b.getI32Type());
  Thread thread{e, *kernel, *outline, id, sharedMemory(e, outline->module)};
  if (kernel->onesAt)
    storeOnes(e, e.add(thread.shared, *kernel->onesAt), id);
  initializeRings(thread);
  Value warpgroup = broadcastFirstLane(e, e.div(id, kWarpgroup));
  bool valid = true;
  // The search for blocks needs more registers than copies do.
  bool isWide = kernel->groups >= 3, searches = kernel->searches();
  scf::IfOp::create(
      b, e.loc, e.equals(warpgroup, 0),
      [&](OpBuilder &, Location) {
        setRegisters(e, searches ? 40 : isWide ? 32 : 24, /*increase=*/false);
        e.branch(e.equals(id, 0), [&]() { emitProducer(thread); });
        e.branch(e.equals(id, 32), [&]() { emitOutputCopies(thread); });
        if (kernel->searches())
          valid = emitForWarp(thread, 2, emitSearch) &&
                  emitForWarp(thread, 3, emitInspection);
        scf::YieldOp::create(b, e.loc);
      },
      [&](OpBuilder &, Location) {
        setRegisters(e, (isWide ? 160 : 240) - (searches ? 8 : 0),
                     /*increase=*/true);
        valid &= succeeded(emitConsumer(thread, e.add(warpgroup, -1)));
        scf::YieldOp::create(b, e.loc);
      });
  if (valid)
    form.tasks->getParentOfType<func::FuncOp>().erase();
  return success(valid);
}

namespace {
struct TiledToHopper : attn::impl::TiledToHopperBase<TiledToHopper> {
  void runOnOperation() override {
    auto takes = [](TilingAttr) { return true; };
    if (failed(mapTaskLoops(getOperation(), takes, emitKernel)))
      signalPassFailure();
  }
};
} // namespace
