//===- GradientsToHopper.cpp - The gradients on warpgroups of Hopper ------===//
//
// A function of gradients becomes three or four kernels that are launched
// one behind the other:
//
//   rows     delta and the reference of each row, zeros for the sum of dQ
//   keys     dK and dV of a key block; an accumulated dQ is added to its sum by
//            atomic additions of 16 bytes
//   queries  the query gradient from its sum, or by a sweep of its own
//   sinks    the gradients of the sinks, where they are asked for
//
// They share a workspace in main memory: two f32 numbers for each row, and one
// for each element of an accumulated query gradient.
//
//===----------------------------------------------------------------------===//

#include "GradientKernels.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace attn {
#define GEN_PASS_DEF_GRADIENTSTOHOPPER
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

static void setRegisters(GpuEmitter &e, int64_t count, bool increase) {
  auto action = increase ? NVVM::SetMaxRegisterAction::increase
                         : NVVM::SetMaxRegisterAction::decrease;
  NVVM::SetMaxRegisterOp::create(e.b, e.loc, count, action);
}

/// The same value in all lanes, so that what follows from it is uniform.
static Value broadcastFirstLane(GpuEmitter &e, Value value) {
  return NVVM::ShflOp::create(e.b, e.loc, value.getType(), e.i32(-1), value,
                              e.i32(0), e.i32(31), NVVM::ShflKind::idx,
                              UnitAttr());
}

LogicalResult hopper::specialiseWarpgroups(
    GpuEmitter &e, Value id, Value shared, ArrayRef<const Ring *> rings,
    function_ref<void()> produce, function_ref<LogicalResult(Value)> consume) {
  e.branch(e.equals(id, 0), [&]() {
    for (const Ring *ring : rings)
      ring->initialize(e, shared);
    NVVM::FenceMbarrierInitOp::create(e.b, e.loc);
  });
  NVVM::Barrier0Op::create(e.b, e.loc);
  Value warpgroup = broadcastFirstLane(e, e.div(id, kWarpgroup));
  bool valid = true;
  scf::IfOp::create(
      e.b, e.loc, e.equals(warpgroup, 0),
      [&](OpBuilder &, Location) {
        setRegisters(e, 24, /*increase=*/false);
        e.branch(e.equals(id, 0), produce);
        scf::YieldOp::create(e.b, e.loc);
      },
      [&](OpBuilder &, Location) {
        setRegisters(e, 240, /*increase=*/true);
        valid = succeeded(consume(e.add(warpgroup, -1)));
        scf::YieldOp::create(e.b, e.loc);
      });
  return success(valid);
}

void hopper::clearCropped(GpuEmitter &e, const OperandTile &tile,
                          IRMapping &scalars, Value row, Value address,
                          Value me, int64_t threads,
                          function_ref<void()> whenCleared) {
  memref::SubViewOp view = tile.view;
  int64_t whole = view.getSourceType().getDimSize(tile.rowDim);
  if (!ShapedType::isDynamic(whole) && view.getStaticSize(tile.rowDim) == whole)
    return;
  auto scalar = [&](OpFoldResult size) -> Value {
    if (auto value = dyn_cast<Value>(size))
      return scalars.lookup(value);
    return e.index(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  };
  Value count = scalar(view.getMixedSizes()[tile.rowDim]);
  Value end = e.add(scalar(view.getMixedOffsets()[tile.rowDim]), count);
  Value source = scalars.lookup(view.getSource());
  Value length =
      memref::DimOp::create(e.b, e.loc, source, int64_t(tile.rowDim));
  Value isCropped =
      e.both(e.less(end, length), e.less(count, e.add(row, tile.rows)));
  e.branch(isCropped, [&]() {
    constexpr int64_t kUnits = kChunkRowBytes / 16;
    Value seen = e.toI32(e.max(e.sub(count, row), e.index(0)));
    e.loop(me, e.i32(tile.bytes() / 16), e.i32(threads), {},
           [&](Value unit, ValueRange) {
             Value line = e.rem(e.div(unit, kUnits), tile.rows);
             Value isHidden = e.compare(arith::CmpIPredicate::sge, line, seen);
             e.branch(isHidden, [&]() {
               e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};",
                     "r,r,~{memory}",
                     {e.add(address, e.mul(unit, 16)), e.i32(0)});
             });
             return SmallVector<Value>();
           });
    whenCleared();
  });
}

static bool isPlannedForWgmma(func::FuncOp function) {
  return llvm::any_of(function.getOps<scf::ForallOp>(), [](scf::ForallOp op) {
    auto tiling = op->getAttrOfType<TilingAttr>(kTilingAttrName);
    return getRole(op) == role::kKeyTasks && tiling &&
           tiling.getValue().product == "wgmma";
  });
}

static LogicalResult emitKernels(func::FuncOp function) {
  FailureOr<WarpgroupForm> form = readGradientForm(function);
  if (failed(form))
    return failure();
  gpu::GPUModuleOp module;
  auto emitQueries = form->isAccumulated() ? emitQueryKernel : emitSweepKernel;
  if (failed(emitRowKernel(*form, module)) ||
      failed(emitKeyKernel(*form, module)) ||
      failed(emitQueries(*form, module)))
    return failure();
  if (form->sinks.tasks && failed(emitSinkKernel(*form, module)))
    return failure();
  function.erase();
  return success();
}

namespace {
struct GradientsToHopper
    : attn::impl::GradientsToHopperBase<GradientsToHopper> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> functions(llvm::make_filter_range(
        getOperation().getOps<func::FuncOp>(), isPlannedForWgmma));
    for (func::FuncOp function : functions)
      if (failed(emitKernels(function)))
        return signalPassFailure();
  }
};
} // namespace
