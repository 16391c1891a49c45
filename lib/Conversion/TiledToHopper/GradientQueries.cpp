//===- GradientQueries.cpp - The query gradient from its sum --------------===//
//
// A block of threads a query block. The sum comes in the order of registers
// (QuerySum); the rounded gradient goes to shared memory and leaves by TMA.
//
//===----------------------------------------------------------------------===//

#include "../Common/FragmentSoftmax.h"
#include "../Common/TaskLoop.h"
#include "Consumer.h"
#include "GradientKernels.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Rounds the elements that thread `id` has and stores them to the tile at
/// `shared`, in the 128-byte swizzle.
static LogicalResult storeElements(GpuEmitter &e, WarpgroupForm &form,
                                   IRMapping &scalars, Value id, Value shared,
                                   Value address) {
  QuerySum sum(form);
  TileSlicer slicer(e.b, e.loc, scalars);
  Value group = e.div(id, kWarpgroup), inGroup = e.bitAnd(id, kWarpgroup - 1);
  Value lane = e.bitAnd(id, 31);
  Value inChunk = e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4));
  Value chunk = sum.chunk(e, group);
  Value firstQuery =
      e.add(sum.firstQuery(e, group), e.mul(e.bitAnd(lane, 3), 2));
  Value first =
      e.add(address, arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                            sum.offset(e, group, inGroup)));
  SmallVector<Type> types(4, e.b.getF32Type());
  for (int64_t eight = 0; eight < sum.queries() / 8; ++eight) {
    Value at = e.add(first, eight * QuerySum::kStride);
    SmallVector<Value> numbers =
        e.ptx("ld.global.v4.f32 {$0, $1, $2, $3}, [$4];",
              "=f,=f,=f,=f,l,~{memory}", types, {at});
    for (int64_t n = 0; n < 4; ++n) {
      Value query = e.add(firstQuery, 8 * eight + n % 2);
      Value column = e.add(inChunk, 8 * (n / 2));
      slicer.bind(form.queries.querySum,
                  [&](const TileSlicer::Piece &) { return numbers[n]; });
      FailureOr<Value> rounded =
          slicer.tile(form.queries.output.getVector(),
                      {e.toIndex(query),
                       e.toIndex(e.add(e.mul(chunk, kChunk), column)), 0});
      if (failed(rounded))
        return failure();
      Value line = e.add(e.mul(chunk, form.blockQuery), query);
      Value unit = e.bitXor(e.div(column, 8), e.bitAnd(query, 7));
      Value place = e.add(
          e.add(e.add(shared, e.mul(line, kChunkRowBytes)), e.mul(unit, 16)),
          e.mul(e.bitAnd(column, 7), 2));
      Value bits =
          arith::BitcastOp::create(e.b, e.loc, e.b.getI16Type(), *rounded);
      e.ptx("st.shared.b16 [$0], $1;", "r,h,~{memory}", {place, bits});
    }
  }
  return success();
}

static LogicalResult emitBody(GpuEmitter &e, WarpgroupForm &form,
                              const KernelOutline &outline,
                              const OperandTile &output) {
  QueryTasks &tasks = form.queries;
  Value id = NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type());
  Value shared = sharedMemory(e, outline.module);
  Value number = NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type());
  IRMapping scalars = enterTask(e, tasks.tasks, outline, number);
  cloneScalars(e, *tasks.tasks.getBody(), scalars);
  Value firstRow =
      e.toI32(scalars.lookupOrDefault(tasks.querySum.getIndices()[0]));
  SmallVector<Value> ids;
  for (Value variable : tasks.tasks.getInductionVars())
    ids.push_back(e.toI32(scalars.lookup(variable)));
  Workspace workspace(e, form, outline);
  Value tile = workspace.tile(ids[0], ids[1], e.div(firstRow, form.blockQuery));
  if (failed(storeElements(e, form, scalars, id, shared,
                           workspace.querySum(tile))))
    return failure();
  fenceAsyncProxy(e);
  NVVM::Barrier0Op::create(e.b, e.loc);
  e.branch(e.equals(id, 0), [&]() {
    output.store(e, outline.tensorMaps[0], scalars, firstRow, shared);
    NVVM::CpAsyncBulkCommitGroupOp::create(e.b, e.loc);
    NVVM::CpAsyncBulkWaitGroupOp::create(e.b, e.loc, 0, e.b.getUnitAttr());
  });
  return success();
}

LogicalResult hopper::emitQueryKernel(WarpgroupForm &form,
                                      gpu::GPUModuleOp &module) {
  QueryTasks &tasks = form.queries;
  FailureOr<OperandTile> output = findOperand(tasks.output, form.blockQuery);
  FailureOr<std::string> count = countTasks(tasks.tasks);
  FailureOr<std::string> workspace = Workspace::bytes(form);
  if (failed(output) || failed(count) || failed(workspace))
    return failure();
  Launch launch;
  launch.grid = *count;
  launch.workgroup = form.tiling.groups * kWarpgroup;
  launch.sharedMemory = output->bytes();
  launch.tensorMaps = {output->tensorMap()};
  launch.workspace = *workspace;
  FailureOr<KernelOutline> outline =
      addKernel(tasks.tasks, launch,
                (form.function.getName() + "_queries").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, tasks.tasks.getLoc()};
  return emitBody(e, form, *outline, *output);
}
