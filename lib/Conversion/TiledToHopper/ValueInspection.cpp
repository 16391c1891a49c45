//===- ValueInspection.cpp - Values that no row sees ----------------------===//
//
// TMA copies whole blocks. Of a key that segments hide from all rows of a task
// the probabilities are 0, but its value may be a NaN, and 0 * NaN is NaN. In
// blocks where the masks are tested a warp of the producer's warpgroup, the
// inspector, looks through the values that have arrived, before the consumers
// may use them. Next to always all are finite, and it passes them on. If one is
// not, it asks for each key whether some row sees it, and clears the values of
// those that none does.
//
// The inspector waits until a stage of values is full; a barrier of its own,
// "inspected", tells the consumers that it has let go of it. They release the
// stage after that, so nothing is copied over what is being inspected.
//
//===----------------------------------------------------------------------===//

#include "Consumer.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static constexpr int64_t kLanes = 32, kUnitBytes = 16;
/// Units that a lane loads at a time. Blocks are multiples of 16 rows of 128
/// bytes, which are four for each lane.
static constexpr int64_t kUnits = 4;

namespace {
class Inspection {
public:
  explicit Inspection(Thread &thread)
      : thread(thread), e(thread.e), kernel(thread.kernel), form(kernel.form),
        lane(e.bitAnd(thread.id, kLanes - 1)), order(thread) {}

  LogicalResult run();

private:
  void inspect(Value round, Value use, const FoundBlock &found);
  Value hasNonFinite(Value address);
  void clearUnseen(Value round, const FoundBlock &found, Value address);
  Value isSeen(TileSlicer &slicer, Value key);

  Thread &thread;
  GpuEmitter &e;
  const HopperKernel &kernel;
  TiledForm &form;
  Value lane;
  TaskOrder order;
  bool valid = true;
};
} // namespace

/// Whether any value of the stage is infinite or a NaN: the sum of all of them
/// times 0 is a NaN then, and 0 otherwise.
Value Inspection::hasNonFinite(Value address) {
  std::string fma =
      form.elementType.isBF16() ? "fma.rn.bf16x2 " : "fma.rn.f16x2 ";
  std::string text = "{\n\t.reg .b32 x<4>;\n\t.reg .b32 z;\n\tmov.b32 z, 0;";
  for (int64_t unit = 0; unit < kUnits; ++unit) {
    text += "\n\tld.shared.v4.b32 {x0, x1, x2, x3}, [$4+" +
            std::to_string(unit * kLanes * kUnitBytes) + "];";
    for (int64_t i = 0; i < 4; ++i) {
      std::string sum = "$" + std::to_string(i);
      text +=
          "\n\t" + fma + sum + ", x" + std::to_string(i) + ", z, " + sum + ";";
    }
  }
  text += "\n\t}";
  int64_t step = kUnits * kLanes * kUnitBytes;
  Value start = e.add(address, e.mul(lane, kUnitBytes));
  SmallVector<Value> sums = e.loop(
      start, e.add(start, kernel.valueRing.stageBytes), e.i32(step),
      SmallVector<Value>(4, e.i32(0)), [&](Value at, ValueRange carried) {
        SmallVector<Value> operands = {at};
        llvm::append_range(operands, carried);
        SmallVector<Type> words(4, e.b.getI32Type());
        return e.ptx(text, "=r,=r,=r,=r,r,0,1,2,3,~{memory}", words, operands);
      });
  Value all = sums[0];
  for (Value sum : ArrayRef(sums).drop_front())
    all = e.bitOr(all, sum);
  Value isBad =
      e.compare(arith::CmpIPredicate::ne, e.bitAnd(all, 0x7fff7fff), e.i32(0));
  return NVVM::VoteSyncOp::create(e.b, e.loc, e.b.getI1Type(), e.i32(-1), isBad,
                                  NVVM::VoteSyncKind::any);
}

/// Whether some row of the task sees a key of the block.
Value Inspection::isSeen(TileSlicer &slicer, Value key) {
  Value none = e.zero(e.b.getI1Type());
  return e.loop(e.i32(0), e.i32(form.blockQuery), e.i32(1), none,
                [&](Value row, ValueRange seen) {
                  FailureOr<Value> visible =
                      slicer.tile(form.seen.getSource(),
                                  {e.toIndex(row), e.toIndex(key), 1});
                  valid &= succeeded(visible);
                  if (failed(visible))
                    return SmallVector<Value>(seen);
                  Value bit =
                      vector::ExtractOp::create(e.b, e.loc, *visible, 0);
                  return SmallVector<Value>{e.bitOr(seen[0], bit)};
                })[0];
}

void Inspection::clearUnseen(Value round, const FoundBlock &found,
                             Value address) {
  IRMapping scalars = order.enter(order.taskOf(round));
  enterFound(e, form, found, scalars);
  cloneScalars(e, *form.masked.thenBlock(), scalars);
  TileSlicer slicer(e.b, e.loc, scalars);
  e.loop(
      lane, e.i32(form.blockKey), e.i32(kLanes), {},
      [&](Value key, ValueRange) {
        Value isHidden =
            e.bitXor(isSeen(slicer, key), e.like(e.zero(e.b.getI1Type()), 1));
        e.branch(isHidden, [&]() {
          Value row = e.add(address, e.mul(key, kChunkRowBytes));
          for (int64_t chunk = 0; chunk < kernel.valueChunks; ++chunk)
            for (int64_t unit = 0; unit < kChunkRowBytes; unit += kUnitBytes)
              e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", "r,r,~{memory}",
                    {e.add(row, chunk * form.blockKey * kChunkRowBytes + unit),
                     e.i32(0)});
        });
        return SmallVector<Value>();
      });
  fenceAsyncProxy(e);
}

void Inspection::inspect(Value round, Value use, const FoundBlock &found) {
  Slot slot = kernel.valueRing.slot(e, use);
  Value isMasked =
      e.compare(arith::CmpIPredicate::ne, found.isMasked, e.i32(0));
  e.branch(isMasked, [&]() {
    Value address = kernel.valueRing.address(e, thread.shared, slot);
    e.branch(hasNonFinite(address),
             [&]() { clearUnseen(round, found, address); });
  });
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  kernel.inspectedRing.fill(e, thread.shared, slot, e.equals(lane, 0));
}

LogicalResult Inspection::run() {
  e.loop(e.i32(0), order.rounds(), e.i32(1), e.i32(0),
         [&](Value round, ValueRange uses) -> SmallVector<Value> {
           return {e.repeatWhile(
               {uses[0], e.i32(0)},
               [&](ValueRange carried) {
                 return e.compare(arith::CmpIPredicate::sge, carried[1],
                                  e.i32(0));
               },
               [&](ValueRange carried) -> SmallVector<Value> {
                 Value use = carried[0];
                 kernel.valueRing.waitFull(e, thread.shared,
                                           kernel.valueRing.slot(e, use));
                 FoundBlock found = readFound(thread, use);
                 inspect(round, use, found);
                 return {e.add(use, 1), found.next};
               })[0]};
         });
  return success(valid);
}

LogicalResult hopper::emitInspection(Thread &thread) {
  return Inspection(thread).run();
}
