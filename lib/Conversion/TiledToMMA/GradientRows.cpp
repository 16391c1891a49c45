//===- GradientRows.cpp - delta, references, zeros, sinks -----------------===//
//
// A block of threads a query block; a warp a row, whose lanes stride over the
// columns of output and output gradient. Rows past the end get a delta of 0 and
// a reference of -inf.
//
//===----------------------------------------------------------------------===//

#include "../Common/PaddedRows.h"
#include "../Common/ScratchMemory.h"
#include "../Common/SinkGradient.h"
#include "GradientKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static constexpr int64_t kWarps = 4, kThreads = kWarps * MmaTiles::kLanes;

namespace {
class RowKernel {
public:
  RowKernel(GpuEmitter &e, GradientForm &form, KernelOutline &outline)
      : e(e), form(form), tasks(form.rows),
        scalars(
            enterTask(e, form.rows.tasks, outline,
                      NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type()))),
        slicer(e.b, e.loc, scalars) {}
  LogicalResult emit();

private:
  LogicalResult emitRow(Value row, Value lane);
  FailureOr<Value> sumOfRow(Value row, Value lane);

  GpuEmitter &e;
  GradientForm &form;
  RowTasks &tasks;
  IRMapping scalars;
  TileSlicer slicer;
};
} // namespace

/// 0 past the end, where the slicer repeats the last row.
FailureOr<Value> RowKernel::sumOfRow(Value row, Value lane) {
  vector::MultiDimReductionOp op = tasks.sum;
  int64_t width = op.getSourceVectorType().getDimSize(1);
  Value sum = e.zero(form.accumulatorType);
  for (int64_t first = 0; first < width; first += MmaTiles::kLanes) {
    Value column = e.add(lane, first);
    bool isWhole = first + MmaTiles::kLanes <= width;
    Value place = isWhole ? column : e.min(column, e.index(width - 1));
    FailureOr<Value> term = slicer.tile(op.getSource(), {row, place, 0});
    if (failed(term))
      return failure();
    if (!isWhole)
      term = e.select(e.less(column, e.index(width)), *term,
                      e.zero(form.accumulatorType));
    sum = arith::AddFOp::create(e.b, e.loc, sum, *term);
  }
  for (int64_t distance : {1, 2, 4, 8, 16})
    sum = arith::AddFOp::create(e.b, e.loc, sum, e.fromLane(sum, distance));
  FailureOr<Value> initial = slicer.rowElement(op.getAcc(), {row, lane, 0});
  if (failed(initial))
    return failure();
  sum = arith::AddFOp::create(e.b, e.loc, sum, *initial);
  vector::TransferReadOp read = tasks.output;
  Value view = scalars.lookup(read.getBase());
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  Value place = e.add(scalars.lookup(read.getIndices()[0]), row);
  return e.select(e.less(place, length), sum, e.zero(form.accumulatorType));
}

LogicalResult RowKernel::emitRow(Value row, Value lane) {
  if (tasks.sum) {
    FailureOr<Value> sum = sumOfRow(row, lane);
    if (failed(sum))
      return failure();
    slicer.bind(tasks.sum, [sum](const TileSlicer::Piece &) { return *sum; });
  }
  bool valid = true;
  e.branch(e.equals(lane, 0), [&]() {
    for (vector::TransferWriteOp write : {tasks.delta, tasks.reference}) {
      FailureOr<Value> number =
          slicer.rowElement(write.getVector(), {row, lane, 0});
      valid &= succeeded(number);
      if (!valid)
        return;
      Value place = e.add(scalars.lookup(write.getIndices()[0]), row);
      memref::StoreOp::create(e.b, e.loc, *number,
                              scalars.lookup(write.getBase()), place);
    }
  });
  return success(valid);
}

LogicalResult RowKernel::emit() {
  Block &body = *tasks.tasks.getBody();
  cloneScalars(e, body, scalars);
  bindPaddedRows(e, slicer, scalars, body);
  Value id = NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type());
  Value lane = e.toIndex(e.bitAnd(id, MmaTiles::kLanes - 1));
  Value warp = e.toIndex(e.div(id, MmaTiles::kLanes));
  bool valid = true;
  e.loop(warp, e.index(form.blockQuery), e.index(kWarps), {},
         [&](Value row, ValueRange) {
           valid &= succeeded(emitRow(row, lane));
           return SmallVector<Value>();
         });
  return success(valid);
}

LogicalResult GradientModule::addRows() {
  Launch launch;
  launch.workgroup = kThreads;
  return add(form.rows.tasks, launch, "rows",
             [&](GpuEmitter &e, KernelOutline &outline) {
               placeScratch(e, form.function, outline);
               return RowKernel(e, form, outline).emit();
             });
}

LogicalResult GradientModule::addSinks() {
  FailureOr<Launch> launch = sinkLaunch(form);
  if (failed(launch))
    return failure();
  return add(form.sinks.tasks, *launch, "sinks",
             [&](GpuEmitter &e, KernelOutline &outline) {
               placeScratch(e, form.function, outline);
               return emitSinkGradient(e, form, outline, {});
             });
}

//===----------------------------------------------------------------------===//
// Zeros
//===----------------------------------------------------------------------===//

/// A thread an element.
static LogicalResult emitFill(GpuEmitter &e, scf::ForallOp fill,
                              KernelOutline &outline) {
  SmallVector<Value> sizes;
  Value count = e.index(1);
  for (OpFoldResult size : fill.getMixedUpperBound()) {
    auto value = dyn_cast<Value>(size);
    sizes.push_back(
        value ? outline.values.lookup(value)
              : e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt()));
    count = e.mul(count, sizes.back());
  }
  auto id = [&](Value i32) { return e.toIndex(i32); };
  Value thread = id(NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type()));
  Value block = id(NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type()));
  Value number = e.add(e.mul(block, kThreads), thread);
  IRMapping scalars(outline.values);
  e.branch(e.less(number, count), [&]() {
    Value rest = number;
    for (int64_t dimension = sizes.size() - 1; dimension >= 0; --dimension) {
      Value size = sizes[dimension];
      scalars.map(fill.getInductionVars()[dimension], e.rem(rest, size));
      rest = e.div(rest, size);
    }
    for (Operation &op : fill.getBody()->without_terminator())
      e.b.clone(op, scalars);
  });
  return success();
}

LogicalResult GradientModule::addFill(scf::ForallOp fill, int64_t number) {
  FailureOr<std::string> count = countTasks(fill);
  if (failed(count))
    return failure();
  Launch launch;
  launch.grid = "ceildiv(" + *count + ", " + std::to_string(kThreads) + ")";
  launch.workgroup = kThreads;
  return add(fill, launch, "zeros" + Twine(number),
             [&](GpuEmitter &e, KernelOutline &outline) {
               return emitFill(e, fill, outline);
             });
}
