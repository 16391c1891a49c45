//===- Tile.cpp - From attention to the online-softmax loop nest ----------===//
//
// attn-tile replaces the memref form of attn.attention (the backward op:
// TileBackward.cpp) by loops over blocks
// whose tiles stay on chip. The score matrix is never written:
//
//   for each (batch b, query head h, query block t)          "tasks"
//     Q = query[b, h, rows of t, :]                          "query"
//     m = -inf, l = 0, acc = 0
//     for each key/value block that the masks reach          "sweep", "reach"
//       K = key[b, g(h), keys of the block, :]               "key"
//       s = Q K^T                                            "scores"
//       s = score_mod(softcap(scale * s)) + bias
//       s = -inf where hidden, in blocks across an edge      "masked"
//       m' = max(m, row maximum of s)                        "row_max"
//       p  = exp2(c * (s - m'))                              "probabilities"
//       a  = exp2(c * (m - m'))                              "correction"
//       l  = l * a + row sum of p                            "row_sum"
//       V = value[b, g(h), keys of the block, :]             "value"
//       acc = acc * a + p V                                  "accumulator"
//       m  = m'
//     l, acc = with the sink of h, a score without a value
//     output[b, h, rows of t, :] = acc / l                   "output"
//     lse[b, h, rows of t] = ln 2 * (c * m + log2 l)         "lse"
//
// with c = log2 e, times the scale when nothing but masks follows it.
//
// That is the softmax "exact". Any m gives the same acc / l, and three others
// save the work of following the maximum. `softmax` of #attn.tiling says which
// of the four it is, docs/Rationale.md why all are exact attention.
//
//   "conditional": most blocks leave m as it is.
//       m' = max(m, row maximum of s)                        "row_max"
//       if any row has m' - m > growth                       "vote"
//         a = exp2(c * (m - m'))                             "correction"
//         m, l, acc = m', l * a, acc * a                     "rescale"
//       p = exp2(c * (s - m))                                "probabilities"
//       l = l + row sum of p                                 "row_sum"
//       acc = acc + p V                                      "accumulator"
//
//   "stale": most blocks do not even ask for their maximum.
//       p  = exp2(c * (s - m))                               "probabilities"
//       l' = l + row sum of p                                "row_sum"
//       if any row has not l' <= l + sum                     "vote"
//         m' = max(m, row maximum of s)                      "row_max"
//         a = exp2(c * (m - m')),  p' = exp2(c * (s - m'))   "correction"
//         m, p, l', acc = m', p', l * a + row sum of p', acc * a  "rescale"
//       l = l',  acc = acc + p V                             "accumulator"
//     Before its first key a row's m is the lowest finite number and not -inf:
//     with it that key's p is inf, which calls for the branch, and a hidden
//     one's is 0, which does not.
//
//   "raised": as stale, with m so high above the scores that p stays below 1.
//       p  = exp2(c * (s - m))                               "probabilities"
//       if any row has not max of p < 2                      "peak", "vote"
//         m' = max(m, row maximum of s + headroom)           "row_max"
//         a = exp2(c * (m - m')),  p' = exp2(c * (s - m'))   "correction"
//         m, p, l, acc = m', p', l * a, acc * a              "rescale"
//       l = l + row sum of p as it is rounded for V          "row_sum"
//       acc = acc + p V                                      "accumulator"
//
// With "stale" and "raised" s may stand for what masks were applied to, a base
// of which the scores are a multiple plus a term: the exponent takes them
// apart, and the branch starts with the scores "rebuilt".
//
// This is algorithm 1 of Dao et al., "FlashAttention" (2022), with the loops
// exchanged (query blocks outside, as in FlashAttention-2, 2023) so that a
// task owns its rows and nothing but the result is written, and with the
// division left to the end. The softmax is Milakov and Gimelshein's (2018).
//
// Every tile is a vector value of its full size; Br x D, Bc x D, Br x Bc and
// Br x Dv come from #attn.tiling. A back end cuts them to its machine. It
// finds what a value is in attn.role, with the words quoted above.
//
// Order of tasks: with a right band bound later query blocks see more keys,
// so the long ones are handed out first. Each task's result does not depend
// on the order; equal inputs give equal bits.
// Order of blocks: here the first comes first. What a block adds does not
// depend on those before it, but for the reference: a back end may go another
// way.
//
// Padding: blocks past the end of a sequence read zeros. Padded columns are
// hidden; padded rows are computed and never written, and are kept from
// making a key look visible that no real row sees.
//
// Precondition: memref form, #attn.tiling with both block sizes, static head
// dimensions. Zero sizes are legal everywhere: without a head dimension the
// scores are 0, without a value dimension only the lse is computed.
//
// A NaN in a key or value that lengths or band hide from the whole head is
// never read. A value that mask, segments or mask_mod hide from the whole
// task is left out of the read. Any other hidden value is multiplied by 0, and
// 0 * NaN is NaN. A NaN in a hidden key goes nowhere: its score becomes -inf.
//
//===----------------------------------------------------------------------===//

#include "SoftmaxUpdate.h"
#include "TileBackward.h"
#include "TileMask.h"
#include "TileScore.h"
#include "attn/IR/TiledForm.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

namespace attn {
#define GEN_PASS_DEF_TILE
#include "attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// What can be tiled
//===----------------------------------------------------------------------===//

/// Head dimensions are the widths of vectors: as wide as blocks may be long.
static constexpr int64_t kWidestTile = 65536;

/// Whether 64 bits count the bytes of the sizes that are known.
static bool hasCountableBytes(ShapedType type) {
  Type element = type.getElementType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  int64_t bytes = llvm::divideCeil(bits, 8);
  return llvm::none_of(type.getShape(), [&](int64_t size) {
    return !ShapedType::isDynamic(size) && size != 0 &&
           llvm::MulOverflow(bytes, size, bytes);
  });
}

static LogicalResult verifyTileable(AttentionOpInterface op) {
  if (!op.isMemRefForm())
    return op.emitOpError("expects the memref form to tile, got tensors; run "
                          "one-shot-bufferize first");
  TilingAttr tiling = op.getTilingAttr();
  if (!tiling)
    return op.emitOpError("expects #attn.tiling to tile; run "
                          "attn-select-tiling first");
  if (tiling.getValue().softmax == "raised" &&
      (!op.getElementType().isBF16() || op.getLseType()))
    return op.emitOpError("expects elements of bf16 and no lse, which its "
                          "rounded sums are nothing for, to tile with "
                          "softmax = \"raised\"; state softmax = \"stale\"");
  for (Type type : op->getOperandTypes())
    if (auto shaped = dyn_cast<ShapedType>(type);
        shaped && !hasCountableBytes(shaped))
      return op.emitOpError("expects operands of fewer than 2^63 bytes to "
                            "tile, got ")
             << type << "; leave its length open (?) or split the batch";
  AttentionShape shape = op.getShape();
  for (auto [name, given] :
       {std::pair<StringRef, int64_t>{"head dimension", shape.headDim},
        {"value dimension", shape.valueDim}}) {
    if (ShapedType::isDynamic(given))
      return op.emitOpError("expects a static ")
             << name << " to tile, got ?; state it in the type of one operand";
    if (given > kWidestTile)
      return op.emitOpError("expects a ")
             << name << " of at most " << kWidestTile << " to tile, got "
             << given;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The loop nest
//===----------------------------------------------------------------------===//

namespace {

class AttentionTiler {
public:
  explicit AttentionTiler(AttentionOp op)
      : op(op), tiling(op.getTilingAttr().getValue()),
        b(op, tiling.blockQuery, tiling.blockKey), sizes(getSizes(b, op)) {}

  void run();

private:
  bool hasNoResult();
  Task enterTask(ValueRange ids, Index queryBlocks);
  void buildTask(const Task &task);
  Value readQuery(const Task &task);
  void enterSweep(const Task &task);
  SoftmaxState sweep(const Task &task, Value query, SoftmaxUpdate &softmax,
                     SoftmaxState initial);
  SoftmaxState visitBlock(const Task &task, Value firstKey, Value query,
                          TileMask &mask, TileScore &score,
                          SoftmaxUpdate &softmax, SoftmaxState state);
  Value multiplyScores(const Task &task, Value query, Value firstKey);
  Value multiplyValues(const Task &task, Value probabilities, Value acc,
                       Value firstKey, Value seenKeys);
  void writeResults(const Task &task, SoftmaxUpdate &softmax,
                    const SoftmaxState &state, Value sink);

  AttentionOp op;
  const Tiling tiling;
  TileBuilder b;
  AttentionSizes sizes;
  /// Matrices of the task's keys and their values.
  Value keyView, valueView;
};

} // namespace

/// No row, or nothing to write for it.
bool AttentionTiler::hasNoResult() {
  auto isZero = [](Index size) { return isConstantIntValue(size, 0); };
  return isZero(sizes.batch) || isZero(sizes.queryHeads) ||
         isZero(sizes.queryLength) || (sizes.valueDim == 0 && !op.returnsLse());
}

void AttentionTiler::run() {
  if (hasNoResult())
    return op.erase();
  Index queryBlocks = b.divideUp(sizes.queryLength, b.rows);
  auto tasks = scf::ForallOp::create(
      b, ArrayRef<Index>{sizes.batch, sizes.queryHeads, queryBlocks},
      ValueRange(), std::nullopt);
  setRole(tasks, role::kTasks);
  tasks->setAttr(kTilingAttrName, op.getTilingAttr());
  if (TargetAttr target = op.getTargetAttr())
    tasks->setAttr(kTargetAttrName, target);
  b.setInsertionPoint(tasks.getTerminator());
  buildTask(enterTask(tasks.getInductionVars(), queryBlocks));
  op.erase();
}

Task AttentionTiler::enterTask(ValueRange ids, Index queryBlocks) {
  Task task;
  task.op = op;
  task.sizes = sizes;
  task.batch = ids[0];
  task.head = ids[1];
  Index block = ids[2];
  Index one = b.getIndexAttr(1);
  if (op.getBandRight())
    block = b.subtract(b.subtract(queryBlocks, one), block);
  Index blockSize = b.getIndexAttr(b.rows);
  task.firstRow = b.value(b.multiply(block, blockSize));
  std::optional<int64_t> length = getConstantIntValue(sizes.queryLength);
  task.rowsAligned = length && *length % b.rows == 0;
  task.rowEnd = b.add(task.firstRow, blockSize);
  if (!task.rowsAligned)
    task.rowEnd = b.minimum(task.rowEnd, sizes.queryLength);
  task.kvHead = b.divide(task.head, b.divide(sizes.queryHeads, sizes.kvHeads));
  if (auto kvHead = dyn_cast<Value>(task.kvHead); kvHead && kvHead != task.head)
    setRole(kvHead.getDefiningOp(), role::kKvHead);
  task.keys = computeKeyRange(b, op, sizes, task.batch);
  return task;
}

void AttentionTiler::buildTask(const Task &task) {
  SoftmaxUpdate softmax(b, op);
  Value query = readQuery(task);
  SoftmaxState state = softmax.initial(sizes.valueDim);
  if (!isConstantIntValue(sizes.kvLength, 0))
    state = sweep(task, query, softmax, state);
  Value sink;
  if (op.getSinks()) {
    sink = loadElement(b, op.getSinks(), task.head);
    state = softmax.addSink(state, sink);
  }
  writeResults(task, softmax, state, sink);
}

/// The query tile; null without a head dimension.
Value AttentionTiler::readQuery(const Task &task) {
  if (sizes.headDim == 0)
    return {};
  Value view =
      headView(b, op.getQuery(), op.getQueryLayout(), task.batch, task.head,
               b.getIndexAttr(0), sizes.queryLength, sizes.headDim);
  Type element = op.getElementType();
  Value zero = b.value(b.getIndexAttr(0));
  Value tile = read(b, VectorType::get({b.rows, sizes.headDim}, element), view,
                    {task.firstRow, zero}, b.constant(element, 0),
                    {task.rowsAligned, true});
  setRole(tile.getDefiningOp(), role::kQuery);
  return tile;
}

/// Crops key and value to the keys of the task.
void AttentionTiler::enterSweep(const Task &task) {
  const KeyRange &keys = task.keys;
  if (sizes.headDim != 0)
    keyView = headView(b, op.getKey(), op.getKeyLayout(), task.batch,
                       task.kvHead, keys.first, keys.count, sizes.headDim);
  if (sizes.valueDim != 0)
    valueView = headView(b, op.getValue(), op.getValueLayout(), task.batch,
                         task.kvHead, keys.first, keys.count, sizes.valueDim);
}

SoftmaxState AttentionTiler::sweep(const Task &task, Value query,
                                   SoftmaxUpdate &softmax,
                                   SoftmaxState initial) {
  enterSweep(task);
  TileMask mask(b, task);
  TileScore score(b, task);
  auto loop = scf::ForOp::create(
      b, b.value(mask.sweepBegin()), b.value(mask.sweepEnd()),
      b.value(b.getIndexAttr(b.columns)), initial.values());
  setRole(loop, role::kSweep);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value firstKey = loop.getInductionVar();
  SoftmaxState state = SoftmaxState::from(loop.getRegionIterArgs());
  mask.enterBlock(firstKey);
  if (Value isReached = mask.reach()) {
    auto branch = scf::IfOp::create(b, TypeRange(initial.values()), isReached,
                                    /*withElseRegion=*/true);
    setRole(branch, role::kReach);
    scf::YieldOp::create(b, branch.getResults());
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, state.values());
    b.setInsertionPointToStart(branch.thenBlock());
  }
  state = visitBlock(task, firstKey, query, mask, score, softmax, state);
  scf::YieldOp::create(b, state.values());
  return SoftmaxState::from(loop.getResults());
}

SoftmaxState AttentionTiler::visitBlock(const Task &task, Value firstKey,
                                        Value query, TileMask &mask,
                                        TileScore &score,
                                        SoftmaxUpdate &softmax,
                                        SoftmaxState state) {
  Value product = multiplyScores(task, query, firstKey);
  AffineScores scores = {score.apply(product, firstKey)};
  if (softmax.takesApart())
    scores = score.separate(scores.base);
  scores.base = mask.apply(scores.base);
  return softmax.update(state, scores, [&](Value probabilities, Value acc) {
    return multiplyValues(task, probabilities, acc, firstKey, mask.seenKeys());
  });
}

Value AttentionTiler::multiplyScores(const Task &task, Value query,
                                     Value firstKey) {
  Value zeros = b.constant(b.typeOf(Extent::Tile, op.getAccumulatorType()), 0);
  if (!query)
    return zeros;
  Type element = op.getElementType();
  Value zero = b.value(b.getIndexAttr(0));
  Value key =
      read(b, VectorType::get({b.columns, sizes.headDim}, element), keyView,
           {firstKey, zero}, b.constant(element, 0), {task.keys.isWhole, true});
  setRole(key.getDefiningOp(), role::kKey);
  return contract(b, query, key, zeros, Transposed::Right, role::kScores);
}

Value AttentionTiler::multiplyValues(const Task &task, Value probabilities,
                                     Value acc, Value firstKey,
                                     Value seenKeys) {
  Type element = op.getElementType();
  Value zero = b.value(b.getIndexAttr(0));
  auto type = VectorType::get({b.columns, sizes.valueDim}, element);
  Value mask = seenKeys ? b.broadcastRows(seenKeys, sizes.valueDim) : Value();
  Value value = read(b, type, valueView, {firstKey, zero},
                     b.constant(element, 0), {task.keys.isWhole, true}, mask);
  setRole(value.getDefiningOp(), role::kValue);
  return contract(b, b.castFloat(probabilities, element), value, acc,
                  Transposed::None, role::kAccumulator);
}

void AttentionTiler::writeResults(const Task &task, SoftmaxUpdate &softmax,
                                  const SoftmaxState &state, Value sink) {
  Index zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  if (state.acc) {
    Value view = headView(b, op.getOuts()[0], op.getOutputLayout(), task.batch,
                          task.head, zero, sizes.queryLength, sizes.valueDim);
    Value tile =
        b.castFloat(softmax.output(state), op.getOutputType().getElementType());
    auto write = vector::TransferWriteOp::create(
        b, tile, view, ValueRange{task.firstRow, b.value(zero)},
        ArrayRef<bool>{task.rowsAligned, true});
    setRole(write, role::kOutput);
  }
  if (op.returnsLse()) {
    Value view = subview(b, op.getOuts()[1], {task.batch, task.head, zero},
                         {one, one, sizes.queryLength}, {false, false, true});
    auto write = vector::TransferWriteOp::create(
        b, softmax.logSumExp(state, sink), view, ValueRange{task.firstRow},
        ArrayRef<bool>{task.rowsAligned});
    setRole(write, role::kLse);
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct Tile : attn::impl::TileBase<Tile> {
  void runOnOperation() override {
    SmallVector<AttentionOpInterface> ops;
    getOperation()->walk([&](AttentionOpInterface op) { ops.push_back(op); });
    for (AttentionOpInterface op : ops) {
      if (failed(verifyTileable(op)))
        return signalPassFailure();
      if (auto forward = dyn_cast<AttentionOp>(*op))
        AttentionTiler(forward).run();
      else if (failed(tileBackward(cast<AttentionBackwardOp>(*op))))
        return signalPassFailure();
    }
  }
};
} // namespace
