//===- TileBackward.cpp - The gradients as loop nests ---------------------===//
//
// attn-tile replaces the memref form of attn.attention_backward by four loop
// nests. No score was kept: the second and the third compute each block again,
// the probabilities from the lse of the forward.
//
//   for each (batch, query head, query block)                "delta_tasks"
//     delta = row sum of dO * O, less the gradient of the lse      "delta"
//
//   for each (batch, key/value head g, key block)            "key_tasks"
//     K, V = key, value[b, g, keys of the block, :]          "key", "value"
//     dK = 0, dV = 0
//     for each query head h of g
//       for each query block that the masks reach            "sweep", "reach"
//         Q, dO = query, output gradient[b, h, rows, :]      "query", ...
//         P, dX = the block, see below
//         dV = dV + P^T dO                                   "value_gradient"
//         dK = dK + dX^T Q                                   "key_gradient"
//     key gradient, value gradient = scale * dK, dV          "output"
//
//   for each (batch, query head, query block)                "query_tasks"
//     dQ = 0
//     for each key block that the masks reach                "sweep", "reach"
//       P, dX = the block
//       dQ = dQ + dX K                                       "query_gradient"
//       bias gradient, capture gradients += what the block adds
//     query gradient = scale * dQ                            "output"
//
//   for each query head                                      "sink_tasks"
//     sink gradient = - sum over its rows of exp(sink - lse) * delta
//
// A block of rows and keys is
//
//     S  = scores as in the forward (TileScore, TileMask)    "scores"
//     P  = exp(S - lse)                                      "probabilities"
//     dP = dO V^T                                "probability_gradient"
//     dS = P * (dP - delta)                                  "score_gradient"
//     dX = dS * d S / d (scale * Q K^T)
//
// Every element of dK and dV is written by one task, heads of a group are
// summed in its accumulators, and so is dQ: no addition depends on the order
// of tasks. The price is that S and dP are computed twice: this is the
// `recomputed` of `query_gradient` in #attn.tiling.
//
// With `accumulated` the key tasks add what a block gives to dQ in main memory,
// in f32 and in any order:
//
//   in "delta_tasks"
//     reference = - lse, what exponents start from             "reference"
//     sum of dQ = 0                                            "query_sum"
//   in a block of "key_tasks"
//     dQ = 0 + dX K                                            "query_gradient"
//     sum of dQ = sum of dQ + dQ, atomically                   "query_sum"
//   in "query_tasks"
//     query gradient = scale * sum of dQ                       "query_sum"
//
// and with `ordered` in one order, that of the back end: equal inputs give
// equal bits. There delta, reference and sum have rows of whole blocks, so that
// none of them has an edge. For CUDA there are a reference and whole blocks in
// either schedule. Gradients of bias and captures are added up by parallel
// tasks there, atomically, unless the op is deterministic ("attn.in_order").
//
// Padding: a row past the end reads zeros and an lse of +inf, so P is 0, and
// it adds nothing to dK and dV. With a score region or a bias its P is set to
// 0: what a region makes of padding may be NaN, and a back end may read a real
// row's bias in the place of padding. A key past the end is hidden.
//
// What is hidden may be NaN. Where a block may hold keys that no row sees, dS
// is set to 0 where P is 0, and dQ leaves those keys out; after a region or a
// softcap so is dX, whatever the derivative of a hidden score is (C17).
//
// Dao et al., "FlashAttention" (2022), algorithm 4, with the loops of dQ apart
// as in Dao, "FlashAttention-2" (2023), section 3.2.
//
//===----------------------------------------------------------------------===//

#include "TileBackward.h"
#include "BackwardTiler.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

scf::ForallOp BackwardTiler::enterTasks(ArrayRef<Index> counts,
                                        StringRef role) {
  auto tasks = scf::ForallOp::create(b, counts, ValueRange(), std::nullopt);
  setRole(tasks, role);
  tasks->setAttr(kTilingAttrName, op.getTilingAttr());
  if (TargetAttr target = op.getTargetAttr())
    tasks->setAttr(kTargetAttrName, target);
  b.setInsertionPoint(tasks.getTerminator());
  return tasks;
}

SmallVector<Value>
BackwardTiler::loop(Index begin, Index end, int64_t step, ValueRange initial,
                    StringRef role,
                    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, b.value(begin), b.value(end),
                                 b.value(number(step)), initial);
  if (!role.empty())
    setRole(loop, role);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value>
BackwardTiler::ifReached(TileMask &mask, ValueRange state,
                         function_ref<SmallVector<Value>()> body) {
  Value isReached = mask.reach();
  if (!isReached)
    return body();
  auto branch = scf::IfOp::create(b, state.getTypes(), isReached,
                                  /*withElseRegion=*/!state.empty());
  setRole(branch, role::kReach);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> next = body();
  if (state.empty())
    return {};
  scf::YieldOp::create(b, next);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, state);
  return SmallVector<Value>(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Key tasks
//===----------------------------------------------------------------------===//

SmallVector<Value> BackwardTiler::KeyAccumulators::values() const {
  SmallVector<Value> values;
  for (Value value : {key, this->value})
    if (value)
      values.push_back(value);
  return values;
}

BackwardTiler::KeyAccumulators
BackwardTiler::asAccumulators(ValueRange values) {
  KeyAccumulators accumulators;
  if (sizes.headDim != 0)
    accumulators.key = values.front();
  if (sizes.valueDim != 0)
    accumulators.value = values.back();
  return accumulators;
}

BackwardTiler::KeyAccumulators
BackwardTiler::visitRows(Value batch, Value head, Value firstRow,
                         const KeyRange &keys, Value firstKey, Value key,
                         Value value, KeyAccumulators state) {
  Task task = rowTask(batch, head, firstRow);
  task.keys = keys;
  TileMask mask(b, task);
  mask.enterBlock(firstKey);
  return asAccumulators(ifReached(mask, state.values(), [&] {
    RowTiles rows = readRows(task);
    BlockGradients block = computeBlock(task, mask, rows, key, value, firstKey,
                                        keys.hasHiddenStart || mask.hidesKeys(),
                                        /*addsToOthers=*/false);
    KeyAccumulators next;
    if (state.value)
      next.value =
          accumulate(block.probabilities, rows.outputGradient, state.value,
                     Transposed::Left, role::kValueGradient);
    if (state.key)
      next.key = accumulate(block.ofProducts, rows.query, state.key,
                            Transposed::Left, role::kKeyGradient);
    if (querySum)
      addToQuerySum(task, mask, key, block.ofProducts, firstKey);
    return next.values();
  }));
}

Value BackwardTiler::querySumView(const Task &task) {
  auto type = cast<MemRefType>(querySum.getType());
  Index length = type.isDynamicDim(2)
                     ? Index(memref::DimOp::create(b, querySum, 2).getResult())
                     : number(type.getDimSize(2));
  return headView(b, querySum, Layout::bhsd, task.batch, task.head, number(0),
                  length, sizes.headDim);
}

void BackwardTiler::addToQuerySum(const Task &task, TileMask &mask, Value key,
                                  Value ofProducts, Value firstKey) {
  // 0 * NaN is NaN: keys that no row sees are left out.
  TileValue seen;
  if (Value known = mask.seenKeys())
    seen = {known, Extent::PerColumn};
  if (task.keys.hasHiddenStart) {
    KeyRange range = computeKeyRange(b, op, sizes, task.batch);
    TileValue rest = {b.value(b.subtract(range.first, firstKey)),
                      Extent::Uniform};
    seen = b.conjunction(seen, b.combine<arith::CmpIOp>(
                                   b.step(Extent::PerColumn, b.getIndexType()),
                                   rest, arith::CmpIPredicate::sge));
  }
  if (seen) {
    Value isSeen =
        b.broadcastRows(b.broadcast(seen, Extent::PerColumn), sizes.headDim);
    key = arith::SelectOp::create(b, isSeen, key, b.constant(key.getType(), 0));
  }
  Value part = accumulate(ofProducts, key, zeros(b.rows, sizes.headDim),
                          Transposed::None, role::kQueryGradient);
  Value view = querySumView(task);
  SmallVector<Value> at = {task.firstRow, b.value(number(0))};
  SmallVector<bool> inBounds = {true, true};
  Value sum = read(b, cast<VectorType>(part.getType()), view, at,
                   b.constant(accumulator, 0), inBounds);
  sum = arith::AddFOp::create(b, sum, part);
  auto write = vector::TransferWriteOp::create(b, sum, view, at, inBounds);
  setRole(write, role::kQuerySum);
}

void BackwardTiler::buildKeyTasks() {
  Index keyBlocks = b.divideUp(sizes.kvLength, b.columns);
  OpBuilder::InsertionGuard guard(b);
  auto tasks =
      enterTasks({sizes.batch, sizes.kvHeads, keyBlocks}, role::kKeyTasks);
  SmallVector<Value> ids = tasks.getInductionVars();
  Value batch = ids[0], kvHead = ids[1];
  Value firstKey = b.value(b.multiply(ids[2], number(b.columns)));
  KeyRange keys = computeKeysFromStart(b, op, sizes, batch);

  KeyAccumulators state;
  Value key, value;
  auto read = [&](Value operand, Layout layout, int64_t width, StringRef role) {
    Value view = headView(b, operand, layout, batch, kvHead, number(0),
                          keys.count, width);
    return readTile(view, firstKey, width, b.columns, keys.isWhole, role);
  };
  if (sizes.headDim != 0) {
    key = read(op.getKey(), op.getKeyLayout(), sizes.headDim, role::kKey);
    state.key = zeros(b.columns, sizes.headDim);
  }
  if (sizes.valueDim != 0) {
    value =
        read(op.getValue(), op.getValueLayout(), sizes.valueDim, role::kValue);
    state.value = zeros(b.columns, sizes.valueDim);
  }
  QueryRange range = computeQueryRange(b, op, sizes, keys, firstKey);
  Index ratio = b.divide(sizes.queryHeads, sizes.kvHeads);
  Index firstHead = b.multiply(kvHead, ratio);
  SmallVector<Value> sums = loop(
      firstHead, b.add(firstHead, ratio), 1, state.values(), role::kGroup,
      [&](Value head, ValueRange outer) {
        return loop(range.begin, range.end, b.rows, outer, role::kSweep,
                    [&](Value firstRow, ValueRange inner) {
                      return visitRows(batch, head, firstRow, keys, firstKey,
                                       key, value, asAccumulators(inner))
                          .values();
                    });
      });
  state = asAccumulators(sums);
  std::optional<int64_t> length = getConstantIntValue(sizes.kvLength);
  bool inBounds = length && *length % b.columns == 0;
  writeRows(state.key, op.getOuts()[1], op.getKeyLayout(), batch, kvHead,
            sizes.kvLength, firstKey, inBounds, sizes.headDim,
            /*isScaled=*/true);
  writeRows(state.value, op.getOuts()[2], op.getValueLayout(), batch, kvHead,
            sizes.kvLength, firstKey, inBounds, sizes.valueDim,
            /*isScaled=*/false);
}

//===----------------------------------------------------------------------===//
// Query tasks
//===----------------------------------------------------------------------===//

void BackwardTiler::writeQueryGradient(Value batch, Value head,
                                       Value firstRow) {
  Task task = rowTask(batch, head, firstRow);
  Value sum = readTile(querySumView(task), firstRow, sizes.headDim, b.rows,
                       /*inBounds=*/true, role::kQuerySum);
  writeRows(sum, op.getOuts()[0], op.getQueryLayout(), batch, head,
            sizes.queryLength, firstRow, task.rowsAligned, sizes.headDim,
            /*isScaled=*/true);
}

void BackwardTiler::buildQueryTask(Value batch, Value head, Value firstRow) {
  if (isAccumulated)
    return writeQueryGradient(batch, head, firstRow);
  Task task = rowTask(batch, head, firstRow);
  task.keys = computeKeyRange(b, op, sizes, batch);
  RowTiles rows = readRows(task);
  SmallVector<Value> state;
  if (sizes.headDim != 0)
    state.push_back(zeros(b.rows, sizes.headDim));
  if (!isConstantIntValue(sizes.kvLength, 0)) {
    auto view = [&](Value operand, Layout layout, int64_t width) -> Value {
      return width == 0 ? Value()
                        : headView(b, operand, layout, batch, task.kvHead,
                                   task.keys.first, task.keys.count, width);
    };
    Value keyView = view(op.getKey(), op.getKeyLayout(), sizes.headDim);
    Value valueView = view(op.getValue(), op.getValueLayout(), sizes.valueDim);
    gradients.enterTask(b, task);
    TileMask mask(b, task);
    state =
        loop(mask.sweepBegin(), mask.sweepEnd(), b.columns, state, role::kSweep,
             [&](Value firstKey, ValueRange carried) {
               mask.enterBlock(firstKey);
               return ifReached(mask, carried, [&]() -> SmallVector<Value> {
                 auto read = [&](Value view, int64_t width, StringRef role,
                                 Value seen = {}) -> Value {
                   return view ? readTile(view, firstKey, width, b.columns,
                                          task.keys.isWhole, role,
                                          seen ? b.broadcastRows(seen, width)
                                               : Value())
                               : Value();
                 };
                 Value key = read(keyView, sizes.headDim, role::kKey);
                 Value value = read(valueView, sizes.valueDim, role::kValue);
                 BlockGradients block =
                     computeBlock(task, mask, rows, key, value, firstKey,
                                  mask.hidesKeys(), /*addsToOthers=*/true);
                 if (carried.empty())
                   return {};
                 // 0 * NaN is NaN: keys that no row sees are left out.
                 if (Value seen = mask.seenKeys())
                   key = read(keyView, sizes.headDim, role::kKey, seen);
                 return {accumulate(block.ofProducts, key, carried[0],
                                    Transposed::None, role::kQueryGradient)};
               });
             });
  }
  if (!state.empty())
    writeRows(state[0], op.getOuts()[0], op.getQueryLayout(), batch, head,
              sizes.queryLength, firstRow, task.rowsAligned, sizes.headDim,
              /*isScaled=*/true);
}

void BackwardTiler::buildQueryTasks() {
  gradients.initialize(b, op);
  Index counts[] = {sizes.batch, sizes.queryHeads,
                    b.divideUp(sizes.queryLength, b.rows)};
  OwnedAxes owned = findOwnedAxes(op);
  SmallVector<Index> parallel;
  for (unsigned axis = 0; axis < owned.size(); ++axis)
    parallel.push_back(owned[axis] ? counts[axis] : number(1));
  OpBuilder::InsertionGuard guard(b);
  auto tasks = enterTasks(parallel, role::kQueryTasks);
  if (op.getDeterministic() && !gradients.isEmpty())
    tasks->setAttr(kInOrderAttrName, b.getUnitAttr());
  SmallVector<Value> ids(tasks.getInductionVars());
  for (unsigned axis = 0; axis < owned.size(); ++axis) {
    if (owned[axis])
      continue;
    auto loop = scf::ForOp::create(b, b.value(number(0)), b.value(counts[axis]),
                                   b.value(number(1)));
    b.setInsertionPointToStart(loop.getBody());
    ids[axis] = loop.getInductionVar();
  }
  Index block = ids[2];
  // With a right bound later blocks see more keys: long tasks first.
  if (op.getBandRight() && owned[2])
    block = b.subtract(b.subtract(counts[2], number(1)), block);
  buildQueryTask(ids[0], ids[1], b.value(b.multiply(block, number(b.rows))));
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

void BackwardTiler::run() {
  bool hasNoRow = llvm::any_of(
      ArrayRef<Index>{sizes.batch, sizes.queryHeads, sizes.queryLength},
      [](Index size) { return isConstantIntValue(size, 0); });
  if (hasNoRow) {
    for (Value destination : op.getOuts())
      fillWithZeros(b, op, destination);
    return op.erase();
  }
  buildDelta();
  if (!isConstantIntValue(sizes.kvLength, 0))
    buildKeyTasks();
  if (!isAccumulated || querySum)
    buildQueryTasks();
  if (op.getSinksGradient())
    buildSinks();
  op.erase();
}

static LogicalResult verifySchedule(AttentionBackwardOp op) {
  std::string schedule = op.getTilingAttr().getValue().queryGradient;
  if (schedule.empty() || schedule == "recomputed")
    return success();
  if (schedule != "accumulated" && schedule != "ordered")
    return op.emitOpError("expects query_gradient = \"recomputed\", "
                          "\"accumulated\" or \"ordered\" in #attn.tiling, "
                          "got \"")
           << schedule << "\"";
  if (op.getDeterministic() && schedule != "ordered")
    return op.emitOpError("is deterministic, and query_gradient = "
                          "\"accumulated\" adds in any order; state "
                          "\"recomputed\" or \"ordered\" in #attn.tiling");
  if (op.getBiasGradient() || !op.getCaptureGradients().empty())
    return op.emitOpError("wants gradients of a bias or of captures, which the "
                          "query tasks add up; state query_gradient = "
                          "\"recomputed\" in #attn.tiling");
  return success();
}

LogicalResult attn::tileBackward(AttentionBackwardOp op) {
  if (failed(verifySchedule(op)))
    return failure();
  ScoreDerivative derivative;
  if (op.hasScoreMod()) {
    FailureOr<ScoreDerivative> found =
        differentiateScoreMod(op, op.getCaptureGradients());
    if (failed(found))
      return failure();
    derivative = std::move(*found);
  }
  BackwardTiler(op, std::move(derivative)).run();
  return success();
}
