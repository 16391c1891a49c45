//===- GradientTask.cpp - A task over keys or queries ---------------------===//

#include "GradientTask.h"
#include "../Common/RoleTable.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;
using vector::ContractionOp;
using vector::TransferReadOp;
using vector::TransferWriteOp;

//===----------------------------------------------------------------------===//
// The form
//===----------------------------------------------------------------------===//

bool GradientForm::isKeyTask() const {
  scf::ForallOp loop = tasks;
  return getRole(loop) == role::kKeyTasks;
}

FailureOr<GradientForm> GradientForm::read(scf::ForallOp tasks) {
  RoleTable roles(tasks);
  GradientForm form;
  form.tasks = tasks;
  form.sweep = roles.get<scf::ForOp>(role::kSweep, /*required=*/false);
  form.reach = roles.get<scf::IfOp>(role::kReach, /*required=*/false);
  form.masked = dyn_cast_or_null<scf::IfOp>(roles.find(role::kMasked));
  form.seen = roles.get<vector::MultiDimReductionOp>(role::kSeen, false);
  form.scores = roles.get<ContractionOp>(role::kScores, false);
  form.probabilityGradient =
      roles.get<ContractionOp>(role::kProbabilityGradient, false);
  if (Operation *op = roles.find(role::kProbabilities))
    form.probabilities = op->getResult(0);
  for (StringRef role :
       {role::kValueGradient, role::kKeyGradient, role::kQueryGradient})
    if (auto product = roles.get<ContractionOp>(role, /*required=*/false))
      form.sums.push_back(product);
  if (!roles.isValid())
    return failure();
  if (form.sweep && !form.probabilities)
    return tasks.emitOpError("expects an operation with attn.role = \"")
           << role::kProbabilities << "\" in its sweep";
  for (Operation *op : roles.all(role::kOutput))
    form.outputs.push_back(cast<TransferWriteOp>(op));
  for (Operation *op : roles.all(role::kKey)) {
    Value flags = cast<TransferReadOp>(op).getMask();
    // The vector of keys that was spread over the columns, and no further.
    while (flags && cast<VectorType>(flags.getType()).getRank() > 1) {
      Operation *spread = flags.getDefiningOp();
      if (!isa_and_nonnull<vector::BroadcastOp, vector::ShapeCastOp>(spread))
        break;
      flags = spread->getOperand(0);
    }
    if (flags)
      form.seenKeys = flags;
  }
  return form;
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// Rows or keys `first`, `first` + `distance`, ...
static Registers spread(GpuEmitter &e, Value first, int64_t count,
                        int64_t distance) {
  Registers numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(e.add(first, i * distance));
  return numbers;
}

GradientTask::GradientTask(LaneThread &thread, GradientLanes &gradients,
                           GradientForm &form, IRMapping &scalars)
    : thread(thread), e(thread.e), gradients(gradients), tiles(gradients.tiles),
      form(form), scalars(scalars), blockQuery(gradients.tiling.blockQuery),
      blockKey(gradients.tiling.blockKey),
      row(e.rem(e.div(thread.id, tiles.columnThreads), tiles.rowThreads)),
      column(e.rem(thread.id, tiles.columnThreads)),
      group(e.div(thread.id, tiles.columnThreads)),
      isWriter(tiles.hasCopies() ? e.less(group, e.index(tiles.rowThreads))
                                 : Value()),
      pairs(e, scalars, spread(e, row, tiles.rows, tiles.rowThreads),
            spread(e, column, tiles.keys, tiles.columnThreads), {}),
      seen(thread, pairs, scalars, seenWords,
           {form.seen, form.masked, form.seenKeys, blockKey, tiles.rowThreads},
           row, isWriter) {
  pairs.padRows();
  VectorType quad = thread.quadType();
  leftStep = allocateShared(e, tiles.leftQuads, quad);
  rightStep = allocateShared(e, tiles.rightQuads, quad);
  // P or dX: a line a row or a line a key.
  int64_t together =
      LaneGradientTiles::vectorOf(form.isKeyTask() ? tiles.keys : tiles.rows);
  factor = allocateShared(e, blockQuery * blockKey / together,
                          VectorType::get(together, thread.type));
  seenWords =
      allocateShared(e, tiles.seenBytes / sizeof(int32_t), e.b.getI32Type());
  for (TransferWriteOp output : form.outputs) {
    int64_t width = output.getVectorType().getDimSize(1);
    if (!frames.count(width))
      frames.emplace(width, makeFrame(width));
  }
  if (form.isKeyTask() || tiles.termBytes == 0)
    return;
  terms = allocateShared(e, blockQuery * blockKey, thread.type);
  places = allocateShared(e, blockQuery * blockKey, e.b.getI32Type());
}

AccumulatorFrame GradientTask::makeFrame(int64_t width) {
  bool ofKeys = form.isKeyTask();
  int64_t quads = llvm::divideCeil(width, LaneTiles::kQuad);
  int64_t threads =
      ofKeys ? tiles.keyGradientThreads() : tiles.queryGradientThreads();
  int64_t count = llvm::divideCeil(quads, threads);
  Value first = group;
  if (!ofKeys)
    first = e.add(e.mul(e.div(group, tiles.rowThreads), tiles.columnThreads),
                  column);
  Registers columns;
  for (Value quad : spread(e, first, count, threads))
    for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
      columns.push_back(e.add(e.mul(quad, LaneTiles::kQuad), d));
  Registers lines(ofKeys ? pairs.keyNumbers() : pairs.rowNumbers());
  int64_t size = lines.size() * columns.size();
  return {LaneLayout(e, scalars, lines, {}, columns),
          first,
          count,
          threads,
          quads,
          size};
}

AccumulatorFrame &GradientTask::frameOf(Value accumulator) {
  return frames.at(cast<VectorType>(accumulator.getType()).getDimSize(1));
}

//===----------------------------------------------------------------------===//
// Accumulators of loops
//===----------------------------------------------------------------------===//

Registers GradientTask::flatten(ValueRange values) {
  Registers numbers;
  for (Value value : values) {
    auto found = accumulators.find(value);
    if (found != accumulators.end())
      llvm::append_range(numbers, found->second);
    else // zeros, which a sweep starts with
      numbers.append(frameOf(value).size, e.zero(thread.type));
  }
  return numbers;
}

void GradientTask::bindAccumulators(ValueRange values, ValueRange numbers) {
  for (Value value : values) {
    AccumulatorFrame &frame = frameOf(value);
    accumulators[value] = Registers(numbers.take_front(frame.size));
    frame.layout.bindTile(value, accumulators[value]);
    numbers = numbers.drop_front(frame.size);
  }
}

//===----------------------------------------------------------------------===//
// The nest
//===----------------------------------------------------------------------===//

LogicalResult GradientTask::write(TransferWriteOp write) {
  AccumulatorFrame &frame = frameOf(write.getVector());
  return writeTile(thread, scalars, frame.layout, write, frame.distance);
}

LogicalResult GradientTask::emitSweepBody(Block &block) {
  GradientScalars lane(e, scalars);
  if (!form.reach)
    return success(succeeded(lane.clone(block)) &&
                   succeeded(visitBlock(block)));
  auto reduceAny = [&](vector::MultiDimReductionOp op) -> FailureOr<Value> {
    Operation *flags = form.seen;
    if (flags && op.getSource().getDefiningOp() == flags)
      return seen.voteAny();
    return lane.reduce(op);
  };
  if (failed(lane.clone(block, reduceAny)))
    return failure();
  Block &body = *form.reach.thenBlock();
  ValueRange kept, next;
  if (form.reach.getNumResults() != 0) {
    kept = form.reach.elseYield().getOperands();
    next = form.reach.thenYield().getOperands();
  }
  bool valid = true;
  Registers old = flatten(kept);
  Registers numbers =
      e.branch(scalars.lookup(form.reach.getCondition()), old, [&]() {
        valid = succeeded(GradientScalars(e, scalars).clone(body)) &&
                succeeded(visitBlock(body));
        return valid ? flatten(next) : old;
      });
  bindAccumulators(form.reach.getResults(), numbers);
  return success(valid);
}

LogicalResult GradientTask::emitLoop(scf::ForOp loop) {
  Registers inits = flatten(loop.getInitArgs());
  IRMapping outside = scalars;
  bool valid = true;
  Registers results = e.loop(
      scalars.lookup(loop.getLowerBound()),
      scalars.lookup(loop.getUpperBound()), scalars.lookup(loop.getStep()),
      inits, [&](Value position, ValueRange carried) {
        scalars.map(loop.getInductionVar(), position);
        bindAccumulators(loop.getRegionIterArgs(), carried);
        valid &= succeeded(loop == form.sweep ? emitSweepBody(*loop.getBody())
                                              : emitBlock(*loop.getBody()));
        return valid ? flatten(loop.getBody()->getTerminator()->getOperands())
                     : Registers(carried);
      });
  scalars = outside;
  bindAccumulators(loop.getResults(), results);
  return success(valid);
}

LogicalResult GradientTask::emitBlock(Block &block) {
  if (failed(GradientScalars(e, scalars).clone(block)))
    return failure();
  for (Operation &op : block.without_terminator()) {
    LogicalResult emitted = success();
    if (auto loop = dyn_cast<scf::ForOp>(op))
      emitted = emitLoop(loop);
    else if (auto stored = dyn_cast<TransferWriteOp>(op))
      emitted = write(stored);
    if (failed(emitted))
      return failure();
  }
  return success();
}

LogicalResult spv::emitGradientKernel(GradientLanes &gradients,
                                      scf::ForallOp tasks,
                                      gpu::GPUModuleOp &module) {
  FailureOr<GradientForm> form = GradientForm::read(tasks);
  if (failed(form))
    return failure();
  return addLaneKernel(
      gradients, tasks, form->isKeyTask() ? "keys" : "queries", module,
      [&](LaneThread &thread, IRMapping &scalars) {
        return GradientTask(thread, gradients, *form, scalars).emit();
      });
}
