//===- GradientsToCPU.cpp - The task loops of the gradients on threads ----===//
//
// A task loop becomes an OpenMP loop over task numbers, the blocks outermost,
// so that under a causal mask the long tasks of every head start first.
// Products become loops around register tiles (GradientTiles.h). Where a task
// also adds to the gradient of a bias or of a capture, or asks whether a mask
// shows anything, it stays as the tiler wrote it: vectors of the size of a
// tile, which the planner then keeps so small (CpuBackwardSchedules.cpp) that
// upstream's lowerings make straight code of registers of them. Exponentials
// become polynomials.
//
//===----------------------------------------------------------------------===//

#include "../Common/ByteView.h"
#include "AmxTiles.h"
#include "GradientTiles.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace attn {
#define GEN_PASS_DEF_GRADIENTSTOCPU
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// Maps batch and head of a task loop, which change fastest in the number;
/// returns what is left of it.
static Value mapHeads(Emitter &e, scf::ForallOp tasks, Value number,
                      IRMapping &mapping) {
  SmallVector<Value> sizes =
      getValueOrCreateConstantIndexOp(e.b, e.loc, tasks.getMixedUpperBound());
  for (Value variable :
       llvm::reverse(ArrayRef(tasks.getInductionVars()).drop_back())) {
    Value size = sizes[cast<BlockArgument>(variable).getArgNumber()];
    mapping.map(variable, arith::RemUIOp::create(e.b, e.loc, number, size));
    number = arith::DivUIOp::create(e.b, e.loc, number, size);
  }
  return number;
}

/// Key tasks that add to dQ in memory: one thread takes the blocks of a head
/// one after the other.
static bool addsToQuerySum(scf::ForallOp tasks) {
  return getRole(tasks) == role::kKeyTasks &&
         tasks
             .walk([](vector::TransferWriteOp write) {
               return getRole(write) == role::kQuerySum
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Scratch of a block becomes scratch of a thread, in its stack frame: LLVM
/// would take memory anew for every block of every task, and keep it.
static void hoistScratch(omp::ParallelOp parallel) {
  Block &frame = parallel.getRegion().front();
  SmallVector<memref::AllocaScopeOp> scopes;
  parallel->walk([&](memref::AllocaScopeOp op) { scopes.push_back(op); });
  for (memref::AllocaScopeOp scope : scopes) {
    Block &body = scope.getBodyRegion().front();
    body.getTerminator()->erase();
    scope->getBlock()->getOperations().splice(scope->getIterator(),
                                              body.getOperations());
    scope.erase();
  }
  SmallVector<memref::AllocaOp> allocations;
  parallel->walk([&](memref::AllocaOp op) { allocations.push_back(op); });
  for (memref::AllocaOp op : allocations)
    op->moveBefore(&frame, frame.begin());
}

static TargetDescription targetOf(scf::ForallOp tasks) {
  auto known = tasks->getAttrOfType<TargetAttr>(kTargetAttrName);
  return known ? known.getValue() : TargetDescription();
}

static void readBooleansAsBytes(omp::ParallelOp parallel) {
  SmallVector<vector::TransferReadOp> reads;
  parallel->walk([&](vector::TransferReadOp read) {
    if (read.getVectorType().getElementType().isInteger(1))
      reads.push_back(read);
  });
  for (vector::TransferReadOp read : reads) {
    OpBuilder b(read);
    Location loc = read.getLoc();
    Value bytes = byteView(b, loc, read.getBase());
    Value padding =
        arith::ExtUIOp::create(b, loc, b.getI8Type(), read.getPadding());
    auto lanes =
        VectorType::get(read.getVectorType().getShape(), b.getI8Type());
    Value loaded = vector::TransferReadOp::create(
        b, loc, lanes, bytes, read.getIndices(), read.getPermutationMapAttr(),
        padding, read.getMask(), read.getInBoundsAttr());
    Value zero = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(lanes, b.getI8IntegerAttr(0)));
    read.replaceAllUsesWith(
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, loaded, zero)
            .getResult());
    read.erase();
  }
}

static LogicalResult mapToThreads(scf::ForallOp tasks) {
  OpBuilder builder(tasks);
  Emitter e{builder, tasks.getLoc()};
  SmallVector<Value> sizes =
      getValueOrCreateConstantIndexOp(e.b, e.loc, tasks.getMixedUpperBound());
  bool inOrder = addsToQuerySum(tasks);
  Value count = e.index(1), blocks = sizes.back();
  if (inOrder)
    sizes.pop_back();
  for (Value size : sizes)
    count = e.mul(count, size);
  bool valid = true;
  TargetDescription target = targetOf(tasks);
  bool inTiles = GradientTiles::canMap(tasks, target);
  bool usesTileRegisters = inTiles && GradientTiles::usesTileRegisters(tasks);
  auto parallel = omp::ParallelOp::create(e.b, e.loc, omp::ParallelOperands());
  e.b.createBlock(&parallel.getRegion());
  if (usesTileRegisters)
    configureTiles(e);
  emitParallelLoop(e, count, [&](Value number) {
    IRMapping mapping;
    Value rest = mapHeads(e, tasks, number, mapping);
    auto emitTask = [&](Value block) {
      mapping.map(tasks.getInductionVars().back(), block);
      if (inTiles) {
        valid = succeeded(
            GradientTiles::create(e, tasks, target, mapping)->emitTask(tasks));
        return;
      }
      for (Operation &op : tasks.getBody()->without_terminator())
        e.b.clone(op, mapping);
    };
    if (inOrder)
      e.loop(e.index(0), blocks, 1, emitTask);
    else
      emitTask(rest);
  });
  if (usesTileRegisters)
    releaseTiles(e);
  omp::TerminatorOp::create(e.b, e.loc);
  hoistScratch(parallel);
  readBooleansAsBytes(parallel);

  // Gradients are sums in the accumulators' type.
  Type precision = builder.getF32Type();
  parallel->walk(
      [&](math::Exp2Op op) { precision = getElementTypeOrSelf(op.getType()); });
  approximateExp2(parallel, precision, target);
  tasks.erase();
  return success(valid);
}

/// Tile registers take bf16, and patches of two by two.
static LogicalResult verifyMappable(scf::ForallOp tasks) {
  TargetDescription target = targetOf(tasks);
  if (!GradientTiles::asksForTileRegisters(tasks) ||
      !GradientTiles::canMap(tasks, target))
    return success();
  bool fits = target.has("amx-bf16");
  tasks.walk([&](vector::ContractionOp product) {
    fits &= product.getLhsType().getElementType().isBF16();
  });
  const Tiling &tiling =
      tasks->getAttrOfType<TilingAttr>(kTilingAttrName).getValue();
  fits &= tiling.blockQuery % (2 * kTileRows) == 0 &&
          tiling.blockKey % (2 * kTileRows) == 0;
  if (fits)
    return success();
  return tasks.emitOpError("expects bf16, blocks of whole 32 queries and keys "
                           "and a target with amx-bf16 for product = \"amx\", "
                           "got ")
         << tiling.blockQuery << " x " << tiling.blockKey << " on '"
         << target.name << "'; state product = \"fma\" in the tiling";
}

namespace {
struct GradientsToCPU : attn::impl::GradientsToCPUBase<GradientsToCPU> {
  void runOnOperation() override {
    SmallVector<scf::ForallOp> tasks, fills;
    getOperation()->walk([&](scf::ForallOp loop) {
      StringRef role = getRole(loop);
      if (llvm::is_contained({role::kDeltaTasks, role::kKeyTasks,
                              role::kQueryTasks, role::kSinkTasks},
                             role))
        tasks.push_back(loop);
      else if (role.empty())
        fills.push_back(loop);
    });
    if (tasks.empty() && fills.empty())
      return;
    bool roundsInSoftware = false;
    for (scf::ForallOp loop : tasks) {
      roundsInSoftware |= !roundsBf16(targetOf(loop));
      if (failed(verifyMappable(loop)) || failed(mapToThreads(loop)))
        return signalPassFailure();
    }
    IRRewriter rewriter(&getContext());
    for (scf::ForallOp loop : fills) {
      rewriter.setInsertionPoint(loop);
      if (failed(scf::forallToForLoop(rewriter, loop)))
        return signalPassFailure();
    }
    if (roundsInSoftware && failed(roundBf16InSoftware(getOperation())))
      signalPassFailure();
  }
};
} // namespace
