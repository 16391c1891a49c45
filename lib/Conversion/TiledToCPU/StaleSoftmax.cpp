//===- StaleSoftmax.cpp - Probabilities by a reference that stays behind --===//
//
// Most blocks subtract what their rows subtracted before and ask for no
// maximum. A row group of a block:
//
//   p = exp2(c s - c m) with the old m; what the block adds to l, per lane
//   any lane adds more than the bound, or NaN:  the block again, by its maximum
//   none:                                       l += what the block adds
//
// A vote on the lanes is a vote on l: a bound on a sum bounds its parts. The
// first block of a task has no reference yet and would always be done again, so
// it goes by its maximum at once.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

FailureOr<Value> cpu::staleProbability(Task &task, Value row, Value column,
                                       Value score) {
  Emitter &e = task.e;
  TiledForm &form = task.kernel.form;
  Value rowMax = task.scratch.rowMax;
  task.slicer.bind(
      form.rowMax->getOperand(1), [&e, rowMax](const Piece &piece) {
        return memref::LoadOp::create(e.b, e.loc, rowMax, piece.row);
      });
  task.slicer.bind(form.rowMax->getOperand(0),
                   [score](const Piece &) { return score; });
  return task.slicer.tile(form.probabilities->getResult(0),
                          {row, column, task.kernel.width});
}

/// Whether a row must change its reference; leaves l in `blockSum`.
static FailureOr<Value> voteOnSums(Task &task, const Rows &rows) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  const Scratch &s = task.scratch;
  Value zero = e.index(0);
  auto votes = VectorType::get(kernel.width, e.b.getI1Type());
  Value none = arith::ConstantOp::create(e.b, e.loc,
                                         DenseElementsAttr::get(votes, false));
  bool valid = true;
  SmallVector<Value> any = e.loop(
      rows.first, e.add(rows.first, rows.count), 1, none,
      [&](Value row, ValueRange carried) -> SmallVector<Value> {
        Value old = e.load(kernel.vector, s.laneSum, {row, zero});
        Value added = e.load(kernel.vector, s.blockSum, {row, zero});
        Value sum = arith::AddFOp::create(e.b, e.loc, old, added);
        e.store(sum, s.blockSum, {row, zero});
        Value reference = vector::BroadcastOp::create(
            e.b, e.loc, kernel.vector,
            memref::LoadOp::create(e.b, e.loc, s.rowMax, row));
        task.slicer.bind(form.rowMax->getOperand(1),
                         [reference](const Piece &) { return reference; });
        task.slicer.bind(form.rowSum.getAcc(),
                         [old](const Piece &) { return old; });
        task.slicer.bind(form.rowSum.getResult(),
                         [sum](const Piece &) { return sum; });
        FailureOr<Value> vote = task.slicer.lanes(form.vote.getSource(),
                                                  {Value(), row, kernel.width});
        valid &= succeeded(vote);
        if (failed(vote))
          return {carried[0]};
        return {arith::OrIOp::create(e.b, e.loc, carried[0], *vote)};
      });
  if (!valid)
    return failure();
  return Value(vector::ReductionOp::create(e.b, e.loc,
                                           vector::CombiningKind::OR, any[0]));
}

static void forEachRow(Emitter &e, const Rows &rows,
                       llvm::function_ref<void(Value)> body) {
  e.loop(rows.first, e.add(rows.first, rows.count), 1, body);
}

LogicalResult
cpu::updateStale(Task &task, const KeyBlock &block, const Rows &rows,
                 llvm::function_ref<LogicalResult()> keepReference,
                 llvm::function_ref<LogicalResult()> followMaximum) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  const Scratch &s = task.scratch;
  Value zero = e.index(0);
  bool valid = true;
  auto yield = [&](ValueRange values) {
    scf::YieldOp::create(e.b, e.loc, values);
  };
  Value yes = arith::ConstantOp::create(e.b, e.loc, e.b.getBoolAttr(true));
  auto isBad = scf::IfOp::create(
      e.b, e.loc, block.isFirst, [&](OpBuilder &, Location) { yield(yes); },
      [&](OpBuilder &, Location) {
        Value none = e.constant(kernel.vector, 0.0);
        forEachRow(e, rows,
                   [&](Value row) { e.store(none, s.blockSum, {row, zero}); });
        valid &= succeeded(keepReference());
        FailureOr<Value> vote = voteOnSums(task, rows);
        valid &= succeeded(vote);
        yield(succeeded(vote) ? *vote : yes);
      });
  scf::IfOp::create(
      e.b, e.loc, isBad.getResult(0),
      [&](OpBuilder &, Location) {
        valid &= succeeded(followMaximum());
        yield({});
      },
      [&](OpBuilder &, Location) {
        forEachRow(e, rows, [&](Value row) {
          e.store(e.load(kernel.vector, s.blockSum, {row, zero}), s.laneSum,
                  {row, zero});
        });
        yield({});
      });
  return success(valid);
}
