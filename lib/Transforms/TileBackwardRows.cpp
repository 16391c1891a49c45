//===- TileBackwardRows.cpp - delta, and the gradient of sinks ------------===//

#include "BackwardTiler.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Delta and sinks
//===----------------------------------------------------------------------===//

Value BackwardTiler::allocatePerRow(int64_t width) {
  Index blocks = b.divideUp(sizes.queryLength, b.rows);
  SmallVector<Index> counts = {
      sizes.batch, sizes.queryHeads,
      hasWholeBlocks ? b.multiply(blocks, number(b.rows)) : sizes.queryLength};
  if (width != 0)
    counts.push_back(number(width));
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamic;
  for (Index count : counts) {
    std::optional<int64_t> known = getConstantIntValue(count);
    shape.push_back(known.value_or(ShapedType::kDynamic));
    if (!known)
      dynamic.push_back(b.value(count));
  }
  return memref::AllocOp::create(b, MemRefType::get(shape, accumulator),
                                 dynamic);
}

void BackwardTiler::buildDelta() {
  delta = allocatePerRow();
  if (hasWholeBlocks)
    reference = allocatePerRow();
  if (isAccumulated && sizes.headDim != 0)
    querySum = allocatePerRow(sizes.headDim);
  OpBuilder::InsertionGuard guard(b);
  auto tasks = enterTasks(
      {sizes.batch, sizes.queryHeads, b.divideUp(sizes.queryLength, b.rows)},
      role::kDeltaTasks);
  SmallVector<Value> ids = tasks.getInductionVars();
  Task task =
      rowTask(ids[0], ids[1], b.value(b.multiply(ids[2], number(b.rows))));
  Type rowType = b.typeOf(Extent::PerRow, accumulator);
  Value sum = b.constant(rowType, 0);
  if (op.getLseGradient())
    sum = arith::NegFOp::create(b, readPerRow(op.getLseGradient(), task, 0));
  if (sizes.valueDim != 0) {
    auto tile = [&](Value operand, StringRef role) {
      return b.castFloat(readRowTile(operand, op.getOutputLayout(), task,
                                     sizes.valueDim, role),
                         accumulator);
    };
    Value product = arith::MulFOp::create(
        b, tile(op.getOutputGradient(), role::kOutputGradient),
        tile(op.getOutput(), role::kForwardOutput));
    sum = vector::MultiDimReductionOp::create(b, product, sum,
                                              ArrayRef<bool>{false, true},
                                              vector::CombiningKind::ADD);
  }
  writePerRow(sum, delta, task, role::kDelta);
  if (reference)
    writePerRow(computeReference(task), reference, task, role::kReference);
  if (querySum) {
    auto write = vector::TransferWriteOp::create(
        b, zeros(b.rows, sizes.headDim), querySumView(task),
        ValueRange{task.firstRow, b.value(number(0))},
        ArrayRef<bool>{true, true});
    setRole(write, role::kQuerySum);
  }
}

void BackwardTiler::buildSinks() {
  unsigned destination = 3 + op.getBiasGradient();
  OpBuilder::InsertionGuard guard(b);
  auto tasks = enterTasks({sizes.queryHeads}, role::kSinkTasks);
  Value head = tasks.getInductionVars()[0];
  Value sink = loadElement(b, op.getSinks(), head);
  Type rowType = b.typeOf(Extent::PerRow, accumulator);
  Value none = b.constant(rowType, 0);
  Value sinks = b.broadcast({sink, Extent::Uniform}, Extent::PerRow);
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sinks,
                                       b.negativeInfinity(rowType));
  auto addRows = [&](Value batch, Value firstRow, Value sum) -> Value {
    Task task = rowTask(batch, head, firstRow);
    Value lse =
        readPerRow(op.getLse(), task, std::numeric_limits<double>::infinity());
    Value exponent =
        arith::MulFOp::create(b, arith::SubFOp::create(b, sinks, lse),
                              b.constant(rowType, llvm::numbers::log2e));
    Value probability = arith::SelectOp::create(
        b, isNone, none, math::Exp2Op::create(b, exponent));
    Value ofRow = readPerRow(delta, task, 0);
    if (hasWholeBlocks)
      setRole(ofRow.getDefiningOp(), role::kDelta);
    Value term = arith::MulFOp::create(b, probability, ofRow);
    return arith::SubFOp::create(b, sum, term);
  };
  Value sums =
      loop(number(0), sizes.batch, 1, none, "",
           [&](Value batch, ValueRange outer) {
             return loop(
                 number(0), sizes.queryLength, b.rows, outer, "",
                 [&](Value firstRow, ValueRange inner) -> SmallVector<Value> {
                   return {addRows(batch, firstRow, inner[0])};
                 });
           })
          .front();
  Value total = vector::MultiDimReductionOp::create(
      b, sums, b.constant(accumulator, 0), ArrayRef<bool>{true},
      vector::CombiningKind::ADD);
  memref::StoreOp::create(b, total, op.getOuts()[destination], head);
}
