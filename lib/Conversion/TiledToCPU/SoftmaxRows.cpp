//===- SoftmaxRows.cpp - The online softmax over rows of a score tile -----===//
//
// The tiled form states the update on whole row vectors and tiles. Here it runs
// over scratch in three short loops per key block:
//
//   per row         m' = max(m, row maximum of the block)
//   per lane of rows  alpha = exp2((m - m') c);  m = m'
//   per row         p = exp2(s c - m' c);  l = l alpha + sum p
//
// The maximum and the sum of a row are kept per lane and reduced across lanes
// once per block (maximum) or once per task (sum). The arithmetic itself is
// that of the tiled form, cloned by the slicer.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

/// The score that the row maximum reads, in the branch that tests elements or
/// in the one that does not.
static Value scoreBeforeMax(TiledForm &form, bool testElements) {
  Value score = form.rowMax->getOperand(0);
  if (form.masked && score == form.masked->getResult(0)) {
    scf::IfOp masked = form.masked;
    return testElements ? masked.thenYield().getOperand(0)
                        : masked.elseYield().getOperand(0);
  }
  return score;
}

LogicalResult
cpu::branchOnEdge(Task &task,
                  llvm::function_ref<LogicalResult(bool testElements)> body) {
  TiledForm &form = task.kernel.form;
  if (!form.masked || form.rowMax->getOperand(0) != form.masked->getResult(0))
    return body(true);
  Emitter &e = task.e;
  bool valid = true;
  auto emit = [&](bool testElements) {
    return [&, testElements](OpBuilder &, Location) {
      valid &= succeeded(body(testElements));
      scf::YieldOp::create(e.b, e.loc);
    };
  };
  scf::IfOp::create(e.b, e.loc, task.slicer.scalar(form.masked.getCondition()),
                    emit(true), emit(false));
  return success(valid);
}

FailureOr<Value> cpu::finishScore(Task &task, Value row, Value column,
                                  Value raw, bool testElements) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  task.slicer.unbind(form.rowMax->getOperand(0));
  if (form.scores)
    task.slicer.bind(form.scores->getResult(0),
                     [raw](const Piece &) { return raw; });
  FailureOr<Value> score = task.slicer.tile(scoreBeforeMax(form, testElements),
                                            {row, column, kernel.width});
  if (failed(score) || kernel.keys == form.blockKey)
    return score;
  // Columns that only pad the key block to whole register tiles are hidden.
  auto positions = VectorType::get(kernel.width, e.b.getIndexType());
  Value lanes = arith::AddIOp::create(
      e.b, e.loc, vector::StepOp::create(e.b, e.loc, positions),
      e.splat(positions, column));
  Value isReal =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, lanes,
                            e.splat(positions, e.index(form.blockKey)));
  Value hidden =
      e.constant(kernel.vector, -std::numeric_limits<double>::infinity());
  return Value(arith::SelectOp::create(e.b, e.loc, isReal, *score, hidden));
}

/// m' of every row.
static void reduceRowMaxima(Task &task, const Rows &rows) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  e.loop(e.index(0), e.index(rows.count), 1, [&](Value r) {
    Value lanes = e.load(task.kernel.vector, s.laneMax, {r, e.index(0)});
    Value row = e.add(rows.first, r);
    Value old = memref::LoadOp::create(e.b, e.loc, s.rowMax, row);
    // No lane holds a NaN, see maxLanes: a tree, not a chain of comparisons.
    Value reduced =
        vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::MAXNUMF,
                                    lanes, arith::FastMathFlags::nnan);
    Value next = e.maxLanes(old, reduced);
    memref::StoreOp::create(e.b, e.loc, next, s.nextMax, row);
  });
}

/// P by the maximum of the block: stale, that of the branch that follows it.
static Value probabilitiesByMaximum(TiledForm &form) {
  if (form.isStale())
    return form.rescale.thenYield().getOperand(1);
  return form.probabilities->getResult(0);
}

LogicalResult cpu::updateSoftmax(Task &task, TileProduct &product,
                                 const KeyBlock &block, const Rows &rows) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  const Scratch &s = task.scratch;
  TileSlicer &slicer = task.slicer;
  bool valid = true;

  reduceRowMaxima(task, rows);

  // alpha, one register of rows at a time.
  auto lanesOf = [&](Value memref) {
    return [&e, &kernel, memref](const Piece &piece) {
      return e.load(kernel.vector, memref, piece.column);
    };
  };
  Value carriedMax = form.rowMax->getOperand(1);
  slicer.bind(form.rowMax->getResult(0), lanesOf(s.nextMax));
  slicer.bind(carriedMax, lanesOf(s.rowMax));
  scf::ForOp::create(
      e.b, e.loc, rows.first, e.add(rows.first, rows.count),
      e.index(kernel.width), ValueRange(),
      [&](OpBuilder &, Location, Value row, ValueRange) {
        FailureOr<Value> alpha = slicer.lanes(form.correction->getResult(0),
                                              {Value(), row, kernel.width});
        valid &= succeeded(alpha);
        if (succeeded(alpha))
          e.store(*alpha, s.correction, row);
        e.store(e.load(kernel.vector, s.nextMax, row), s.rowMax, row);
        scf::YieldOp::create(e.b, e.loc);
      });

  // p and l, one row at a time.
  slicer.bind(form.rowMax->getResult(0), [&](const Piece &piece) -> Value {
    return memref::LoadOp::create(e.b, e.loc, s.nextMax, piece.row);
  });
  slicer.bind(form.rowMax->getOperand(0), [&](const Piece &piece) {
    return product.loadScores(task, e.sub(piece.row, rows.first), piece.column);
  });
  // The row sum is that of P as the product multiplies it: rounded alike above
  // and below the fraction bar, the roundings of equal probabilities cancel.
  // Not so where the softmax is stale: there the sums are made before P is.
  SmallVector<Value> places = {s.laneSum};
  if (kernel.needsExactSum())
    places.push_back(s.exactSum);
  SmallVector<Value> zeros(places.size(), e.constant(kernel.vector, 0.0));
  Value probabilities = probabilitiesByMaximum(form);
  e.loop(e.index(0), e.index(rows.count), 1, [&](Value r) {
    Value row = e.add(rows.first, r);
    SmallVector<Value> sums =
        e.loop(e.index(0), block.probabilityLimit(e, kernel, row), kernel.width,
               zeros, [&](Value column, ValueRange carried) {
                 FailureOr<Value> p =
                     slicer.tile(probabilities, {row, column, kernel.width});
                 SmallVector<Value> next(carried);
                 valid &= succeeded(p);
                 if (failed(p))
                   return next;
                 Value rounded =
                     product.storeProbabilities(task, r, column, *p);
                 Value terms[] = {kernel.sumsRounded() ? rounded : *p, *p};
                 for (auto [sum, term] : llvm::zip(next, terms))
                   sum = arith::AddFOp::create(e.b, e.loc, sum, term);
                 return next;
               });
    Value alpha = e.splat(
        kernel.vector, memref::LoadOp::create(e.b, e.loc, s.correction, row));
    for (auto [place, sum] : llvm::zip(places, sums)) {
      Value old = e.load(kernel.vector, place, {row, e.index(0)});
      e.store(vector::FMAOp::create(e.b, e.loc, old, alpha, sum), place,
              {row, e.index(0)});
    }
  });
  return success(valid);
}

LogicalResult cpu::initializeState(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  const Scratch &s = task.scratch;
  scf::ForOp sweep = kernel.form.sweep;
  if (!sweep)
    return success();
  bool valid = true;

  // m and l from the initial values of the sweep: -inf and 0, or the sink.
  auto initialOf = [&](Value carried) {
    return sweep.getInitArgs()[cast<BlockArgument>(carried).getArgNumber() - 1];
  };
  Value initialMax = initialOf(kernel.form.rowMax->getOperand(1));
  Value initialSum = sweep.getInitArgs()[1];
  e.loop(e.index(0), e.index(kernel.rows), kernel.width, [&](Value row) {
    Piece piece{Value(), row, kernel.width};
    FailureOr<Value> m = task.slicer.lanes(initialMax, piece);
    FailureOr<Value> l = task.slicer.lanes(initialSum, piece);
    valid &= succeeded(m) && succeeded(l);
    if (failed(m) || failed(l))
      return;
    e.store(*m, s.rowMax, row);
    e.store(*l, s.rowSum, row);
  });
  Value zero = e.constant(kernel.vector, 0.0);
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    // The initial l goes to lane 0.
    Value l = memref::LoadOp::create(e.b, e.loc, s.rowSum, row);
    Value lanes = vector::InsertOp::create(e.b, e.loc, l, zero, int64_t(0));
    e.store(lanes, s.laneSum, {row, e.index(0)});
    if (kernel.needsExactSum())
      e.store(lanes, s.exactSum, {row, e.index(0)});
    e.loop(e.index(0), e.index(kernel.valueColumns), kernel.width,
           [&](Value column) { e.store(zero, s.output, {row, column}); });
  });
  return success(valid);
}

/// Binds m, l and acc as they leave the sweep.
static void bindSweepResults(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  const Scratch &s = task.scratch;
  scf::ForOp sweep = kernel.form.sweep;
  if (!sweep)
    return;
  // The output takes m and l by row; the lse by pieces of rows, which have no
  // row of their own.
  auto rowsOf = [&](Value forOutput, Value forLse) {
    return [&e, &kernel, forOutput, forLse](const Piece &piece) -> Value {
      if (piece.row)
        return memref::LoadOp::create(e.b, e.loc, forOutput, piece.row);
      return e.load(kernel.vector, forLse, piece.column);
    };
  };
  task.slicer.bind(sweep.getResult(0), rowsOf(s.rowMax, s.rowMax));
  task.slicer.bind(
      sweep.getResult(1),
      rowsOf(s.rowSum, kernel.needsExactSum() ? s.rowExactSum : s.rowSum));
  if (sweep.getNumResults() > 2)
    task.slicer.bind(sweep.getResult(2), [&](const Piece &piece) {
      return e.load(kernel.vector, s.output, {piece.row, piece.column});
    });
}

/// Writes one row of the output, by whole vectors and a masked tail.
static LogicalResult writeOutputRow(Task &task, Value row) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  vector::TransferWriteOp write = kernel.form.output;
  Value base = task.slicer.scalar(write.getBase());
  Value firstRow = task.slicer.scalar(write.getIndices()[0]);
  Value target = e.add(firstRow, row);
  bool valid = true;
  forEachPiece(e, kernel.form.valueDim, kernel.width,
               [&](Value column, int64_t count) {
                 FailureOr<Value> piece = task.slicer.tile(
                     write.getValueToStore(), {row, column, kernel.width});
                 valid &= succeeded(piece);
                 if (succeeded(piece))
                   storeRowPiece(e, *piece, base, target, column, count);
               });
  return success(valid);
}

LogicalResult cpu::writeResults(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  const Scratch &s = task.scratch;
  vector::TransferWriteOp write =
      kernel.form.output ? kernel.form.output : kernel.form.lse;
  if (!write)
    return success();
  bool valid = true;

  auto reduceRows = [&](Value lanes, Value total) {
    e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
      Value sum = vector::ReductionOp::create(
          e.b, e.loc, vector::CombiningKind::ADD,
          e.load(kernel.vector, lanes, {row, e.index(0)}),
          arith::FastMathFlags::reassoc);
      memref::StoreOp::create(e.b, e.loc, sum, total, row);
    });
  };
  if (kernel.form.sweep)
    reduceRows(s.laneSum, s.rowSum);
  if (kernel.form.sweep && kernel.needsExactSum())
    reduceRows(s.exactSum, s.rowExactSum);

  bindSweepResults(task);
  Value base = task.slicer.scalar(write.getBase());
  Value firstRow = task.slicer.scalar(write.getIndices()[0]);
  Value size = memref::DimOp::create(e.b, e.loc, base, int64_t(0));
  Value count = e.min(e.index(kernel.form.blockQuery), e.sub(size, firstRow));
  if (kernel.form.output)
    e.loop(e.index(0), count, 1,
           [&](Value row) { valid &= succeeded(writeOutputRow(task, row)); });
  if (kernel.form.lse) {
    vector::TransferWriteOp lse = kernel.form.lse;
    Value lseBase = task.slicer.scalar(lse.getBase());
    e.loop(e.index(0), count, kernel.width, [&](Value row) {
      FailureOr<Value> lanes = task.slicer.lanes(lse.getValueToStore(),
                                                 {Value(), row, kernel.width});
      valid &= succeeded(lanes);
      if (failed(lanes))
        return;
      Value left = e.sub(count, row);
      Value mask = vector::CreateMaskOp::create(
          e.b, e.loc, VectorType::get(kernel.width, e.b.getI1Type()), left);
      vector::MaskedStoreOp::create(
          e.b, e.loc, lseBase,
          ValueRange{e.add(task.slicer.scalar(lse.getIndices()[0]), row)}, mask,
          *lanes);
    });
  }
  return success(valid);
}
