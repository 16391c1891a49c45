//===- SinkGradient.cpp - The gradient of the sinks -----------------------===//

#include "SinkGradient.h"
#include "FragmentSoftmax.h"
#include "PaddedRows.h"
#include "TaskLoop.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;

static constexpr int64_t kThreads = 256, kWarp = 32;

namespace {
class SinkKernel {
public:
  SinkKernel(GpuEmitter &e, GradientForm &form, const KernelOutline &outline,
             DeltaOf deltaOf)
      : e(e), form(form), tasks(form.sinks), outline(outline),
        deltaOf(deltaOf) {}
  LogicalResult emit();

private:
  /// The sum with the terms of the thread's row of a block.
  FailureOr<Value> addRow(Value batch, Value head, Value block, Value sum);
  Value sumOverThreads(Value sum);

  GpuEmitter &e;
  GradientForm &form;
  SinkTasks &tasks;
  const KernelOutline &outline;
  DeltaOf deltaOf;
  IRMapping scalars;
  Value id, row;
};
} // namespace

FailureOr<Value> SinkKernel::addRow(Value batch, Value head, Value block,
                                    Value sum) {
  IRMapping step(scalars);
  step.map(tasks.batches.getInductionVar(), e.toIndex(batch));
  cloneScalars(e, *tasks.batches.getBody(), step);
  step.map(tasks.rows.getInductionVar(),
           e.toIndex(e.mul(block, form.blockQuery)));
  cloneScalars(e, *tasks.rows.getBody(), step);
  TileSlicer slicer(e.b, e.loc, step);
  bindPaddedRows(e, slicer, step, *tasks.rows.getBody());
  if (deltaOf)
    slicer.bind(tasks.delta, [&](const TileSlicer::Piece &) {
      return deltaOf(batch, head, block, row);
    });
  slicer.bind(tasks.rows.getRegionIterArg(0),
              [&](const TileSlicer::Piece &) { return sum; });
  Value next = tasks.rows.getBody()->getTerminator()->getOperand(0);
  return slicer.rowElement(next, {e.toIndex(row), e.index(0), 0});
}

Value SinkKernel::sumOverThreads(Value sum) {
  for (int64_t distance : {1, 2, 4, 8, 16})
    sum = arith::AddFOp::create(e.b, e.loc, sum, e.fromLane(sum, distance));
  Value shared = sharedMemory(e, outline.module);
  bool isWide = sum.getType().isF64();
  int64_t bytes = isWide ? 8 : 4;
  std::string type = isWide ? "f64" : "f32", letter = isWide ? "d" : "f";
  Value place = e.add(shared, e.mul(e.div(id, kWarp), bytes));
  e.branch(e.equals(e.bitAnd(id, kWarp - 1), 0), [&]() {
    e.ptx("st.shared." + type + " [$0], $1;", "r," + letter + ",~{memory}",
          {place, sum});
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
  Value total = e.zero(sum.getType());
  for (int64_t warp = 0; warp < kThreads / kWarp; ++warp) {
    Value part = e.ptx(
        "ld.shared." + type + " $0, [$1+" + std::to_string(bytes * warp) + "];",
        "=" + letter + ",r,~{memory}", {sum.getType()}, {shared})[0];
    total = arith::AddFOp::create(e.b, e.loc, total, part);
  }
  return total;
}

LogicalResult SinkKernel::emit() {
  id = NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type());
  Value head = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  scalars = IRMapping(outline.values);
  scalars.map(tasks.tasks.getInductionVars()[0], e.toIndex(head));
  cloneScalars(e, *tasks.tasks.getBody(), scalars);
  int64_t together = std::max<int64_t>(1, kThreads / form.blockQuery);
  row = e.rem(id, form.blockQuery);
  Value first = e.div(id, form.blockQuery);
  auto [batches, heads, blocks] = taskSizes(e, form.rows.tasks, outline);
  // Threads behind the last whole block of rows have none.
  Value end = e.select(e.less(first, e.i32(together)), blocks, e.i32(0));
  bool valid = true;
  SmallVector<Value> sums = e.loop(
      e.i32(0), batches, e.i32(1), e.zero(form.accumulatorType),
      [&](Value batch, ValueRange outer) {
        return e.loop(first, end, e.i32(together), outer,
                      [&](Value block, ValueRange inner) {
                        FailureOr<Value> next =
                            addRow(batch, head, block, inner[0]);
                        valid &= succeeded(next);
                        return SmallVector<Value>{valid ? *next : inner[0]};
                      });
      });
  if (!valid)
    return failure();
  scalars.map(tasks.store.getValueToStore(), sumOverThreads(sums[0]));
  e.branch(e.equals(id, 0), [&]() { e.b.clone(*tasks.store, scalars); });
  return success();
}

FailureOr<Launch> attn::sinkLaunch(GradientForm &form) {
  FailureOr<std::string> count = countTasks(form.sinks.tasks);
  if (failed(count))
    return failure();
  if (form.blockQuery > kThreads)
    return form.sinks.tasks.emitOpError("expects block_query of at most ")
           << kThreads << " for the gradients of sinks";
  Launch launch;
  launch.grid = *count;
  launch.workgroup = kThreads;
  launch.sharedMemory = kThreads / kWarp * form.accumulatorType.getWidth() / 8;
  return launch;
}

LogicalResult attn::emitSinkGradient(GpuEmitter &e, GradientForm &form,
                                     const KernelOutline &outline,
                                     DeltaOf deltaOf) {
  return SinkKernel(e, form, outline, deltaOf).emit();
}
