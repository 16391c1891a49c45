//===- GradientRows.cpp - What gradients need of rows and elements --------===//
//
// delta: threads share the rows of a block, each with every so many columns of
// a few rows, and add up their sums through shared memory.
//
// Sinks: a workgroup a head. A thread goes through rows of its own, the same
// row of every so many blocks, and the threads' sums are added in their order.
//
// Zeros: an element a thread.
//
//===----------------------------------------------------------------------===//

#include "GradientLanes.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

static Value addFloats(GpuEmitter &e, Value x, Value y) {
  return arith::AddFOp::create(e.b, e.loc, x, y);
}

//===----------------------------------------------------------------------===//
// delta
//===----------------------------------------------------------------------===//

/// The sums of the terms in the thread's rows, over the threads that share
/// them. `column` is its number among these.
static FailureOr<Registers> sumOfRows(LaneThread &thread, LaneLayout &layout,
                                      vector::MultiDimReductionOp sum,
                                      Value row, Value column, int64_t columns,
                                      int64_t height) {
  GpuEmitter &e = thread.e;
  int64_t width = sum.getSourceVectorType().getDimSize(1);
  Registers zeros(layout.numRows(), e.zero(thread.type));
  bool valid = true;
  Registers sums = e.loop(column, e.index(width), e.index(columns), zeros,
                          [&](Value at, ValueRange carried) {
                            FailureOr<Registers> terms =
                                layout.columnOf(sum.getSource(), at);
                            valid = succeeded(terms);
                            Registers next(carried);
                            if (valid)
                              for (auto [total, term] : llvm::zip(next, *terms))
                                total = addFloats(e, total, term);
                            return next;
                          });
  FailureOr<Registers> starts = layout.rows(sum.getAcc());
  if (!valid || failed(starts))
    return failure();
  SharedTile memory = allocateShared(e, columns * height, thread.type);
  Registers places;
  for (size_t i = 0; i < sums.size(); ++i)
    places.push_back(e.add(e.mul(row, sums.size()), i));
  sums = thread.combine(sums, places, column, columns, height, memory,
                        [&](Value x, Value y) { return addFloats(e, x, y); });
  for (auto [total, start] : llvm::zip(sums, *starts))
    total = addFloats(e, start, total);
  return sums;
}

LogicalResult spv::emitRowKernel(GradientLanes &gradients, scf::ForallOp tasks,
                                 gpu::GPUModuleOp &module) {
  vector::TransferWriteOp write;
  for (auto found : tasks.getBody()->getOps<vector::TransferWriteOp>())
    write = found;
  if (!write || getRole(write) != role::kDelta)
    return tasks.emitOpError("expects a write of delta, and no other");
  auto sum = write.getVector().getDefiningOp<vector::MultiDimReductionOp>();
  int64_t threads = gradients.threads(),
          blockQuery = gradients.tiling.blockQuery;
  int64_t columns =
      sum ? std::min(threads, LaneGradientTiles::kMostRowColumns) : 1;
  while (threads % columns != 0)
    columns /= 2;
  int64_t rowThreads = threads / columns;
  int64_t rows = llvm::divideCeil(blockQuery, rowThreads);
  int64_t height = rows * rowThreads;
  auto emit = [&](LaneThread &thread, IRMapping &scalars) -> LogicalResult {
    GpuEmitter &e = thread.e;
    if (failed(GradientScalars(e, scalars).clone(*tasks.getBody())))
      return failure();
    Value row = e.div(thread.id, columns), column = e.rem(thread.id, columns);
    // What lies behind the block repeats its last row, and is not written.
    Registers numbers, isRow;
    for (int64_t i = 0; i < rows; ++i)
      numbers.push_back(
          e.min(e.add(row, i * rowThreads), e.index(blockQuery - 1)));
    LaneLayout layout(e, scalars, numbers, {}, {});
    layout.padRows();
    if (sum) {
      FailureOr<Registers> sums =
          sumOfRows(thread, layout, sum, row, column, columns, height);
      if (failed(sums))
        return failure();
      layout.bindRows(sum.getResult(), *sums);
    }
    return writePerRow(thread, scalars, layout, write, e.equals(column, 0));
  };
  return addLaneKernel(gradients, tasks, "rows", module, emit);
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

template <typename OpTy> static OpTy firstOf(Block &block) {
  auto ops = block.getOps<OpTy>();
  return ops.empty() ? OpTy() : *ops.begin();
}

namespace {
/// The loops of a head's task, and the store of its sum.
struct SinkTask {
  scf::ForOp batches, rows;
  memref::StoreOp store;
  /// The rows of a block.
  int64_t blockQuery = 0;
};
} // namespace

static FailureOr<SinkTask> readSinkTask(scf::ForallOp tasks) {
  SinkTask task;
  task.batches = firstOf<scf::ForOp>(*tasks.getBody());
  if (task.batches)
    task.rows = firstOf<scf::ForOp>(*task.batches.getBody());
  task.store = firstOf<memref::StoreOp>(*tasks.getBody());
  if (!task.rows || !task.store)
    return tasks.emitOpError("expects loops over batches and rows, and a "
                             "store");
  task.blockQuery =
      cast<VectorType>(task.rows.getResult(0).getType()).getDimSize(0);
  return task;
}

/// The thread's sum with the terms of a block of rows.
static FailureOr<Value> addBlock(LaneThread &thread, SinkTask &task,
                                 IRMapping scalars, Value firstRow, Value sum) {
  GpuEmitter &e = thread.e;
  scalars.map(task.rows.getInductionVar(), firstRow);
  if (failed(GradientScalars(e, scalars).clone(*task.rows.getBody())))
    return failure();
  Value next = task.rows.getBody()->getTerminator()->getOperand(0);
  bool valid = true;
  Registers sums =
      e.loop(thread.id, e.index(task.blockQuery), e.index(thread.threads), sum,
             [&](Value row, ValueRange carried) {
               LaneLayout layout(e, scalars, {row}, {}, {});
               layout.padRows();
               layout.bindRows(task.rows.getRegionIterArg(0), {carried[0]});
               FailureOr<Registers> total = layout.rows(next);
               valid = succeeded(total);
               return valid ? *total : Registers(carried);
             });
  if (!valid)
    return failure();
  return sums[0];
}

static LogicalResult emitSink(LaneThread &thread, scf::ForallOp tasks,
                              SinkTask &task, IRMapping &scalars) {
  GpuEmitter &e = thread.e;
  if (failed(GradientScalars(e, scalars).clone(*tasks.getBody())))
    return failure();
  auto bound = [&](Value value) { return scalars.lookup(value); };
  bool valid = true;
  Registers sums = e.loop(
      bound(task.batches.getLowerBound()), bound(task.batches.getUpperBound()),
      bound(task.batches.getStep()), e.zero(thread.type),
      [&](Value batch, ValueRange outer) {
        IRMapping step(scalars);
        step.map(task.batches.getInductionVar(), batch);
        valid &=
            succeeded(GradientScalars(e, step).clone(*task.batches.getBody()));
        if (!valid)
          return Registers(outer);
        auto inner = [&](Value value) { return step.lookup(value); };
        return e.loop(inner(task.rows.getLowerBound()),
                      inner(task.rows.getUpperBound()),
                      inner(task.rows.getStep()), outer,
                      [&](Value firstRow, ValueRange carried) {
                        FailureOr<Value> next =
                            addBlock(thread, task, step, firstRow, carried[0]);
                        valid &= succeeded(next);
                        return Registers{valid ? *next : carried[0]};
                      });
      });
  if (!valid)
    return failure();
  SharedTile memory = allocateShared(e, thread.threads, thread.type);
  memory.store(e, sums[0], thread.id);
  thread.barrier();
  e.branch(e.equals(thread.id, 0), [&]() {
    Registers total =
        e.loop(e.index(0), e.index(thread.threads), e.index(1),
               e.zero(thread.type), [&](Value at, ValueRange carried) {
                 return Registers{addFloats(e, carried[0], memory.load(e, at))};
               });
    IRMapping last(scalars);
    last.map(task.store.getValueToStore(), total[0]);
    e.b.clone(*task.store, last);
  });
  return success();
}

LogicalResult spv::emitSinkKernel(GradientLanes &gradients, scf::ForallOp tasks,
                                  gpu::GPUModuleOp &module) {
  FailureOr<SinkTask> task = readSinkTask(tasks);
  if (failed(task))
    return failure();
  return addLaneKernel(gradients, tasks, "sinks", module,
                       [&](LaneThread &thread, IRMapping &scalars) {
                         return emitSink(thread, tasks, *task, scalars);
                       });
}

//===----------------------------------------------------------------------===//
// Zeros
//===----------------------------------------------------------------------===//

LogicalResult spv::emitZeroKernel(GradientLanes &gradients, scf::ForallOp tasks,
                                  StringRef suffix, gpu::GPUModuleOp &module) {
  return addLaneKernel(
      gradients, tasks, suffix, module,
      [&](LaneThread &thread, IRMapping &scalars) {
        for (Operation &op : tasks.getBody()->without_terminator())
          thread.e.b.clone(op, scalars);
        return success();
      },
      /*isElementwise=*/true);
}
