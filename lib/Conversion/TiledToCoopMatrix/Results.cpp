//===- Results.cpp - Output and lse ---------------------------------------===//
//
// An output of 16-bit elements goes through shared memory, where the key and
// value block were, and out in units of 16 bytes. Where rows are no whole units
// every thread writes the elements that it holds. Of those that share a row the
// one in the first column writes the row's lse.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;
static constexpr int64_t kUnit = CoopMatrixTiles::kUnit;

namespace {
/// A result's view in main memory and the task's first row of it.
struct ResultRows {
  Value view, firstRow, length;

  ResultRows(GpuEmitter &e, vector::TransferWriteOp write,
             const IRMapping &scalars)
      : view(scalars.lookup(write.getBase())),
        firstRow(scalars.lookup(write.getIndices()[0])),
        length(memref::DimOp::create(e.b, e.loc, view, int64_t(0))) {}
};
} // namespace

static LogicalResult writeOutput(Thread &thread, const ResultRows &rows,
                                 Slab &slab) {
  GpuEmitter &e = thread.e;
  TiledForm &form = thread.kernel.form;
  bool valid = true;
  for (int64_t i = 0; i < slab.layout.count(); ++i) {
    Value row = e.add(rows.firstRow, slab.layout.rowOf(i));
    e.branch(e.less(row, rows.length), [&]() {
      for (int64_t first = 0; first < form.valueDim; first += kSide) {
        Value column = e.add(slab.layout.columnOf(i), first);
        auto write = [&]() {
          FailureOr<Value> element =
              slab.layout.element(form.output.getVector(), first / kSide, i);
          valid &= succeeded(element);
          if (valid)
            memref::StoreOp::create(e.b, e.loc, *element, rows.view,
                                    ValueRange{row, column});
        };
        if (first + kSide <= form.valueDim)
          write();
        else
          e.branch(e.less(column, e.index(form.valueDim)), write);
      }
    });
  }
  return success(valid);
}

/// The tile of f32 that the output is rounded from, where it can go out in
/// units; null where not.
static Value findStagedTile(Thread &thread, const ResultRows &rows) {
  const CoopMatrixTiles &tiles = thread.kernel.tiles;
  TiledForm &form = thread.kernel.form;
  auto rounded = form.output.getVector().getDefiningOp<arith::TruncFOp>();
  bool fits =
      form.blockQuery * tiles.value.pitch * CoopMatrixTiles::kElementBytes <=
      tiles.tileBytes();
  if (!rounded || !fits || form.valueDim % kUnit != 0 ||
      form.output.getVectorType().getElementType() != form.elementType ||
      !getElementTypeOrSelf(rounded.getIn()).isF32() ||
      !hasWholeUnits(argumentOf(rows.view)))
    return Value();
  return rounded.getIn();
}

/// A subgroup stages its own rows and copies them. Rows lie as those of the
/// value block.
static LogicalResult stageOutput(Thread &thread, const ResultRows &rows,
                                 Value tile, std::deque<Slab> &slabs) {
  GpuEmitter &e = thread.e;
  Matrices &matrices = thread.matrices;
  const CoopMatrixTiles &tiles = thread.kernel.tiles;
  int64_t pitch = tiles.value.pitch / kUnit, count = tiles.slabs * kSide;
  Value ownRow = e.mul(thread.subgroup, count);
  // The last block is multiplied by all.
  matrices.workgroupBarrier();
  for (auto [number, slab] : llvm::enumerate(slabs)) {
    Value first = e.mul(e.add(ownRow, int64_t(number) * kSide), pitch);
    for (int64_t column = 0; column < tiles.value.columns; column += kSide) {
      Values elements;
      for (int64_t i = 0; i < slab.layout.count(); ++i) {
        FailureOr<Value> element = slab.layout.element(tile, column / kSide, i);
        if (failed(element))
          return failure();
        elements.push_back(*element);
      }
      matrices.store(matrices.narrowMatrix(elements), thread.tiles,
                     e.add(first, column / kUnit), pitch);
    }
  }
  matrices.subgroupBarrier();

  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, rows.view);
  Value base = e.toI32(meta.getOffset());
  Value stride = e.toI32(meta.getStrides()[0]);
  MemoryArray units =
      matrices.viewArgument(thread.module, argumentOf(rows.view).getArgNumber(),
                            VectorType::get(4, e.b.getI32Type()));
  int64_t unitsOfRow = thread.kernel.form.valueDim / kUnit;
  e.loop(thread.lane, e.i32(count * unitsOfRow), e.i32(tiles.lanes), {},
         [&](Value number, ValueRange) {
           Value row = e.add(ownRow, e.div(number, unitsOfRow));
           Value unit = e.rem(number, unitsOfRow);
           Value to = e.add(e.toI32(rows.firstRow), row);
           e.branch(e.less(to, e.toI32(rows.length)), [&]() {
             Value value =
                 matrices.read(thread.tiles, e.add(e.mul(row, pitch), unit));
             Value at = e.add(base, e.mul(to, stride));
             matrices.write(units, e.add(e.div(at, kUnit), unit), value);
           });
           return SmallVector<Value>();
         });
  return success();
}

static LogicalResult writeLse(Thread &thread, const ResultRows &rows,
                              Slab &slab) {
  GpuEmitter &e = thread.e;
  FailureOr<Values> values =
      slab.layout.rows(thread.kernel.form.lse.getVector());
  if (failed(values))
    return failure();
  for (auto [i, value] : llvm::zip(thread.sharing.elementOf, *values)) {
    Value row = e.add(rows.firstRow, slab.layout.rowOf(i));
    Value isFirst = e.equals(thread.elementColumns[i], 0);
    e.branch(e.both(isFirst, e.less(row, rows.length)), [&, value = value]() {
      memref::StoreOp::create(e.b, e.loc, value, rows.view, row);
    });
  }
  return success();
}

LogicalResult coop::emitResults(Thread &thread, IRMapping &scalars,
                                std::deque<Slab> &slabs) {
  TiledForm &form = thread.kernel.form;
  if (form.output) {
    ResultRows rows(thread.e, form.output, scalars);
    Value tile = findStagedTile(thread, rows);
    if (tile && failed(stageOutput(thread, rows, tile, slabs)))
      return failure();
    for (Slab &slab : slabs)
      if (!tile && failed(writeOutput(thread, rows, slab)))
        return failure();
  }
  for (Slab &slab : slabs)
    if (form.lse &&
        failed(writeLse(thread, ResultRows(thread.e, form.lse, scalars), slab)))
      return failure();
  return success();
}
