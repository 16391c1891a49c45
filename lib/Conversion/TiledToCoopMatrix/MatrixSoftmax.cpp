//===- MatrixSoftmax.cpp - The online softmax on what a thread holds ------===//
//
// The softmax update of the tiled form for one slab. The arithmetic is the
// tiled form's, cloned by the slicer; what is made here is the order of things
// and the reductions.
//
// Where the layout is known, the lanes of a row exchange what they hold. Where
// it is not, rows are reduced through shared memory: each element of a matrix
// has a place there. Either is rare. A thread compares the reference with the
// maximum of its own elements, and only where one of the subgroup has outgrown
// it is the maximum of the row made. A row sum stays a sum of the thread's own
// elements until the sweep ends.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;
static constexpr int64_t kPitch = CoopMatrixTiles::kReductionPitch;

FailureOr<MatrixRows> MatrixSoftmax::initial() {
  FailureOr<Values> max = layout.rows(form.sweep.getInitArgs()[0]);
  FailureOr<Values> sum = layout.rows(form.sweep.getInitArgs()[1]);
  if (failed(max) || failed(sum))
    return failure();
  // One thread of a row starts with what the row starts with.
  for (auto [i, part] : llvm::zip(thread.sharing.elementOf, *sum)) {
    Value isFirst = e.equals(thread.elementColumns[i], 0);
    part = e.select(isFirst, part, e.zero(part.getType()));
  }
  return MatrixRows{*max, *sum};
}

FailureOr<Fragments>
MatrixSoftmax::finishScores(const Fragments &raw, bool isMasked,
                            function_ref<LogicalResult()> whenTested) {
  if (form.scores)
    layout.bind(form.scores->getResult(0), raw);
  scf::IfOp masked = form.masked;
  if (!testsSomeBlocks(form)) {
    if (failed(whenTested()))
      return failure();
    return layout.tile(form.rowMax->getOperand(0), form.blockKey);
  }
  Value plain = masked.elseYield().getOperand(0);
  FailureOr<Fragments> result = layout.tile(plain, form.blockKey);
  if (failed(result) || !isMasked)
    return result;
  layout.bind(plain, *result);
  Values unmasked;
  for (const Values &matrix : *result)
    llvm::append_range(unmasked, matrix);
  bool valid = true;
  Values all =
      e.branch(slab.scalars.lookup(masked.getCondition()), unmasked, [&]() {
        cloneScalars(e, *masked.thenBlock(), slab.scalars);
        FailureOr<Fragments> tested =
            layout.tile(masked.thenYield().getOperand(0), form.blockKey);
        valid = succeeded(tested) && succeeded(whenTested());
        if (!valid)
          return unmasked;
        Values elements;
        for (const Values &matrix : *tested)
          llvm::append_range(elements, matrix);
        return elements;
      });
  if (!valid)
    return failure();
  ArrayRef<Value> rest = all;
  for (Values &matrix : *result) {
    llvm::copy(rest.take_front(matrix.size()), matrix.begin());
    rest = rest.drop_front(matrix.size());
  }
  return result;
}

/// A NaN reaches its row through its probability: whether it is the maximum
/// does not matter, and the plain instruction may say either.
Value MatrixSoftmax::combine(Combine kind, Value x, Value y) {
  if (kind == Combine::Sum)
    return arith::AddFOp::create(e.b, e.loc, x, y);
  return thread.matrices.maximum(x, y);
}

Values MatrixSoftmax::combineRows(const Values &rows, Combine kind) {
  if (!thread.layout)
    return combineInMemory(rows, kind);
  Values result;
  for (Value row : rows) {
    for (int64_t distance : thread.layout->lanesOfRow())
      row = combine(kind, row, thread.matrices.fromLane(row, distance));
    result.push_back(row);
  }
  return result;
}

Values MatrixSoftmax::combineInMemory(const Values &elements, Combine kind) {
  Matrices &matrices = thread.matrices;
  auto placeOf = [&](Value row, Value column) {
    return e.add(thread.reductionAt, e.add(e.mul(row, kPitch), column));
  };
  // What was read there before was read by all.
  matrices.subgroupBarrier();
  for (auto [i, element] : llvm::enumerate(elements))
    matrices.write(thread.reduction,
                   placeOf(thread.elementRows[i], thread.elementColumns[i]),
                   element);
  matrices.subgroupBarrier();
  e.loop(thread.lane, e.i32(kSide), e.i32(thread.kernel.tiles.lanes), {},
         [&](Value row, ValueRange) {
           Value first = placeOf(row, e.i32(0));
           Value whole = matrices.read(thread.reduction, first);
           for (int64_t i = 1; i < kSide; ++i)
             whole = combine(kind, whole,
                             matrices.read(thread.reduction, e.add(first, i)));
           matrices.write(thread.reduction, first, whole);
           return SmallVector<Value>();
         });
  matrices.subgroupBarrier();
  Values result;
  for (Value row : thread.elementRows)
    result.push_back(matrices.read(thread.reduction, placeOf(row, e.i32(0))));
  return result;
}

Values MatrixSoftmax::gather(const Values &rows, const Fragments &tile,
                             Combine kind) {
  Values result = rows;
  for (const Values &matrix : tile)
    for (auto [row, element] : llvm::zip(thread.sharing.rowOf, matrix))
      result[row] = combine(kind, result[row], element);
  return result;
}

/// A bound on every part of a row is one on the row.
FailureOr<Value> MatrixSoftmax::compare(const Fragments &scores,
                                        const MatrixRows &rows) {
  layout.bindRows(form.sweep.getRegionIterArg(0), rows.max);
  layout.bindRows(form.sweep.getRegionIterArg(1), rows.sum);
  layout.bind(form.rowMax->getOperand(0), scores);
  partial = gather(rows.max, scores, Combine::Maximum);
  if (!form.rescale)
    return Value();
  layout.bindRows(form.rowMax->getResult(0), partial);
  FailureOr<Values> votes = layout.rows(form.vote.getSource());
  if (failed(votes))
    return failure();
  Value vote;
  for (Value grew : *votes)
    vote = vote ? e.bitOr(vote, grew) : grew;
  return vote;
}

LogicalResult MatrixSoftmax::correct(MatrixRows &rows, Values &acc) {
  Values max = combineRows(partial, Combine::Maximum);
  layout.bindRows(form.rowMax->getResult(0), max);
  FailureOr<Values> correction = layout.rows(form.correction->getResult(0));
  if (failed(correction))
    return failure();
  rows.max = max;
  for (auto [sum, factor] : llvm::zip(rows.sum, *correction))
    sum = arith::MulFOp::create(e.b, e.loc, sum, factor);
  Matrices &matrices = thread.matrices;
  Values spread;
  for (int64_t row : thread.sharing.rowOf)
    spread.push_back((*correction)[row]);
  Value factors = matrices.fromElements(matrices.accumulator(), spread);
  for (Value &matrix : acc)
    matrix = matrices.scale(matrix, factors);
  return success();
}

FailureOr<Fragments> MatrixSoftmax::exponentiate(MatrixRows &rows) {
  if (form.rescale)
    layout.bindRows(form.rescale.getResult(0), rows.max);
  // They are rounded to 16 bits: the device's own function will do.
  form.probabilities.setFastmath(arith::FastMathFlags::afn);
  FailureOr<Fragments> tile =
      layout.tile(form.probabilities->getResult(0), form.blockKey);
  if (failed(tile))
    return failure();
  rows.sum = gather(rows.sum, *tile, Combine::Sum);
  return tile;
}

void MatrixSoftmax::finish(MatrixRows rows, const Values &acc) {
  layout.bindRows(form.sweep.getResult(0), rows.max);
  layout.bindRows(form.sweep.getResult(1), combineRows(rows.sum, Combine::Sum));
  if (form.sweep.getNumResults() < 3)
    return;
  Fragments tile;
  for (Value matrix : acc)
    tile.push_back(thread.matrices.elements(matrix, layout.count()));
  layout.bind(form.sweep.getResult(2), tile);
}
