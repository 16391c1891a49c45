//===- TiledToCPU.cpp - The tiled form on vectors, scratch and threads ----===//
//
// Takes the tiled form of attn-tile to loops that stay within the registers of
// a CPU. Lowering the tiles as they stand would hold each of them in registers
// and spill: here the values that the sweep carries (m, l, acc) and the score
// tile live in 64-byte aligned scratch in L1 and L2, and each tile product is a
// loop nest around a register tile.
//
//   pack:   for each (key/value head, key block), in parallel
//             keys (and where the product needs it, values) into product order
//   tasks:  for each (query block, batch, head), in parallel, longest first
//             load the query tile; m, l, acc = initial
//             for each key block within reach of the masks
//               scores = Q K^T by register tiles; score region and masks on
//                 each register tile; running maximum by lane
//               m', alpha, p, l by rows
//               acc = acc alpha + P V by register tiles
//             output = acc / l; lse
//
// The products order the work of a key block as suits them, and a stale softmax
// leaves out the maxima: see VectorProduct.cpp, AmxProduct.cpp and
// StaleSoftmax.cpp.
//
// Threads: one OpenMP parallel region with two dynamically scheduled loops.
// Tasks are numbered with the query block outermost, so that under a causal
// mask the long ones of every head start first.
//
// Precondition: tasks loops as attn-tile makes them, roles included, with an
// exact or stale softmax. Limits: none on sizes; the head dimensions are static
// by the tiled form.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/OpenMP/OpenMPDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace attn {
#define GEN_PASS_DEF_TILEDTOCPU
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// Below this many multiply-adds a second thread costs more than it brings
/// (two heads of 128 x 128 x 64).
static constexpr int64_t kParallelThreshold = int64_t(1) << 21;

namespace {

/// Emits the kernel of one task loop in front of it.
class KernelEmitter {
public:
  KernelEmitter(OpBuilder &builder, TiledForm &form)
      : e{builder, form.tasks.getLoc()}, form(form), kernel(form),
        product(createProduct(kernel)) {}
  LogicalResult emit();

private:
  void emitPacking();
  LogicalResult emitTask(Value number);
  LogicalResult emitSweep(Task &task, Value head);
  LogicalResult emitKeyBlock(Task &task, const KeyBlock &block);
  Value worthThreads();
  Value cloneOutside(Value value);

  Emitter e;
  TiledForm &form;
  CpuKernel kernel;
  std::unique_ptr<TileProduct> product;
  /// Sizes of the task loop, and query heads per key/value head.
  Value batch, heads, queryBlocks, group, kvHeads;
  Scratch scratch;
};

} // namespace

/// Total multiply-adds against the threshold.
Value KernelEmitter::worthThreads() {
  Value work = e.mul(e.mul(batch, heads), e.mul(queryBlocks, form.blockQuery));
  work = e.mul(work, std::max<int64_t>(form.headDim + form.valueDim, 1));
  if (vector::TransferReadOp operand = form.key ? form.key : form.value)
    work = e.mul(work, sequenceLength(e, operand));
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::sge, work,
                               e.index(kParallelThreshold));
}

/// omp.wsloop with a dynamic schedule, one iteration at a time.
void cpu::emitParallelLoop(Emitter &e, Value count,
                           llvm::function_ref<void(Value)> body) {
  Value zero = e.index(0), one = e.index(1);
  omp::WsloopOperands clauses;
  clauses.scheduleKind = omp::ClauseScheduleKindAttr::get(
      e.b.getContext(), omp::ClauseScheduleKind::Dynamic);
  clauses.scheduleChunk =
      arith::ConstantOp::create(e.b, e.loc, e.b.getI64IntegerAttr(1));
  auto wsloop = omp::WsloopOp::create(e.b, e.loc, clauses);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.createBlock(&wsloop.getRegion());
  omp::LoopNestOperands bounds;
  bounds.loopLowerBounds.push_back(zero);
  bounds.loopUpperBounds.push_back(count);
  bounds.loopSteps.push_back(one);
  auto nest = omp::LoopNestOp::create(e.b, e.loc, bounds);
  Block *block =
      e.b.createBlock(&nest.getRegion(), {}, {e.b.getIndexType()}, {e.loc});
  body(block->getArgument(0));
  omp::YieldOp::create(e.b, e.loc);
}

/// The packing loop: one iteration a key block of a key/value head.
void KernelEmitter::emitPacking() {
  Value blocks = product->keyBlocks();
  if (!blocks)
    return;
  Value positions = e.mul(e.mul(batch, kvHeads), blocks);
  emitParallelLoop(e, positions, [&](Value position) {
    auto remainder = [&](Value x, Value y) -> Value {
      return arith::RemUIOp::create(e.b, e.loc, x, y);
    };
    auto quotient = [&](Value x, Value y) -> Value {
      return arith::DivUIOp::create(e.b, e.loc, x, y);
    };
    Value head = quotient(position, blocks);
    Value block = remainder(position, blocks);
    scf::ForallOp tasks = form.tasks;
    IRMapping scalars;
    scalars.map(tasks.getInductionVar(0), quotient(head, kvHeads));
    scalars.map(tasks.getInductionVar(1),
                e.mul(remainder(head, kvHeads), group));
    scalars.map(tasks.getInductionVar(2), e.index(0));

    // The views of the keys and values, which depend on batch and head only.
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.filter = [&](Operation *op) { return tasks->isProperAncestor(op); };
    for (vector::TransferReadOp read : {form.key, form.value})
      if (read)
        (void)getBackwardSlice(read.getBase(), &slice, options);
    Value view;
    for (Operation &op : *tasks.getBody())
      if (slice.contains(&op))
        e.b.clone(op, scalars)->removeAttr(kRoleAttrName);
    vector::TransferReadOp read = form.key ? form.key : form.value;
    view = scalars.lookup(Value(read.getBase()));
    Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
    Value isUsed = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt,
                                         e.mul(block, form.blockKey), length);
    scf::IfOp::create(e.b, e.loc, isUsed, [&](OpBuilder &, Location) {
      product->pack(e, scalars, head, block);
      scf::YieldOp::create(e.b, e.loc);
    });
  });
}

LogicalResult KernelEmitter::emitKeyBlock(Task &task, const KeyBlock &block) {
  if (form.reach && failed(cloneScalars(task, *form.blockBody())))
    return failure();
  if (failed(cloneMaskScalars(task)))
    return failure();
  return product->update(task, block);
}

LogicalResult KernelEmitter::emitSweep(Task &task, Value head) {
  scf::ForOp sweep = form.sweep;
  if (!sweep)
    return success();
  bool valid = true;
  Value lower = task.scalars.lookupOrDefault(sweep.getLowerBound());
  Value upper = task.scalars.lookupOrDefault(sweep.getUpperBound());
  e.loop(lower, upper, form.blockKey, [&](Value start) {
    task.scalars.map(sweep.getInductionVar(), start);
    if (failed(cloneScalars(task, *sweep.getBody()))) {
      valid = false;
      return;
    }
    Value end = e.min(e.index(form.blockKey), e.sub(upper, start));
    KeyBlock block;
    block.head = head;
    block.start = start;
    block.isFirst = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                          start, lower);
    block.limit = [&, end](Value row) -> Value {
      if (!form.rightBound)
        return end;
      // Hidden by the causal edge for all rows of the group: j - i > bound.
      Value last = e.add(e.mul(e.div(row, kernel.rowGroup), kernel.rowGroup),
                         kernel.rowGroup);
      Value bound = arith::IndexCastOp::create(
          e.b, e.loc, e.b.getIndexType(), task.slicer.scalar(form.rightBound));
      return e.max(e.min(end, e.add(last, bound)), e.index(0));
    };
    if (!form.reach) {
      valid &= succeeded(emitKeyBlock(task, block));
      return;
    }
    scf::IfOp reach = form.reach;
    scf::IfOp::create(e.b, e.loc, task.slicer.scalar(reach.getCondition()),
                      [&](OpBuilder &, Location) {
                        valid &= succeeded(emitKeyBlock(task, block));
                        scf::YieldOp::create(e.b, e.loc);
                      });
  });
  return success(valid);
}

LogicalResult KernelEmitter::emitTask(Value number) {
  scf::ForallOp tasks = form.tasks;
  // number = (query block * batch + b) * heads + h
  Value perBlock = e.mul(batch, heads);
  Value queryBlock = arith::DivUIOp::create(e.b, e.loc, number, perBlock);
  Value rest = arith::RemUIOp::create(e.b, e.loc, number, perBlock);
  Value b = arith::DivUIOp::create(e.b, e.loc, rest, heads);
  Value h = arith::RemUIOp::create(e.b, e.loc, rest, heads);
  IRMapping scalars;
  scalars.map(tasks.getInductionVar(0), b);
  scalars.map(tasks.getInductionVar(1), h);
  scalars.map(tasks.getInductionVar(2), queryBlock);
  TileSlicer slicer(e.b, e.loc, scalars);
  Task task{e, kernel, scratch, scalars, slicer};
  if (failed(cloneScalars(task, *tasks.getBody())))
    return failure();
  Value head =
      e.add(e.mul(b, kvHeads), arith::DivUIOp::create(e.b, e.loc, h, group));
  product->loadQuery(task);
  return success(succeeded(initializeState(task)) &&
                 succeeded(emitSweep(task, head)) &&
                 succeeded(writeResults(task)));
}

/// A value of the task loop that depends on no task, in front of the loop.
Value KernelEmitter::cloneOutside(Value value) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.filter = [&](Operation *op) {
    return form.tasks->isProperAncestor(op);
  };
  (void)getBackwardSlice(value, &slice, options);
  IRMapping mapping;
  for (Operation *op : slice)
    e.b.clone(*op, mapping);
  return mapping.lookupOrDefault(value);
}

LogicalResult KernelEmitter::emit() {
  scf::ForallOp tasks = form.tasks;
  e.b.setInsertionPoint(tasks);
  SmallVector<Value> sizes =
      getValueOrCreateConstantIndexOp(e.b, e.loc, tasks.getMixedUpperBound());
  batch = sizes[0];
  heads = sizes[1];
  queryBlocks = sizes[2];
  group = e.index(1);
  if (form.kvHead)
    group = cloneOutside(form.kvHead->getOperand(1));
  kvHeads = arith::DivUIOp::create(e.b, e.loc, heads, group);

  product->allocate(e, e.mul(batch, kvHeads));
  omp::ParallelOperands clauses;
  clauses.ifExpr = worthThreads();
  auto parallel = omp::ParallelOp::create(e.b, e.loc, clauses);
  bool valid = true;
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.createBlock(&parallel.getRegion());
    scratch = Scratch::allocate(e, kernel);
    product->beginThread(e);
    emitPacking();
    Value count = e.mul(e.mul(batch, heads), queryBlocks);
    emitParallelLoop(
        e, count, [&](Value number) { valid = succeeded(emitTask(number)); });
    product->endThread(e);
    omp::TerminatorOp::create(e.b, e.loc);
  }
  product->deallocate(e);
  // The lse is not rounded to the element type.
  approximateExp2(parallel,
                  form.lse ? Type(kernel.type) : Type(form.elementType),
                  form.target);
  tasks.erase();
  return success(valid);
}

/// Whether the chip has the instructions of a product for these elements.
static bool hasProduct(const TiledForm &form) {
  StringRef product = form.tiling.product;
  if (product == "dot")
    return form.elementType.isBF16() && roundsBf16(form.target);
  if (product == "amx")
    return form.elementType.isBF16() && form.target.has("amx-bf16");
  return true;
}

/// A conditional softmax would save nothing: with the row maximum at hand, a
/// correction costs less than a vote on it.
static LogicalResult verifyMappable(TiledForm &form) {
  if (form.isConditional() || form.isRaised())
    return form.tasks.emitOpError("expects an exact or stale softmax to map to "
                                  "a CPU, got \"")
           << form.tiling.softmax
           << "\"; state softmax = \"stale\" in the tiling";
  if (!hasProduct(form))
    return form.tasks.emitOpError("expects a product that '")
           << form.target.name << "' has for " << form.elementType << ", got \""
           << form.tiling.product
           << "\"; state product = \"fma\" in the tiling";
  return success();
}

namespace {
struct TiledToCPU : attn::impl::TiledToCPUBase<TiledToCPU> {
  void runOnOperation() override {
    SmallVector<scf::ForallOp> kernels;
    getOperation()->walk([&](scf::ForallOp loop) {
      if (getRole(loop) == role::kTasks)
        kernels.push_back(loop);
    });
    bool roundsInSoftware = false;
    for (scf::ForallOp loop : kernels) {
      FailureOr<TiledForm> form = readTiledForm(loop);
      if (failed(form))
        return signalPassFailure();
      // With nothing to multiply there is no element type either.
      if (!form->query && !form->value)
        form->tiling.product = "fma";
      if (failed(verifyMappable(*form)))
        return signalPassFailure();
      OpBuilder builder(loop);
      if (failed(KernelEmitter(builder, *form).emit()))
        return signalPassFailure();
      roundsInSoftware |= !roundsBf16(form->target);
    }
    if (roundsInSoftware && failed(roundBf16InSoftware(getOperation())))
      signalPassFailure();
  }
};
} // namespace
