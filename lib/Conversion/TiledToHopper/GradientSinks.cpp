//===- GradientSinks.cpp - The gradient of the sinks ----------------------===//
//
// A block of threads a head: a thread goes through rows of its own, the same
// row of every so many query blocks, and the threads' sums are added in a fixed
// order.
//
//===----------------------------------------------------------------------===//

#include "../Common/FragmentSoftmax.h"
#include "../Common/TaskLoop.h"
#include "GradientKernels.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static constexpr int64_t kThreads = 256, kWarp = 32;

namespace {
class SinkKernel {
public:
  SinkKernel(GpuEmitter &e, GradientForm &form, const KernelOutline &outline)
      : e(e), form(form), tasks(form.sinks), outline(outline),
        workspace(e, form, outline) {}
  LogicalResult emit();

private:
  /// The sum with the terms of the thread's row of a block.
  FailureOr<Value> addRow(Value batch, Value head, Value block, Value sum);
  Value sumOverThreads(Value sum);

  GpuEmitter &e;
  GradientForm &form;
  SinkTasks &tasks;
  const KernelOutline &outline;
  Workspace workspace;
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
  Value place = e.add(
      workspace.delta(workspace.tile(batch, head, block)),
      arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), e.mul(row, 4)));
  slicer.bind(tasks.delta, [&](const TileSlicer::Piece &) {
    return e.ptx("ld.global.f32 $0, [$1];", "=f,l,~{memory}",
                 {e.b.getF32Type()}, {place})[0];
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
  Value place = e.add(shared, e.mul(e.div(id, kWarp), 4));
  e.branch(e.equals(e.bitAnd(id, kWarp - 1), 0), [&]() {
    e.ptx("st.shared.f32 [$0], $1;", "r,f,~{memory}", {place, sum});
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
  Value total = e.f32(0);
  for (int64_t warp = 0; warp < kThreads / kWarp; ++warp) {
    Value part =
        e.ptx("ld.shared.f32 $0, [$1+" + std::to_string(4 * warp) + "];",
              "=f,r,~{memory}", {e.b.getF32Type()}, {shared})[0];
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
  int64_t together = kThreads / form.blockQuery;
  row = e.rem(id, form.blockQuery);
  Value first = e.div(id, form.blockQuery);
  auto [batches, heads, blocks] = taskSizes(e, form.rows.tasks, outline);
  // Threads behind the last whole block of rows have none.
  Value end = e.select(e.less(first, e.i32(together)), blocks, e.i32(0));
  bool valid = true;
  SmallVector<Value> sums = e.loop(
      e.i32(0), batches, e.i32(1), e.f32(0),
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

LogicalResult hopper::emitSinkKernel(GradientForm &form,
                                     gpu::GPUModuleOp &module) {
  FailureOr<std::string> count = countTasks(form.sinks.tasks);
  FailureOr<std::string> workspace = Workspace::bytes(form);
  if (failed(count) || failed(workspace))
    return failure();
  Launch launch;
  launch.grid = *count;
  launch.workgroup = kThreads;
  launch.sharedMemory = kThreads / kWarp * 4;
  launch.workspace = *workspace;
  FailureOr<KernelOutline> outline =
      addKernel(form.sinks.tasks, launch,
                (form.function.getName() + "_sinks").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.sinks.tasks.getLoc()};
  return SinkKernel(e, form, *outline).emit();
}
