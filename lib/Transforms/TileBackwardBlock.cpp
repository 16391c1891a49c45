//===- TileBackwardBlock.cpp - A block of rows and keys, again ------------===//

#include "BackwardTiler.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Reads and writes
//===----------------------------------------------------------------------===//

/// The row block of a query head; the keys are the caller's.
Task BackwardTiler::rowTask(Value batch, Value head, Value firstRow) {
  Task task;
  task.op = op;
  task.sizes = sizes;
  task.batch = batch;
  task.head = head;
  task.kvHead = b.divide(head, b.divide(sizes.queryHeads, sizes.kvHeads));
  task.firstRow = firstRow;
  std::optional<int64_t> length = getConstantIntValue(sizes.queryLength);
  task.rowsAligned = length && *length % b.rows == 0;
  task.rowEnd = b.add(firstRow, number(b.rows));
  if (!task.rowsAligned)
    task.rowEnd = b.minimum(task.rowEnd, sizes.queryLength);
  return task;
}

/// Rows [firstRow, firstRow + rows) of a matrix; null without a width.
Value BackwardTiler::readTile(Value view, Value firstRow, int64_t width,
                              int64_t rows, bool inBounds, StringRef role,
                              Value mask) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  Value tile = read(b, VectorType::get({rows, width}, element), view,
                    {firstRow, b.value(number(0))}, b.constant(element, 0),
                    {inBounds, true}, mask);
  setRole(tile.getDefiningOp(), role);
  return tile;
}

Value BackwardTiler::readRowTile(Value operand, Layout layout, const Task &task,
                                 int64_t width, StringRef role) {
  if (width == 0)
    return {};
  Value view = headView(b, operand, layout, task.batch, task.head, number(0),
                        sizes.queryLength, width);
  return readTile(view, task.firstRow, width, b.rows, task.rowsAligned, role);
}

/// Scratch of whole blocks is longer than the sequence.
Value BackwardTiler::perRowView(Value operand, Value batch, Value head) {
  auto type = cast<MemRefType>(operand.getType());
  Index length = sizes.queryLength;
  if (operand.getDefiningOp<memref::AllocOp>())
    length = type.isDynamicDim(2)
                 ? Index(memref::DimOp::create(b, operand, 2).getResult())
                 : number(type.getDimSize(2));
  return subview(b, operand, {batch, head, number(0)},
                 {number(1), number(1), length}, {false, false, true});
}

static bool isOfWholeBlocks(Value operand, bool hasWholeBlocks) {
  return hasWholeBlocks && operand.getDefiningOp<memref::AllocOp>();
}

Value BackwardTiler::readPerRow(Value operand, const Task &task, double pad) {
  return read(b, cast<VectorType>(b.typeOf(Extent::PerRow, accumulator)),
              perRowView(operand, task.batch, task.head), task.firstRow,
              b.constant(accumulator, pad),
              task.rowsAligned || isOfWholeBlocks(operand, hasWholeBlocks));
}

void BackwardTiler::writePerRow(Value value, Value destination,
                                const Task &task, StringRef role) {
  auto write = vector::TransferWriteOp::create(
      b, value, perRowView(destination, task.batch, task.head),
      ValueRange{task.firstRow},
      ArrayRef<bool>{task.rowsAligned ||
                     isOfWholeBlocks(destination, hasWholeBlocks)});
  setRole(write, role);
}

RowTiles BackwardTiler::readRows(const Task &task) {
  RowTiles rows;
  rows.query = readRowTile(op.getQuery(), op.getQueryLayout(), task,
                           sizes.headDim, role::kQuery);
  rows.outputGradient =
      readRowTile(op.getOutputGradient(), op.getOutputLayout(), task,
                  sizes.valueDim, role::kOutputGradient);
  rows.reference =
      reference ? readPerRow(reference, task, 0) : computeReference(task);
  rows.delta = readPerRow(delta, task, 0);
  if (hasWholeBlocks) {
    setRole(rows.reference.getDefiningOp(), role::kReference);
    setRole(rows.delta.getDefiningOp(), role::kDelta);
  }
  return rows;
}

void BackwardTiler::writeRows(Value tile, Value destination, Layout layout,
                              Value batch, Index head, Index length,
                              Value firstRow, bool inBounds, int64_t width,
                              bool isScaled) {
  if (width == 0)
    return;
  double scale = op.getScaleValue().value_or(1);
  if (isScaled && scale != 1)
    tile = arith::MulFOp::create(b, tile, b.constant(tile.getType(), scale));
  Value view =
      headView(b, destination, layout, batch, head, number(0), length, width);
  Type element = cast<MemRefType>(destination.getType()).getElementType();
  auto write = vector::TransferWriteOp::create(
      b, b.castFloat(tile, element), view,
      ValueRange{firstRow, b.value(number(0))}, ArrayRef<bool>{inBounds, true});
  setRole(write, role::kOutput);
}

Value BackwardTiler::accumulate(Value lhs, Value rhs, Value acc,
                                Transposed transposed, StringRef role) {
  Type element = op.getElementType();
  return contract(b, b.castFloat(lhs, element), b.castFloat(rhs, element), acc,
                  transposed, role);
}

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

Value BackwardTiler::computeReference(const Task &task) {
  Value lse =
      readPerRow(op.getLse(), task, std::numeric_limits<double>::infinity());
  Type row = lse.getType();
  Value none = b.negativeInfinity(row);
  // A row without keys has only scores of -inf; -inf less -inf would be NaN.
  Value isEmpty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, lse, none);
  lse = arith::SelectOp::create(b, isEmpty, b.constant(row, 0), lse);
  if (hasBase2())
    return arith::MulFOp::create(b, lse,
                                 b.constant(row, -llvm::numbers::log2e));
  return arith::NegFOp::create(b, lse);
}

Value BackwardTiler::probabilities(const Task &task, Value scores,
                                   Value reference) {
  Type tile = scores.getType();
  double factor = TileScore::exponent(op).factor;
  if (hasBase2())
    factor *= llvm::numbers::log2e;
  Value exponents = math::FmaOp::create(b, scores, b.constant(tile, factor),
                                        b.toTile({reference, Extent::PerRow}));
  // Otherwise rounded once before the factor log2 e, as exp(s - lse) would be.
  if (!hasBase2())
    exponents = arith::MulFOp::create(b, exponents,
                                      b.constant(tile, llvm::numbers::log2e));
  Value result = math::Exp2Op::create(b, exponents);
  if ((op.hasScoreMod() || op.getBias()) && !task.rowsAligned) {
    TileValue rest = {b.value(b.subtract(sizes.queryLength, task.firstRow)),
                      Extent::Uniform};
    TileValue isRow =
        b.combine<arith::CmpIOp>(b.step(Extent::PerRow, b.getIndexType()), rest,
                                 arith::CmpIPredicate::slt);
    result = arith::SelectOp::create(b, b.toTile(isRow), result,
                                     b.constant(result.getType(), 0));
  }
  setRole(result.getDefiningOp(), role::kProbabilities);
  return result;
}

Value BackwardTiler::dropHidden(Value gradient, Value probabilities) {
  Value isHidden =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, probabilities,
                            b.constant(probabilities.getType(), 0));
  return arith::SelectOp::create(b, isHidden, b.constant(gradient.getType(), 0),
                                 gradient);
}

BlockGradients BackwardTiler::computeBlock(const Task &task, TileMask &mask,
                                           const RowTiles &rows, Value key,
                                           Value value, Value firstKey,
                                           bool mayHideKeys,
                                           bool addsToOthers) {
  TileScore score(b, task);
  Value none = zeros(b.rows, b.columns);
  Value scores = none, ofProbabilities = none;
  if (key)
    scores =
        accumulate(rows.query, key, none, Transposed::Right, role::kScores);
  scores = mask.apply(score.apply(scores, firstKey));
  BlockGradients block;
  block.probabilities = probabilities(task, scores, rows.reference);
  if (value)
    ofProbabilities = accumulate(rows.outputGradient, value, none,
                                 Transposed::Right, role::kProbabilityGradient);
  Value difference = arith::SubFOp::create(
      b, ofProbabilities, b.toTile({rows.delta, Extent::PerRow}));
  Value ofScores = arith::MulFOp::create(b, block.probabilities, difference);
  if (mayHideKeys)
    ofScores = dropHidden(ofScores, block.probabilities);
  setRole(ofScores.getDefiningOp(), role::kScoreGradient);
  SmallVector<CaptureGradient> ofCaptures;
  block.ofProducts =
      score.differentiate(ofScores, firstKey, derivative, ofCaptures);
  if (op.hasScoreMod() || op.getSoftcap())
    block.ofProducts = dropHidden(block.ofProducts, block.probabilities);
  if (!addsToOthers)
    return block;
  gradients.addToBias(b, task, ofScores, firstKey);
  for (CaptureGradient &ofCapture : ofCaptures) {
    // Before it is added up with others, so that no hidden NaN is.
    ofCapture.gradient.value =
        dropHidden(b.toTile(ofCapture.gradient), block.probabilities);
    ofCapture.gradient.extent = Extent::Tile;
    gradients.addToCapture(b, ofCapture);
  }
  return block;
}
