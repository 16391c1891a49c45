//===- GradientConsumer.cpp - The five products of a warpgroup ------------===//
//
// A warpgroup owns 64 keys. Scores are made with keys as rows, S^T = K Q^T and
// dP^T = V dO^T, both sides from shared memory, so that P and dS are left sides
// of dV and dK without leaving their registers. Only dQ, which sums over keys,
// needs the dS of all: it goes through shared memory, transposed on the way.
//
//   for each query block of the group's heads:
//     wait Q;  S = K Q^T;  wait dO;  dP = V dO^T
//     wait S;  score region, masks;  P = exp2(S - reference)
//     wait dP; dS = P (dP - delta), in f32
//     dV += P dO                                issued behind the arithmetic
//     dS to shared memory;  barrier of the warpgroups
//     dQ^T = K^T dS^T (own part);  dK += dS Q
//     wait dQ; release dO;  add dQ to its sum in main memory, perhaps in turn
//     wait dK; release Q
//   write scale dK and dV
//
// A recomputed dQ has a kernel of its own (GradientSweep.cpp): then the steps
// of dQ are left out here, and with them every barrier.
//
// dV behind the arithmetic of dS: measured on an H200, in front of it costs 3
// to 14 %. So does another order of dK and dQ (7 %), S of the next block beside
// dK (7 to 15 %), and warpgroups in turns (6 to 8 %).
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "GradientTurns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

//===----------------------------------------------------------------------===//
// Any consumer
//===----------------------------------------------------------------------===//

KeyConsumer::KeyConsumer(KeyThread &thread, Value group)
    : thread(thread), e(thread.e), kernel(thread.kernel), form(kernel.form),
      keys(form.keys), group(group) {
  firstKey = form.splitsRoles() ? e.i32(0) : e.mul(group, kRows);
  inGroup = e.bitAnd(thread.id, kWarpgroup - 1);
  lane = e.bitAnd(thread.id, 31);
  row = e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4));
  column = e.mul(e.bitAnd(lane, 3), 2);
  isWarpLeader = e.equals(lane, 0);
  Slot first{e.i32(0), e.i32(0)};
  keyAddress = kernel.keyRing.address(e, thread.shared, first);
  valueAddress = e.add(keyAddress, kernel.key.bytes());
}

void KeyConsumer::meet() {
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.i32(1),
                          e.i32(kernel.groups * kWarpgroup), {}, Value());
}

SmallVector<Value> KeyConsumer::readPerQuery(int64_t at, const Slot &slot) {
  Value first = e.add(
      e.add(e.add(thread.shared, at), e.mul(slot.stage, kernel.rowBytes())),
      e.mul(column, 4));
  SmallVector<Type> types(2, e.b.getF32Type());
  SmallVector<Value> numbers;
  for (int64_t query = 0; query < form.blockQuery; query += 8)
    llvm::append_range(numbers, e.ptx("ld.shared.v2.f32 {$0, $1}, [$2" +
                                          plus(query * 4) + "];",
                                      "=f,=f,r,~{memory}", types, {first}));
  return numbers;
}

Fragment KeyConsumer::multiplyRows(Value keysOrValues, int64_t dim,
                                   Value queriesOrGradients) {
  Value own = e.add(keysOrValues, e.mul(firstKey, kChunkRowBytes));
  fence(e);
  Fragment product = multiplyQueryKey(
      e, descriptor(e, own), descriptor(e, queriesOrGradients), form.blockQuery,
      llvm::alignTo(dim, kDepth), form.blockKey, form.elementType);
  commit(e);
  return product;
}

void KeyConsumer::waitKeys() {
  Slot first{e.i32(0), e.i32(0)};
  kernel.keyRing.waitFull(e, thread.shared, first);
  Value me = e.add(e.mul(group, kWarpgroup), inGroup);
  Value row = thread.scalars.lookupOrDefault(keys.key.getIndices()[0]);
  for (auto [tile, address] : {std::pair{&kernel.key, keyAddress},
                               std::pair{&kernel.value, valueAddress}})
    clearCropped(e, *tile, thread.scalars, row, address, me,
                 kernel.groups * kWarpgroup, [&]() {
                   fenceAsyncProxy(e);
                   meet();
                 });
}

LogicalResult KeyConsumer::write(vector::TransferWriteOp output,
                                 const OperandTile &tile, GradientMap map,
                                 Value accumulated, Fragment fragment,
                                 Value address) {
  TileSlicer slicer(e.b, e.loc, thread.scalars);
  AccumulatorLayout layout(e, slicer, e.toIndex(row), e.toIndex(column));
  layout.bind(accumulated, std::move(fragment));
  // A warpgroup's chunks of 64 rows lie one behind the other.
  Value own = e.add(address, e.mul(firstKey, tile.bytes() / kRows));
  if (failed(storeToShared(e, layout, output.getVector(), own, kRows, inGroup)))
    return failure();
  fenceAsyncProxy(e);
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.add(group, 2),
                          e.i32(kWarpgroup), {}, Value());
  e.branch(e.equals(inGroup, 0), [&]() {
    Value firstRow =
        e.add(e.toI32(thread.scalars.lookupOrDefault(output.getIndices()[0])),
              firstKey);
    tile.store(e, thread.outline.tensorMaps[map], thread.scalars, firstRow,
               own);
    NVVM::CpAsyncBulkCommitGroupOp::create(e.b, e.loc);
  });
  return success();
}

void KeyConsumer::finishWrites() {
  e.branch(e.equals(inGroup, 0), [&]() {
    NVVM::CpAsyncBulkWaitGroupOp::create(e.b, e.loc, 0, e.b.getUnitAttr());
  });
}

//===----------------------------------------------------------------------===//
// Keys of its own
//===----------------------------------------------------------------------===//

namespace {
class GradientConsumer : KeyConsumer {
public:
  GradientConsumer(KeyThread &thread, Value group)
      : KeyConsumer(thread, group), workspace(e, form, thread.outline),
        sum(form),
        turns(thread, workspace,
              e.add(e.mul(group, kWarpgroup / 32), e.div(inGroup, 32)),
              isWarpLeader) {}
  LogicalResult emit();

private:
  struct State {
    Value use;
    Fragment key, value;
    /// Where dQ is added up in order: the tile that it was added to last.
    Value added;
    SmallVector<Value> values() const;
    State with(ValueRange values) const;
  };
  /// What one step of the sweep computes of its block.
  FailureOr<State> step(Value head, Value row, State state);
  /// The part of dQ, from dS of all warpgroups. It runs.
  Fragment startQueryGradient(const Registers &packed, Value use);
  void storeScoreGradients(const Registers &packed, Value address);
  void addToSum(Value head, Value row, Fragment &part, State &state);

  Workspace workspace;
  QuerySum sum;
  GradientTurns turns;
};
} // namespace

SmallVector<Value> GradientConsumer::State::values() const {
  SmallVector<Value> all = {use};
  llvm::append_range(all, key.elements);
  llvm::append_range(all, value.elements);
  if (added)
    all.push_back(added);
  return all;
}

GradientConsumer::State GradientConsumer::State::with(ValueRange values) const {
  State state;
  state.use = values[0];
  size_t ofKey = key.elements.size(), ofValue = value.elements.size();
  llvm::append_range(state.key.elements, values.slice(1, ofKey));
  llvm::append_range(state.value.elements, values.slice(1 + ofKey, ofValue));
  if (added)
    state.added = values.back();
  return state;
}

/// Eight by eight elements are transposed on their way: a warp's 16 keys become
/// two units of 16 bytes of a query's row.
void GradientConsumer::storeScoreGradients(const Registers &packed,
                                           Value address) {
  // Lane l addresses row l mod 8 of matrix l / 8: [8 queries][8 keys].
  Value inMatrix = e.bitAnd(lane, 7), matrix = e.div(lane, 8);
  Value query = e.add(inMatrix, e.mul(e.div(matrix, 2), 8));
  Value unit = e.add(e.mul(e.div(inGroup, 32), 2), e.bitAnd(matrix, 1));
  Value place = e.mul(e.bitXor(unit, inMatrix), 16);
  Value line = e.add(e.mul(group, form.blockQuery), query);
  Value first = e.add(e.add(address, e.mul(line, kChunkRowBytes)), place);
  for (int64_t eight = 0; eight < form.blockQuery / 8; eight += 2)
    e.ptx("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$0" +
              plus(eight * 8 * kChunkRowBytes) + "], {$1, $2, $3, $4};",
          "r,r,r,r,r,~{memory}",
          {first, packed[2 * eight], packed[2 * eight + 1],
           packed[2 * eight + 2], packed[2 * eight + 3]});
}

Fragment GradientConsumer::startQueryGradient(const Registers &packed,
                                              Value use) {
  Value buffer = e.add(e.add(thread.shared, kernel.exchangeAt),
                       e.mul(e.bitAnd(use, 1), kernel.exchangeBytes()));
  storeScoreGradients(packed, buffer);
  fenceAsyncProxy(e);
  // Whoever stores to this buffer again has passed the next barrier, in front
  // of which every warpgroup has waited for the product that reads it.
  meet();
  fence(e);
  Value chunk = e.mul(sum.chunk(e, group), form.blockKey * kChunkRowBytes);
  Value queries = e.mul(sum.firstQuery(e, group), kChunkRowBytes);
  Fragment part =
      multiplyTransposed(e, descriptor(e, e.add(keyAddress, chunk)),
                         descriptor(e, e.add(buffer, queries)), sum.queries(),
                         form.blockKey, form.blockQuery, form.elementType);
  commit(e);
  return part;
}

void GradientConsumer::addToSum(Value head, Value row, Fragment &part,
                                State &state) {
  Value batch =
      e.toI32(thread.scalars.lookup(keys.tasks.getInductionVars()[0]));
  Value tile = workspace.tile(batch, head, e.div(row, form.blockQuery));
  if (form.isOrdered()) {
    turns.await(tile, row);
    state.added = tile;
  }
  Value first = e.add(workspace.querySum(tile),
                      arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                             sum.offset(e, group, inGroup)));
  for (int64_t eight = 0; eight < part.groups(); ++eight)
    e.ptx("red.global.add.v4.f32 [$0" + plus(eight * QuerySum::kStride) +
              "], {$1, $2, $3, $4};",
          "l,f,f,f,f,~{memory}",
          {first, part.at(eight, 0, 0), part.at(eight, 0, 1),
           part.at(eight, 1, 0), part.at(eight, 1, 1)});
}

FailureOr<GradientConsumer::State>
GradientConsumer::step(Value head, Value firstRow, State state) {
  IRMapping scalars = thread.enterStep(head, firstRow);
  TileSlicer slicer(e.b, e.loc, scalars);
  TransposedLayout layout(e, slicer, e.add(firstKey, row), column);
  BlockArithmetic<TransposedLayout> block(e, keys, layout, scalars,
                                          form.blockQuery);
  Slot slot = kernel.queryRing.slot(e, state.use);
  Value shared = thread.shared;
  Value queries = kernel.queryRing.address(e, shared, slot);
  Value gradients = kernel.gradientRing.address(e, shared, slot);

  kernel.queryRing.waitFull(e, shared, slot);
  Fragment scores = multiplyRows(keyAddress, form.headDim, queries);
  kernel.gradientRing.waitFull(e, shared, slot);
  Fragment ofProbabilities =
      multiplyRows(valueAddress, form.valueDim, gradients);
  // Beside these products a fence costs nothing; in front of the additions it
  // took a quarter of the time.
  if (form.isOrdered())
    turns.pass(state.added);
  layout.bindPerQuery(keys.reference, readPerQuery(kernel.referencesAt, slot));
  wait(e, 1, {&scores});
  FailureOr<Fragment> p = block.probabilities(scores);
  if (failed(p))
    return failure();
  layout.bindPerQuery(keys.delta, readPerQuery(kernel.deltasAt, slot));
  wait(e, 0, {&ofProbabilities});
  FailureOr<Fragment> dx = block.ofProducts(*p, ofProbabilities);
  if (failed(dx))
    return failure();
  Registers packedP = packLeftSide(e, *p, form.elementType);
  fence(e);
  state.value = multiplyProbabilitiesValue(
      e, state.value, packedP, descriptor(e, gradients), form.valueDim,
      form.blockQuery, form.elementType);
  commit(e);

  Registers packed = packLeftSide(e, *dx, form.elementType);
  Fragment part;
  if (form.isAccumulated())
    part = startQueryGradient(packed, state.use);
  else
    fence(e);
  state.key = multiplyProbabilitiesValue(e, state.key, packed,
                                         descriptor(e, queries), form.headDim,
                                         form.blockQuery, form.elementType);
  commit(e);
  wait(e, 1, {&part, &state.value});
  kernel.gradientRing.release(e, shared, slot, isWarpLeader);
  if (form.isAccumulated())
    addToSum(head, firstRow, part, state);
  wait(e, 0, {&state.key});
  kernel.queryRing.release(e, shared, slot, isWarpLeader);
  state.use = e.add(state.use, 1);
  return state;
}

LogicalResult GradientConsumer::emit() {
  waitKeys();
  State state;
  state.use = e.i32(0);
  state.key.elements.assign(form.headDim / 2, e.f32(0));
  state.value.elements.assign(form.valueDim / 2, e.f32(0));
  if (form.isOrdered())
    state.added = workspace.noTile();
  bool valid = true;
  SmallVector<Value> values = thread.forEachStep(
      state.values(), [&](Value head, Value row, ValueRange carried) {
        FailureOr<State> next = step(head, row, state.with(carried));
        valid &= succeeded(next);
        return valid ? next->values() : SmallVector<Value>(carried);
      });
  if (!valid)
    return failure();
  state = state.with(values);
  if (form.isOrdered())
    turns.pass(state.added);
  // The keys are read by all warpgroups.
  meet();
  if (failed(write(keys.keyOutput, kernel.keyOutput, KeyGradientMap,
                   keys.group.getResult(0), state.key, keyAddress)) ||
      failed(write(keys.valueOutput, kernel.valueOutput, ValueGradientMap,
                   keys.group.getResult(1), state.value, valueAddress)))
    return failure();
  finishWrites();
  return success();
}

LogicalResult hopper::emitGradientConsumer(KeyThread &thread, Value group) {
  return GradientConsumer(thread, group).emit();
}
