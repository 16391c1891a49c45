//===- GradientRoles.cpp - Two warpgroups on the same keys ----------------===//
//
// Accumulators of dK and dV with wide heads do not fit the registers of a
// warpgroup together. So two warpgroups share 64 keys, and each has one:
//
//   for each query block of the group's heads:
//     first warpgroup                        second warpgroup
//       wait Q;  S = K Q^T                     wait dO;  dP = V dO^T
//       P = exp2(S - reference)                wait dP
//       P, in f32, to shared memory  ------>   dS = P (dP - delta)
//       wait dO; dV += P dO                    wait Q;  dK += dS Q
//
// Both hold the same elements of a block, so P goes from thread to thread. Of
// its two buffers the first warpgroup fills the one of two blocks ago: the
// second has read that before it let go of the queries of that block, and there
// are two stages of those.
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "GradientKeys.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Named barriers that say that a buffer is full: behind that of all warpgroups
/// and their own.
static constexpr int64_t kFullBarrier = 4;

namespace {
class SplitConsumer : KeyConsumer {
public:
  using KeyConsumer::KeyConsumer;
  LogicalResult emit();

private:
  using Accumulate = function_ref<FailureOr<Fragment>(
      Value head, Value row, Value use, Fragment accumulator)>;
  /// Carries one accumulator through all blocks.
  FailureOr<Fragment> sweep(int64_t columns, Accumulate step);
  FailureOr<Fragment> addToValues(Value head, Value row, Value use,
                                  Fragment accumulator);
  FailureOr<Fragment> addToKeys(Value head, Value row, Value use,
                                Fragment accumulator);
  /// Where this thread has its elements of P.
  Value exchangeAddress(Value use);
  Value fullBarrier(Value use) { return e.add(e.bitAnd(use, 1), kFullBarrier); }

  static constexpr int64_t kBytesOfThread = 16,
                           kStride = kWarpgroup * kBytesOfThread;
};
} // namespace

Value SplitConsumer::exchangeAddress(Value use) {
  return e.add(e.add(e.add(thread.shared, kernel.exchangeAt),
                     e.mul(e.bitAnd(use, 1), kernel.exchangeBytes())),
               e.mul(inGroup, kBytesOfThread));
}

FailureOr<Fragment> SplitConsumer::sweep(int64_t columns, Accumulate step) {
  SmallVector<Value> inits(columns / 2, e.f32(0));
  inits.push_back(e.i32(0));
  bool valid = true;
  SmallVector<Value> values =
      thread.forEachStep(inits, [&](Value head, Value row, ValueRange carried) {
        Fragment accumulator{SmallVector<Value>(carried.drop_back())};
        Value use = carried.back();
        FailureOr<Fragment> next = step(head, row, use, std::move(accumulator));
        valid &= succeeded(next);
        if (!valid)
          return SmallVector<Value>(carried);
        SmallVector<Value> yielded = next->elements;
        yielded.push_back(e.add(use, 1));
        return yielded;
      });
  if (!valid)
    return failure();
  values.pop_back();
  return Fragment{values};
}

FailureOr<Fragment> SplitConsumer::addToValues(Value head, Value firstRow,
                                               Value use,
                                               Fragment accumulator) {
  IRMapping scalars = thread.enterStep(head, firstRow);
  TileSlicer slicer(e.b, e.loc, scalars);
  TransposedLayout layout(e, slicer, row, column);
  BlockArithmetic<TransposedLayout> block(e, keys, layout, scalars,
                                          form.blockQuery);
  Slot slot = kernel.queryRing.slot(e, use);
  Value shared = thread.shared;
  kernel.queryRing.waitFull(e, shared, slot);
  Fragment scores = multiplyRows(keyAddress, form.headDim,
                                 kernel.queryRing.address(e, shared, slot));
  layout.bindPerQuery(keys.reference, readPerQuery(kernel.referencesAt, slot));
  wait(e, 0, {&scores});
  kernel.queryRing.release(e, shared, slot, isWarpLeader);
  FailureOr<Fragment> p = block.probabilities(scores);
  if (failed(p))
    return failure();
  Value to = exchangeAddress(use);
  for (int64_t eight = 0; eight < p->groups(); ++eight)
    e.ptx("st.shared.v4.f32 [$0" + plus(eight * kStride) +
              "], {$1, $2, $3, $4};",
          "r,f,f,f,f,~{memory}",
          {to, p->at(eight, 0, 0), p->at(eight, 0, 1), p->at(eight, 1, 0),
           p->at(eight, 1, 1)});
  NVVM::BarrierArriveOp::create(e.b, e.loc, fullBarrier(use),
                                e.i32(2 * kWarpgroup));
  Registers packed = packLeftSide(e, *p, form.elementType);
  kernel.gradientRing.waitFull(e, shared, slot);
  fence(e);
  accumulator = multiplyProbabilitiesValue(
      e, accumulator, packed,
      descriptor(e, kernel.gradientRing.address(e, shared, slot)),
      form.valueDim, form.blockQuery, form.elementType);
  commit(e);
  wait(e, 0, {&accumulator});
  kernel.gradientRing.release(e, shared, slot, isWarpLeader);
  return accumulator;
}

FailureOr<Fragment> SplitConsumer::addToKeys(Value head, Value firstRow,
                                             Value use, Fragment accumulator) {
  IRMapping scalars = thread.enterStep(head, firstRow);
  TileSlicer slicer(e.b, e.loc, scalars);
  TransposedLayout layout(e, slicer, row, column);
  BlockArithmetic<TransposedLayout> block(e, keys, layout, scalars,
                                          form.blockQuery);
  Slot slot = kernel.queryRing.slot(e, use);
  Value shared = thread.shared;
  kernel.gradientRing.waitFull(e, shared, slot);
  Fragment ofProbabilities =
      multiplyRows(valueAddress, form.valueDim,
                   kernel.gradientRing.address(e, shared, slot));
  layout.bindPerQuery(keys.delta, readPerQuery(kernel.deltasAt, slot));
  wait(e, 0, {&ofProbabilities});
  kernel.gradientRing.release(e, shared, slot, isWarpLeader);
  NVVM::BarrierOp::create(e.b, e.loc, TypeRange(), fullBarrier(use),
                          e.i32(2 * kWarpgroup), {}, Value());
  Value from = exchangeAddress(use);
  SmallVector<Type> types(4, e.b.getF32Type());
  Fragment p;
  for (int64_t eight = 0; eight < form.blockQuery / 8; ++eight)
    llvm::append_range(p.elements,
                       e.ptx("ld.shared.v4.f32 {$0, $1, $2, $3}, [$4" +
                                 plus(eight * kStride) + "];",
                             "=f,=f,=f,=f,r,~{memory}", types, {from}));
  FailureOr<Fragment> dx = block.ofProducts(p, ofProbabilities);
  if (failed(dx))
    return failure();
  Registers packed = packLeftSide(e, *dx, form.elementType);
  kernel.queryRing.waitFull(e, shared, slot);
  fence(e);
  accumulator = multiplyProbabilitiesValue(
      e, accumulator, packed,
      descriptor(e, kernel.queryRing.address(e, shared, slot)), form.headDim,
      form.blockQuery, form.elementType);
  commit(e);
  wait(e, 0, {&accumulator});
  kernel.queryRing.release(e, shared, slot, isWarpLeader);
  return accumulator;
}

LogicalResult SplitConsumer::emit() {
  waitKeys();
  bool valid = true;
  auto sum = [&](int64_t columns, Accumulate step,
                 vector::TransferWriteOp output, const OperandTile &tile,
                 GradientMap map, unsigned result, Value address) {
    FailureOr<Fragment> total = sweep(columns, step);
    // The other warpgroup reads the tile that this one writes through.
    meet();
    valid &= succeeded(total) &&
             succeeded(write(output, tile, map, keys.group.getResult(result),
                             *total, address));
    return SmallVector<Value>();
  };
  (void)e.branchOr(
      e.equals(group, 0),
      [&]() {
        return sum(
            form.valueDim,
            [&](Value head, Value row, Value use, Fragment accumulator) {
              return addToValues(head, row, use, std::move(accumulator));
            },
            keys.valueOutput, kernel.valueOutput, ValueGradientMap, 1,
            valueAddress);
      },
      [&]() {
        return sum(
            form.headDim,
            [&](Value head, Value row, Value use, Fragment accumulator) {
              return addToKeys(head, row, use, std::move(accumulator));
            },
            keys.keyOutput, kernel.keyOutput, KeyGradientMap, 0, keyAddress);
      });
  finishWrites();
  return success(valid);
}

LogicalResult hopper::emitSplitConsumer(KeyThread &thread, Value group) {
  return SplitConsumer(thread, group).emit();
}
