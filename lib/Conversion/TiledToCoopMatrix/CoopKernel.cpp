//===- CoopKernel.cpp - What can be mapped, what a thread knows -----------===//

#include "CoopKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;

static LogicalResult verifyMappable(TiledForm &form) {
  const Tiling &t = form.tiling;
  auto refuse = [&](const Twine &what) {
    return form.tasks.emitOpError("cannot map tiles to cooperative matrices: ")
           << what;
  };
  int64_t lanes = form.target.subgroupSize;
  const MatrixUnit *unit = form.target.findMatrixUnit(
      "coopmat", form.elementType.isBF16() ? "bf16" : "f16");
  if (form.elementType.getWidth() != 16)
    return refuse("expected elements of f16 or bf16 for product = \"coopmat\"");
  if (!unit || unit->m != kSide || unit->n != kSide || unit->k != kSide)
    return refuse("expected a target with matrices of 16 x 16 x 16");
  if (lanes < 4 || kSide * kSide % lanes != 0)
    return refuse("expected a target whose subgroup size is known");
  if (t.blockQuery % (t.groups * kSide) != 0)
    return refuse("expected a block_query that is a multiple of 16 * groups");
  if (form.sweep && form.blockKey % kSide != 0)
    return refuse("expected a block_key that is a multiple of 16");
  if (form.isStale())
    return refuse("expected softmax = \"exact\" or \"conditional\"");
  for (vector::TransferReadOp read : {form.query, form.key, form.value})
    if (read && cast<MemRefType>(read.getBase().getType())
                        .getStridesAndOffset()
                        .first.back() != 1)
      return refuse("expected rows of neighbouring elements");
  return success();
}

FailureOr<CoopKernel> CoopKernel::plan(TiledForm &form) {
  if (failed(verifyMappable(form)))
    return failure();
  CoopKernel kernel{form,
                    CoopMatrixTiles(form.tiling, form.headDim, form.valueDim,
                                    form.target.subgroupSize,
                                    /*hidesKeys=*/form.seen || form.seenKeys),
                    KnownLayout::of(form.target)};
  // The check of the layout is one of both.
  if (!kernel.isLayoutShared())
    kernel.layout.reset();
  else if (!kernel.layout && !form.target.matrixLayout.empty())
    return form.tasks.emitOpError("cannot map tiles to cooperative matrices: ")
           << "expected a matrix_layout that names each power of two below 256 "
              "once";
  return kernel;
}

Thread::Thread(GpuEmitter &e, const CoopKernel &kernel, gpu::GPUModuleOp module,
               const KnownLayout *layout)
    : e(e), kernel(kernel), module(module), layout(layout),
      sharing(kernel.tiles.elements(), layout),
      matrices(e, kernel.form.elementType) {
  const CoopMatrixTiles &t = kernel.tiles;
  auto unit = VectorType::get(4, e.b.getI32Type());
  tiles = matrices.share(module, "shared_tiles", unit, t.tileBytes() / 16);
  reduction = matrices.share(module, "shared_rows", e.b.getF32Type(),
                             t.reductionBytes() / 4);
  if (t.seenWords > 0)
    seen = matrices.share(module, "shared_seen", e.b.getI32Type(),
                          t.seenWords + 1);
  id = e.toI32(gpu::ThreadIdOp::create(e.b, e.loc, gpu::Dimension::x));
  lane = e.toI32(gpu::LaneIdOp::create(e.b, e.loc, IntegerAttr()));
  subgroup = e.toI32(gpu::SubgroupIdOp::create(e.b, e.loc, IntegerAttr()));
  reductionAt = e.mul(subgroup, kSide * CoopMatrixTiles::kReductionPitch);
  if (layout)
    placeElements();
  else
    findElements();
}

void Thread::placeElements() {
  Value place = layout->placeOf(e, lane);
  Value row = e.div(place, kSide), column = e.rem(place, kSide);
  for (int64_t i = 0; i < kernel.tiles.elements(); ++i) {
    elementRows.push_back(e.add(row, layout->placeOf(i) / kSide));
    elementColumns.push_back(e.add(column, layout->placeOf(i) % kSide));
  }
}

/// Each subgroup loads a matrix of the numbers 0 to 255.
void Thread::findElements() {
  constexpr int64_t kPitch = CoopMatrixTiles::kReductionPitch;
  Value last = e.i32(kSide * kSide), step = e.i32(kernel.tiles.lanes);
  e.loop(lane, last, step, {}, [&](Value number, ValueRange) {
    Value at = e.add(e.mul(e.div(number, kSide), kPitch), e.rem(number, kSide));
    Value value = arith::UIToFPOp::create(e.b, e.loc, e.b.getF32Type(), number);
    matrices.write(reduction, e.add(reductionAt, at), value);
    return SmallVector<Value>();
  });
  matrices.subgroupBarrier();
  Value numbers =
      matrices.load(matrices.accumulator(), reduction, reductionAt, kPitch);
  for (Value element : matrices.elements(numbers, kernel.tiles.elements())) {
    Value number =
        arith::FPToUIOp::create(e.b, e.loc, e.b.getI32Type(), element);
    elementRows.push_back(e.div(number, kSide));
    elementColumns.push_back(e.rem(number, kSide));
  }
}

static Values rowsOf(Thread &t, int64_t slab) {
  int64_t rows = t.kernel.tiles.slabs * kSide;
  Value first = t.e.add(t.e.mul(t.subgroup, rows), slab * kSide);
  Values result;
  for (Value row : t.elementRows)
    result.push_back(t.e.toIndex(t.e.add(first, row)));
  return result;
}

static Values columnsOf(Thread &t) {
  Values result;
  for (Value column : t.elementColumns)
    result.push_back(t.e.toIndex(column));
  return result;
}

Slab::Slab(Thread &thread, int64_t number)
    : slicer(thread.e.b, thread.e.loc, scalars),
      layout(thread.e, slicer, thread.sharing, rowsOf(thread, number),
             columnsOf(thread)) {}
