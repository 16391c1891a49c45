//===- GradientRows.cpp - delta, reference, and zeros for the sum ---------===//
//
// A block of threads a query block. TMA brings the rows of output gradient and
// output, zeros past the end; meanwhile the threads clear the sum of dQ, if
// any. Eight threads share a row, each with 8 columns of every chunk of 64.
//
//===----------------------------------------------------------------------===//

#include "../Common/FragmentSoftmax.h"
#include "../Common/PaddedRows.h"
#include "../Common/TaskLoop.h"
#include "GradientKernels.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static constexpr int64_t kThreads = 256, kThreadsPerRow = 8;
static constexpr int64_t kUnit = 8, kUnitBytes = 16;
/// The barrier, and what the swizzle repeats after.
static constexpr int64_t kTilesAt = 1024;

namespace {
class RowKernel {
public:
  RowKernel(GpuEmitter &e, WarpgroupForm &form, const KernelOutline &outline,
            const OperandTile &gradient, const OperandTile &output)
      : e(e), form(form), tasks(form.rows), outline(outline),
        gradient(gradient), output(output) {}

  LogicalResult emit();

private:
  void clearSum(Value address);
  void clearTurns(Workspace &workspace, Value tile);
  void bindTile(TileSlicer &slicer, vector::TransferReadOp read, Value address);
  FailureOr<Value> sumOfRow(TileSlicer &slicer, Value row, Value unit);

  GpuEmitter &e;
  WarpgroupForm &form;
  RowTasks &tasks;
  const KernelOutline &outline;
  const OperandTile &gradient, &output;
  Value id, shared;
};
} // namespace

void RowKernel::clearSum(Value address) {
  e.loop(id, e.i32(QuerySum(form).elements() / 4), e.i32(kThreads), {},
         [&](Value unit, ValueRange) {
           Value offset = e.mul(unit, kUnitBytes);
           offset =
               arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), offset);
           e.ptx("st.global.v4.b32 [$0], {$1, $1, $1, $1};", "l,r,~{memory}",
                 {e.add(address, offset), e.i32(0)});
           return SmallVector<Value>();
         });
}

/// One block of threads clears the counter of tasks, too.
void RowKernel::clearTurns(Workspace &workspace, Value tile) {
  Value isFirst = e.equals(id, 0);
  e.branch(isFirst, [&]() {
    for (const char *half : {"", "+16"})
      e.ptx(
          ("st.global.v4.b32 [$0" + Twine(half) + "], {$1, $1, $1, $1};").str(),
          "l,r,~{memory}", {workspace.turns(tile), e.i32(0)});
  });
  e.branch(e.both(isFirst, e.equals(tile, 0)), [&]() {
    e.ptx("st.global.b32 [$0], $1;", "l,r,~{memory}",
          {workspace.taskCounter(), e.i32(0)});
  });
}

void RowKernel::bindTile(TileSlicer &slicer, vector::TransferReadOp read,
                         Value address) {
  slicer.bind(read, [this, address](const TileSlicer::Piece &piece) -> Value {
    // Row r of a chunk has its 16-byte unit u at u ^ (r mod 8).
    Value row = e.toI32(piece.row), unit = e.div(e.toI32(piece.column), kUnit);
    Value chunk = e.div(unit, kChunk / kUnit);
    Value place =
        e.bitXor(e.bitAnd(unit, kChunk / kUnit - 1), e.bitAnd(row, 7));
    Value line = e.add(e.mul(chunk, form.blockQuery), row);
    Value at = e.add(e.add(address, e.mul(line, kChunkRowBytes)),
                     e.mul(place, kUnitBytes));
    SmallVector<Type> words(4, e.b.getI32Type());
    SmallVector<Value> loaded =
        e.ptx("ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];",
              "=r,=r,=r,=r,r,~{memory}", words, {at});
    Value whole = vector::FromElementsOp::create(
        e.b, e.loc, VectorType::get(4, e.b.getI32Type()), loaded);
    return vector::BitCastOp::create(
        e.b, e.loc, VectorType::get(kUnit, form.elementType), whole);
  });
}

FailureOr<Value> RowKernel::sumOfRow(TileSlicer &slicer, Value row,
                                     Value unit) {
  Value sum = e.f32(0);
  for (int64_t column = 0; column < form.valueDim; column += kChunk) {
    Value first = e.add(e.mul(unit, kUnit), column);
    FailureOr<Value> terms =
        slicer.tile(tasks.sum.getSource(), {row, e.toIndex(first), kUnit});
    if (failed(terms))
      return failure();
    sum = vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::ADD,
                                      *terms, sum);
  }
  for (int64_t distance : {1, 2, 4})
    sum = arith::AddFOp::create(e.b, e.loc, sum, e.fromLane(sum, distance));
  FailureOr<Value> initial =
      slicer.rowElement(tasks.sum.getAcc(), {row, e.index(0), 0});
  if (failed(initial))
    return failure();
  return Value(arith::AddFOp::create(e.b, e.loc, sum, *initial));
}

LogicalResult RowKernel::emit() {
  id = NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type());
  shared = sharedMemory(e, outline.module);
  Value tile = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  IRMapping scalars = enterTask(e, tasks.tasks, outline, tile);
  cloneScalars(e, *tasks.tasks.getBody(), scalars);
  Ring ring;
  ring.stages = 1;
  ring.stageBytes = gradient.bytes() + output.bytes();
  ring.tiles = kTilesAt;
  Slot slot{e.i32(0), e.i32(0)};
  Value gradients = ring.address(e, shared, slot);
  Value outputs = e.add(gradients, gradient.bytes());
  e.branch(e.equals(id, 0), [&]() {
    ring.initialize(e, shared);
    NVVM::FenceMbarrierInitOp::create(e.b, e.loc);
    ring.expect(e, shared, slot);
    Value barrier = ring.fullBarrier(e, shared, slot);
    auto rowOf = [&](vector::TransferReadOp read) {
      return e.toI32(scalars.lookupOrDefault(read.getIndices()[0]));
    };
    gradient.load(e, outline.tensorMaps[0], scalars,
                  rowOf(tasks.outputGradient), gradients, barrier);
    output.load(e, outline.tensorMaps[1], scalars, rowOf(tasks.output), outputs,
                barrier);
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
  Workspace workspace(e, form, outline);
  if (form.isAccumulated())
    clearSum(workspace.querySum(tile));
  if (form.isOrdered())
    clearTurns(workspace, tile);
  ring.waitFull(e, shared, slot);

  TileSlicer slicer(e.b, e.loc, scalars);
  bindPaddedRows(e, slicer, scalars, *tasks.tasks.getBody());
  bindTile(slicer, tasks.outputGradient, gradients);
  bindTile(slicer, tasks.output, outputs);
  Value unit = e.bitAnd(id, kThreadsPerRow - 1);
  Value delta = workspace.delta(tile), reference = workspace.reference(tile);
  for (int64_t first = 0; first < form.blockQuery;
       first += kThreads / kThreadsPerRow) {
    Value row = e.add(e.div(id, kThreadsPerRow), first);
    TileSlicer::Piece piece{e.toIndex(row), e.index(0), 0};
    FailureOr<Value> sum = sumOfRow(slicer, piece.row, unit);
    if (failed(sum))
      return failure();
    slicer.bind(tasks.sum, [&](const TileSlicer::Piece &) { return *sum; });
    for (auto [write, address] :
         {std::pair{tasks.delta, delta}, {tasks.reference, reference}}) {
      FailureOr<Value> number = slicer.rowElement(write.getVector(), piece);
      if (failed(number))
        return failure();
      Value at =
          e.add(address, arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                                e.mul(row, 4)));
      e.branch(e.equals(unit, 0), [&, number = *number]() {
        e.ptx("st.global.f32 [$0], $1;", "l,f,~{memory}", {at, number});
      });
    }
  }
  return success();
}

LogicalResult hopper::emitRowKernel(WarpgroupForm &form,
                                    gpu::GPUModuleOp &module) {
  RowTasks &tasks = form.rows;
  FailureOr<OperandTile> gradient =
      findOperand(tasks.outputGradient, form.blockQuery);
  FailureOr<OperandTile> output = findOperand(tasks.output, form.blockQuery);
  FailureOr<std::string> count = countTasks(tasks.tasks);
  FailureOr<std::string> workspace = Workspace::bytes(form);
  if (failed(gradient) || failed(output) || failed(count) || failed(workspace))
    return failure();
  Launch launch;
  launch.grid = *count;
  launch.workgroup = kThreads;
  launch.sharedMemory = kTilesAt + gradient->bytes() + output->bytes();
  launch.tensorMaps = {gradient->tensorMap(), output->tensorMap()};
  launch.workspace = *workspace;
  FailureOr<KernelOutline> outline = addKernel(
      tasks.tasks, launch, (form.function.getName() + "_rows").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, tasks.tasks.getLoc()};
  return RowKernel(e, form, *outline, *gradient, *output).emit();
}
