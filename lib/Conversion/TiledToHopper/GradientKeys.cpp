//===- GradientKeys.cpp - The kernel over key blocks ----------------------===//
//
// A block of threads for 128 keys of a head: one thread copies, two warpgroups
// of 64 keys multiply (GradientConsumer.cpp). Where head dimensions are wide
// both work on the same 64 keys (GradientRoles.cpp). Keys and values stay for
// the whole task; queries and output gradients pass by in stages, each with a
// number a row. Blocks of a head are neighbours in the grid, so they share its
// queries in L2; under a causal mask the first of them are the longest.
//
// Shared memory, each tile on 1024 bytes for the 128-byte swizzle:
//
//   barriers, number of the task, references, deltas | keys | values | query
//   stages | output gradient stages | two buffers of dS or P
//
//===----------------------------------------------------------------------===//

#include "../Common/FragmentSoftmax.h"
#include "../Common/TaskLoop.h"
#include "GradientTurns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// What the 128-byte swizzle repeats after, and a bulk copy.
static constexpr int64_t kTileAlignment = 1024, kRowAlignment = 128;
static constexpr int64_t kWarps = kWarpgroup / 32;
static constexpr int64_t kNumberBytes = 4;

void KeyKernel::placeShared() {
  int64_t at = 0;
  for (Ring *ring : {&keyRing, &queryRing, &gradientRing}) {
    ring->barriers = at;
    at += ring->barrierBytes();
  }
  numberAt = at;
  if (form.isOrdered())
    at += kNumberBytes;
  referencesAt = llvm::alignTo(at, kRowAlignment);
  deltasAt = referencesAt + stages * rowBytes();
  at = deltasAt + stages * rowBytes();
  for (Ring *ring : {&keyRing, &queryRing, &gradientRing}) {
    ring->tiles = llvm::alignTo(at, kTileAlignment);
    at = ring->tiles + ring->stages * ring->stageBytes;
  }
  exchangeAt = llvm::alignTo(at, kTileAlignment);
  sharedBytes = exchangeAt + 2 * exchangeBytes();
}

FailureOr<KeyKernel> KeyKernel::plan(WarpgroupForm &form) {
  KeyKernel kernel(form);
  KeyTasks &keys = form.keys;
  bool valid = true;
  auto find = [&](OperandTile &tile, VectorTransferOpInterface access,
                  int64_t rows) {
    FailureOr<OperandTile> found = findOperand(access, rows);
    valid &= succeeded(found);
    if (succeeded(found))
      tile = *found;
  };
  find(kernel.key, keys.key, form.blockKey);
  find(kernel.value, keys.value, form.blockKey);
  find(kernel.query, keys.query, form.blockQuery);
  find(kernel.outputGradient, keys.outputGradient, form.blockQuery);
  // A warpgroup writes its own rows.
  find(kernel.keyOutput, keys.keyOutput, kRows);
  find(kernel.valueOutput, keys.valueOutput, kRows);
  if (!valid)
    return failure();
  int64_t consumers = kernel.groups * kWarps;
  kernel.keyRing.stages = 1;
  kernel.keyRing.stageBytes = kernel.key.bytes() + kernel.value.bytes();
  kernel.keyRing.consumers = consumers;
  kernel.queryRing.stages = kernel.gradientRing.stages = kernel.stages;
  kernel.queryRing.stageBytes = kernel.query.bytes();
  kernel.gradientRing.stageBytes = kernel.outputGradient.bytes();
  for (Ring *ring : {&kernel.queryRing, &kernel.gradientRing}) {
    ring->besideBytes = kernel.rowBytes();
    ring->consumers = consumers;
  }
  kernel.placeShared();
  return kernel;
}

Launch KeyKernel::launch(StringRef tasks, StringRef workspace) const {
  Launch launch;
  launch.grid = tasks.str();
  launch.workgroup = threads();
  launch.sharedMemory = sharedBytes;
  for (const OperandTile *tile :
       {&key, &value, &query, &outputGradient, &keyOutput, &valueOutput})
    launch.tensorMaps.push_back(tile->tensorMap());
  launch.workspace = workspace.str();
  return launch;
}

IRMapping KeyThread::enterStep(Value head, Value row) {
  KeyTasks &keys = kernel.form.keys;
  IRMapping step(scalars);
  step.map(keys.group.getInductionVar(), e.toIndex(head));
  cloneScalars(e, *keys.group.getBody(), step);
  step.map(keys.sweep.getInductionVar(), e.toIndex(row));
  cloneScalars(e, *keys.sweep.getBody(), step);
  return step;
}

SmallVector<Value> KeyThread::forEachStep(
    ValueRange inits,
    function_ref<SmallVector<Value>(Value, Value, ValueRange)> body) {
  KeyTasks &keys = kernel.form.keys;
  // Counted in 32 bits: what a loop keeps takes half the registers.
  auto bounds = [&](scf::ForOp loop) {
    std::array<Value, 3> bounds = {loop.getLowerBound(), loop.getUpperBound(),
                                   loop.getStep()};
    for (Value &bound : bounds)
      bound = e.toI32(scalars.lookupOrDefault(bound));
    return bounds;
  };
  auto heads = bounds(keys.group), rows = bounds(keys.sweep);
  return e.loop(heads[0], heads[1], heads[2], inits,
                [&](Value head, ValueRange outer) {
                  return e.loop(rows[0], rows[1], rows[2], outer,
                                [&](Value row, ValueRange inner) {
                                  return body(head, row, inner);
                                });
                });
}

/// Copies a number a row to shared memory, and tells `barrier` of its bytes.
static void copyRows(GpuEmitter &e, Value from, Value to, int64_t bytes,
                     Value barrier) {
  e.ptx("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[$0], [$1], $2, [$3];",
        "r,l,r,r,~{memory}", {to, from, e.i32(bytes), barrier});
}

static void emitCopies(KeyThread &thread) {
  GpuEmitter &e = thread.e;
  const KeyKernel &kernel = thread.kernel;
  const KernelOutline &outline = thread.outline;
  KeyTasks &keys = kernel.form.keys;
  Workspace workspace(e, kernel.form, outline);
  Slot first{e.i32(0), e.i32(0)};
  Value keyAddress = kernel.keyRing.address(e, thread.shared, first);
  Value keyBarrier = kernel.keyRing.fullBarrier(e, thread.shared, first);
  auto rowOf = [&](vector::TransferReadOp read, IRMapping &scalars) {
    return e.toI32(scalars.lookupOrDefault(read.getIndices()[0]));
  };
  kernel.keyRing.expect(e, thread.shared, first);
  kernel.key.load(e, outline.tensorMaps[KeyTileMap], thread.scalars,
                  rowOf(keys.key, thread.scalars), keyAddress, keyBarrier);
  kernel.value.load(e, outline.tensorMaps[ValueTileMap], thread.scalars,
                    rowOf(keys.value, thread.scalars),
                    e.add(keyAddress, kernel.key.bytes()), keyBarrier);
  Value batch =
      e.toI32(thread.scalars.lookup(keys.tasks.getInductionVars()[0]));
  thread.forEachStep(e.i32(0), [&](Value head, Value row, ValueRange carried) {
    IRMapping step = thread.enterStep(head, row);
    Value use = carried[0];
    Slot slot = kernel.queryRing.slot(e, use);
    Value tile =
        workspace.tile(batch, head, e.div(row, kernel.form.blockQuery));
    auto copy = [&](const Ring &ring, const OperandTile &operand,
                    vector::TransferReadOp read, GradientMap map, Value rows,
                    int64_t rowsAt) {
      ring.waitEmpty(e, thread.shared, slot);
      ring.expect(e, thread.shared, slot);
      Value barrier = ring.fullBarrier(e, thread.shared, slot);
      operand.load(e, outline.tensorMaps[map], step, rowOf(read, step),
                   ring.address(e, thread.shared, slot), barrier);
      Value to = e.add(e.add(thread.shared, rowsAt),
                       e.mul(slot.stage, kernel.rowBytes()));
      copyRows(e, rows, to, kernel.rowBytes(), barrier);
    };
    copy(kernel.queryRing, kernel.query, keys.query, QueryTileMap,
         workspace.reference(tile), kernel.referencesAt);
    copy(kernel.gradientRing, kernel.outputGradient, keys.outputGradient,
         OutputGradientMap, workspace.delta(tile), kernel.deltasAt);
    return SmallVector<Value>{e.add(use, 1)};
  });
}

static LogicalResult emitThread(KeyThread &thread) {
  GpuEmitter &e = thread.e;
  const KeyKernel &kernel = thread.kernel;
  scf::ForallOp tasks = kernel.form.keys.tasks;
  bool isOrdered = kernel.form.isOrdered();
  Value number =
      isOrdered ? takeTask(thread)
                : Value(NVVM::BlockIdXOp::create(e.b, e.loc, e.b.getI32Type()));
  thread.scalars = enterTask(e, tasks, thread.outline, number);
  cloneScalars(e, *tasks.getBody(), thread.scalars);
  if (isOrdered)
    thread.firstRowBehind = firstRowBehind(thread, number);
  auto consume =
      kernel.form.splitsRoles() ? emitSplitConsumer : emitGradientConsumer;
  return specialiseWarpgroups(
      e, thread.id, thread.shared,
      {&kernel.keyRing, &kernel.queryRing, &kernel.gradientRing},
      [&]() { emitCopies(thread); },
      [&](Value group) { return consume(thread, group); });
}

LogicalResult hopper::emitKeyKernel(WarpgroupForm &form,
                                    gpu::GPUModuleOp &module) {
  FailureOr<KeyKernel> kernel = KeyKernel::plan(form);
  FailureOr<std::string> count = countTasks(form.keys.tasks);
  FailureOr<std::string> workspace = Workspace::bytes(form);
  if (failed(kernel) || failed(count) || failed(workspace))
    return failure();
  FailureOr<KernelOutline> outline =
      addKernel(form.keys.tasks, kernel->launch(*count, *workspace),
                (form.function.getName() + "_keys").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.keys.tasks.getLoc()};
  Value id = NVVM::ThreadIdXOp::create(b, e.loc, b.getI32Type());
  KeyThread thread{e,  *kernel, *outline, id, sharedMemory(e, outline->module),
                   {}, {}};
  return emitThread(thread);
}
