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
//     wait dQ; release dO;  add dQ to its sum in main memory
//     wait dK; release Q
//   write scale dK and dV
//
// dV behind the arithmetic of dS: measured on an H200, in front of it costs 3
// to 14 %. So does another order of dK and dQ (7 %), S of the next block beside
// dK (7 to 15 %), and warpgroups in turns (6 to 8 %).
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "GradientKeys.h"
#include "TransposedLayout.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

namespace {
class GradientConsumer {
public:
  GradientConsumer(KeyThread &thread, Value group);
  LogicalResult emit();

private:
  struct State {
    Value use;
    Fragment key, value;
    SmallVector<Value> values() const;
    State with(ValueRange values) const;
  };
  /// What one step of the sweep computes of its block.
  FailureOr<State> step(Value head, Value row, State state);
  FailureOr<Fragment> probabilities(IRMapping &scalars,
                                    TransposedLayout &layout, Fragment scores);
  FailureOr<Fragment> maskedScores(IRMapping &scalars, TransposedLayout &layout,
                                   Fragment scores);
  /// The number of each of the thread's queries, from a row of shared memory.
  SmallVector<Value> readPerQuery(int64_t at, const Slot &slot);
  void storeScoreGradients(const Registers &packed, Value address);
  Fragment multiplyQueryGradient(Value scoreGradients);
  void addToSum(Value head, Value row, Fragment &part);
  void meet();
  /// Rows of keys and values that the view leaves out hold anything.
  void clearHidden(const OperandTile &tile, Value address);
  LogicalResult write(vector::TransferWriteOp output, const OperandTile &tile,
                      GradientMap map, Value accumulated, Fragment fragment,
                      Value address);

  KeyThread &thread;
  GpuEmitter &e;
  const KeyKernel &kernel;
  GradientForm &form;
  KeyTasks &keys;
  Workspace workspace;
  QuerySum sum;
  /// i32 of the thread: its warpgroup, place in that, lane; first row and
  /// column of what it holds; addresses of the tiles.
  Value group, inGroup, lane, row, column, keyAddress, valueAddress;
  Value isWarpLeader;
};
} // namespace

SmallVector<Value> GradientConsumer::State::values() const {
  SmallVector<Value> all = {use};
  llvm::append_range(all, key.elements);
  llvm::append_range(all, value.elements);
  return all;
}

GradientConsumer::State GradientConsumer::State::with(ValueRange values) const {
  State state;
  state.use = values[0];
  size_t ofKey = key.elements.size();
  llvm::append_range(state.key.elements, values.slice(1, ofKey));
  llvm::append_range(state.value.elements, values.drop_front(1 + ofKey));
  return state;
}

GradientConsumer::GradientConsumer(KeyThread &thread, Value group)
    : thread(thread), e(thread.e), kernel(thread.kernel), form(kernel.form),
      keys(form.keys), workspace(e, form, thread.outline), sum(form),
      group(group) {
  inGroup = e.bitAnd(thread.id, kWarpgroup - 1);
  lane = e.bitAnd(thread.id, 31);
  row = e.add(e.mul(e.div(inGroup, 32), 16), e.div(lane, 4));
  column = e.mul(e.bitAnd(lane, 3), 2);
  isWarpLeader = e.equals(lane, 0);
  Slot first{e.i32(0), e.i32(0)};
  keyAddress = kernel.keyRing.address(e, thread.shared, first);
  valueAddress = e.add(keyAddress, kernel.key.bytes());
}

/// All consumer warpgroups.
void GradientConsumer::meet() {
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.i32(1),
                          e.i32(kernel.groups * kWarpgroup), {}, Value());
}

/// A distance as part of an address in the text. Added before, ptxas would keep
/// the sums of all of them in registers from block to block.
static std::string plus(int64_t bytes) { return "+" + std::to_string(bytes); }

SmallVector<Value> GradientConsumer::readPerQuery(int64_t at,
                                                  const Slot &slot) {
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

FailureOr<Fragment> GradientConsumer::maskedScores(IRMapping &scalars,
                                                   TransposedLayout &layout,
                                                   Fragment scores) {
  Value plain = keys.masked.elseYield().getOperand(0);
  FailureOr<Fragment> result = scores;
  if (plain != keys.scores->getResult(0)) {
    result = layout.tile(plain, form.blockQuery);
    if (failed(result))
      return failure();
    layout.bind(plain, *result);
  }
  SmallVector<Value> unmasked = result->elements;
  bool valid = true;
  SmallVector<Value> elements =
      e.branch(scalars.lookup(keys.masked.getCondition()), unmasked, [&]() {
        cloneScalars(e, *keys.masked.thenBlock(), scalars);
        FailureOr<Fragment> masked =
            layout.tile(keys.masked.thenYield().getOperand(0), form.blockQuery);
        valid = succeeded(masked);
        return valid ? masked->elements : unmasked;
      });
  if (!valid)
    return failure();
  layout.unbind(plain);
  layout.bind(keys.scores->getResult(0), scores);
  return Fragment{elements};
}

FailureOr<Fragment> GradientConsumer::probabilities(IRMapping &scalars,
                                                    TransposedLayout &layout,
                                                    Fragment scores) {
  layout.bind(keys.scores->getResult(0), scores);
  if (keys.masked) {
    FailureOr<Fragment> masked = maskedScores(scalars, layout, scores);
    if (failed(masked))
      return failure();
    layout.bind(keys.masked->getResult(0), *masked);
  }
  return layout.tile(keys.probabilities, form.blockQuery);
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

Fragment GradientConsumer::multiplyQueryGradient(Value scoreGradients) {
  Value chunk = e.mul(sum.chunk(e, group), form.blockKey * kChunkRowBytes);
  Value queries = e.mul(sum.firstQuery(e, group), kChunkRowBytes);
  return multiplyTransposed(e, descriptor(e, e.add(keyAddress, chunk)),
                            descriptor(e, e.add(scoreGradients, queries)),
                            sum.queries(), form.blockKey, form.blockQuery,
                            form.elementType);
}

void GradientConsumer::addToSum(Value head, Value row, Fragment &part) {
  Value batch =
      e.toI32(thread.scalars.lookup(keys.tasks.getInductionVars()[0]));
  Value tile = workspace.tile(batch, head, e.div(row, form.blockQuery));
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
  TransposedLayout layout(e, slicer, e.add(e.mul(group, kRows), row), column);
  Slot slot = kernel.queryRing.slot(e, state.use);
  Value shared = thread.shared;
  Value ownRows = e.mul(group, kRows * kChunkRowBytes);
  Value queries = descriptor(e, kernel.queryRing.address(e, shared, slot));
  Value gradients = descriptor(e, kernel.gradientRing.address(e, shared, slot));
  auto depth = [](int64_t dim) { return llvm::alignTo(dim, kDepth); };

  kernel.queryRing.waitFull(e, shared, slot);
  fence(e);
  Fragment scores = multiplyQueryKey(
      e, descriptor(e, e.add(keyAddress, ownRows)), queries, form.blockQuery,
      depth(form.headDim), form.blockKey, form.elementType);
  commit(e);
  kernel.gradientRing.waitFull(e, shared, slot);
  fence(e);
  Fragment ofProbabilities = multiplyQueryKey(
      e, descriptor(e, e.add(valueAddress, ownRows)), gradients,
      form.blockQuery, depth(form.valueDim), form.blockKey, form.elementType);
  commit(e);

  layout.bindPerQuery(keys.reference, readPerQuery(kernel.referencesAt, slot));
  wait(e, 1, {&scores});
  FailureOr<Fragment> p = probabilities(scalars, layout, scores);
  if (failed(p))
    return failure();
  layout.bind(keys.probabilities, *p);
  layout.bindPerQuery(keys.delta, readPerQuery(kernel.deltasAt, slot));
  wait(e, 0, {&ofProbabilities});
  layout.bind(keys.probabilityGradient->getResult(0), ofProbabilities);
  FailureOr<Fragment> ds = layout.tile(keys.ofProducts, form.blockQuery);
  if (failed(ds))
    return failure();
  Registers packedP = packLeftSide(e, *p, form.elementType);
  fence(e);
  state.value = multiplyProbabilitiesValue(e, state.value, packedP, gradients,
                                           form.valueDim, form.blockQuery,
                                           form.elementType);
  commit(e);

  Registers packedDs = packLeftSide(e, *ds, form.elementType);
  Value buffer =
      e.add(e.add(shared, kernel.scoreGradientsAt),
            e.mul(e.bitAnd(state.use, 1), kernel.scoreGradientBytes()));
  storeScoreGradients(packedDs, buffer);
  fenceAsyncProxy(e);
  // Whoever stores to this buffer again has passed the next barrier, in front
  // of which every warpgroup has waited for the product that reads it.
  meet();
  fence(e);
  Fragment part = multiplyQueryGradient(buffer);
  commit(e);
  state.key =
      multiplyProbabilitiesValue(e, state.key, packedDs, queries, form.headDim,
                                 form.blockQuery, form.elementType);
  commit(e);
  wait(e, 1, {&part, &state.value});
  kernel.gradientRing.release(e, shared, slot, isWarpLeader);
  addToSum(head, firstRow, part);
  wait(e, 0, {&state.key});
  kernel.queryRing.release(e, shared, slot, isWarpLeader);
  state.use = e.add(state.use, 1);
  return state;
}

void GradientConsumer::clearHidden(const OperandTile &tile, Value address) {
  memref::SubViewOp view = tile.view;
  int64_t whole = view.getSourceType().getDimSize(tile.rowDim);
  if (!ShapedType::isDynamic(whole) && view.getStaticSize(tile.rowDim) == whole)
    return;
  auto scalar = [&](OpFoldResult size) -> Value {
    if (auto value = dyn_cast<Value>(size))
      return thread.scalars.lookup(value);
    return e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  };
  Value count = scalar(view.getMixedSizes()[tile.rowDim]);
  Value first = thread.scalars.lookupOrDefault(keys.key.getIndices()[0]);
  Value source = thread.scalars.lookup(view.getSource());
  Value length =
      memref::DimOp::create(e.b, e.loc, source, int64_t(tile.rowDim));
  Value isCropped =
      e.both(e.less(count, length), e.less(count, e.add(first, form.blockKey)));
  e.branch(isCropped, [&]() {
    constexpr int64_t kUnits = kChunkRowBytes / 16;
    Value seen = e.toI32(e.max(e.sub(count, first), e.index(0)));
    Value me = e.add(e.mul(group, kWarpgroup), inGroup);
    e.loop(me, e.i32(tile.bytes() / 16), e.i32(kernel.groups * kWarpgroup), {},
           [&](Value unit, ValueRange) {
             Value line = e.rem(e.div(unit, kUnits), form.blockKey);
             Value isHidden = e.compare(arith::CmpIPredicate::sge, line, seen);
             e.branch(isHidden, [&]() {
               e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};",
                     "r,r,~{memory}",
                     {e.add(address, e.mul(unit, 16)), e.i32(0)});
             });
             return SmallVector<Value>();
           });
    fenceAsyncProxy(e);
  });
  meet();
}

/// Through the warpgroup's own rows of a tile that nobody reads any more.
LogicalResult GradientConsumer::write(vector::TransferWriteOp output,
                                      const OperandTile &tile, GradientMap map,
                                      Value accumulated, Fragment fragment,
                                      Value address) {
  TileSlicer slicer(e.b, e.loc, thread.scalars);
  AccumulatorLayout layout(e, slicer, e.toIndex(row), e.toIndex(column));
  layout.bind(accumulated, std::move(fragment));
  // A warpgroup's chunks of 64 rows lie one behind the other.
  Value own = e.add(address, e.mul(group, tile.bytes()));
  if (failed(storeToShared(e, layout, output.getVector(), own, kRows, inGroup)))
    return failure();
  fenceAsyncProxy(e);
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), e.add(group, 2),
                          e.i32(kWarpgroup), {}, Value());
  e.branch(e.equals(inGroup, 0), [&]() {
    Value firstRow =
        e.add(e.toI32(thread.scalars.lookupOrDefault(output.getIndices()[0])),
              e.mul(group, kRows));
    tile.store(e, thread.outline.tensorMaps[map], thread.scalars, firstRow,
               own);
    NVVM::CpAsyncBulkCommitGroupOp::create(e.b, e.loc);
  });
  return success();
}

LogicalResult GradientConsumer::emit() {
  Slot first{e.i32(0), e.i32(0)};
  kernel.keyRing.waitFull(e, thread.shared, first);
  clearHidden(kernel.key, keyAddress);
  clearHidden(kernel.value, valueAddress);
  State state;
  state.use = e.i32(0);
  state.key.elements.assign(form.headDim / 2, e.f32(0));
  state.value.elements.assign(form.valueDim / 2, e.f32(0));
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
  // The keys are read by all warpgroups.
  meet();
  scf::ForOp group = keys.group;
  if (failed(write(keys.keyOutput, kernel.keyOutput, KeyGradientMap,
                   group.getResult(0), state.key, keyAddress)) ||
      failed(write(keys.valueOutput, kernel.valueOutput, ValueGradientMap,
                   group.getResult(1), state.value, valueAddress)))
    return failure();
  e.branch(e.equals(inGroup, 0), [&]() {
    NVVM::CpAsyncBulkWaitGroupOp::create(e.b, e.loc, 0, e.b.getUnitAttr());
  });
  return success();
}

LogicalResult hopper::emitGradientConsumer(KeyThread &thread, Value group) {
  return GradientConsumer(thread, group).emit();
}
