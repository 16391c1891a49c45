//===- TaskScalars.cpp - What a task and a block know as scalars ----------===//
//
// Bounds, offsets, views and conditions of the tiled form are cloned where the
// task or the key block begins. What the tiled form takes from whole vectors
// (a range of segment ids, whether any key is seen) becomes a loop over
// registers: no vector longer than one is ever held.
//
// The keys that some row sees are kept as bytes in scratch, since the second
// product asks for them one by one.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// An operation on scalars, without writes.
bool cpu::isScalarOp(Operation &op) {
  auto isScalar = [](Type type) { return !isa<VectorType>(type); };
  return op.getNumRegions() == 0 && !op.hasTrait<OpTrait::IsTerminator>() &&
         llvm::all_of(op.getOperandTypes(), isScalar) &&
         llvm::all_of(op.getResultTypes(), isScalar);
}

/// Which keys of the block some row sees, as bytes in scratch.
static LogicalResult emitSeen(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  auto lanes = VectorType::get(kernel.width, e.b.getI1Type());
  auto bytes = VectorType::get(kernel.width, e.b.getI8Type());
  Value none = arith::ConstantOp::create(e.b, e.loc,
                                         DenseElementsAttr::get(lanes, false));
  bool valid = true;
  e.loop(e.index(0), e.index(form.blockKey), kernel.width, [&](Value column) {
    SmallVector<Value> any =
        e.loop(e.index(0), e.index(form.blockQuery), 1, none,
               [&](Value row, ValueRange carried) -> SmallVector<Value> {
                 FailureOr<Value> visible = task.slicer.tile(
                     form.seen.getSource(), {row, column, kernel.width});
                 valid &= succeeded(visible);
                 if (failed(visible))
                   return {carried[0]};
                 return {arith::OrIOp::create(e.b, e.loc, carried[0], *visible)
                             .getResult()};
               });
    e.store(arith::ExtUIOp::create(e.b, e.loc, bytes, any[0]),
            task.scratch.seen, column);
  });
  return success(valid);
}

/// The same from a mask of keys alone.
static LogicalResult emitSeenKeys(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  auto bytes = VectorType::get(kernel.width, e.b.getI8Type());
  bool valid = true;
  e.loop(e.index(0), e.index(form.blockKey), kernel.width, [&](Value column) {
    FailureOr<Value> lanes =
        task.slicer.lanes(form.seenKeys, {Value(), column, kernel.width});
    valid &= succeeded(lanes);
    if (failed(lanes))
      return;
    Value seen = *lanes;
    if (!isa<VectorType>(seen.getType()))
      seen = e.splat(VectorType::get(kernel.width, e.b.getI1Type()), seen);
    e.store(arith::ExtUIOp::create(e.b, e.loc, bytes, seen), task.scratch.seen,
            column);
  });
  return success(valid);
}

/// Whether any key of the block is seen.
static Value emitAnySeen(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  auto bytes = VectorType::get(kernel.width, e.b.getI8Type());
  Value none = arith::ConstantOp::create(
      e.b, e.loc, DenseElementsAttr::get(bytes, e.b.getI8IntegerAttr(0)));
  SmallVector<Value> any = e.loop(
      e.index(0), e.index(kernel.form.blockKey), kernel.width, none,
      [&](Value column, ValueRange carried) -> SmallVector<Value> {
        Value seen = e.load(bytes, task.scratch.seen, column);
        return {arith::OrIOp::create(e.b, e.loc, carried[0], seen).getResult()};
      });
  Value reduced = vector::ReductionOp::create(
      e.b, e.loc, vector::CombiningKind::OR, any[0]);
  Value zero = arith::ConstantOp::create(e.b, e.loc, e.b.getI8IntegerAttr(0));
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, reduced,
                               zero);
}

/// A scalar from a flat vector, one register at a time.
static FailureOr<Value> reduceLanes(Task &task,
                                    vector::MultiDimReductionOp reduction) {
  Emitter &e = task.e;
  int64_t width = task.kernel.width;
  VectorType source = reduction.getSourceVectorType();
  int64_t size = source.getDimSize(0);
  auto positions = VectorType::get(width, e.b.getIndexType());
  Value initial = e.splat(VectorType::get(width, source.getElementType()),
                          task.slicer.scalar(reduction.getAcc()));
  bool valid = true;
  SmallVector<Value> lanes = e.loop(
      e.index(0), e.index(size), width, initial,
      [&](Value column, ValueRange carried) -> SmallVector<Value> {
        FailureOr<Value> piece =
            task.slicer.lanes(reduction.getSource(), {Value(), column, width});
        valid &= succeeded(piece);
        if (failed(piece))
          return {carried[0]};
        Value inside = *piece;
        if (size % width != 0) {
          // What lies behind the vector belongs to the next tile.
          Value left = arith::SubIOp::create(e.b, e.loc, e.index(size), column);
          Value isInside = arith::CmpIOp::create(
              e.b, e.loc, arith::CmpIPredicate::slt,
              vector::StepOp::create(e.b, e.loc, positions),
              e.splat(positions, left));
          inside =
              arith::SelectOp::create(e.b, e.loc, isInside, inside, initial);
        }
        return {vector::makeArithReduction(e.b, e.loc, reduction.getKind(),
                                           inside, carried[0])};
      });
  if (!valid)
    return failure();
  return Value(
      vector::ReductionOp::create(e.b, e.loc, reduction.getKind(), lanes[0]));
}

/// What an operation takes from vectors; null for what the slicer makes where
/// it is used.
static FailureOr<Value> scalarFromVector(Task &task, Operation &op) {
  TiledForm &form = task.kernel.form;
  if (auto extract = dyn_cast<vector::ExtractOp>(op)) {
    if (isa<VectorType>(extract.getType()))
      return Value();
    Value position = task.e.index(extract.getStaticPosition()[0]);
    return task.slicer.rowElement(extract.getSource(), {position, Value(), 1});
  }
  auto reduction = dyn_cast<vector::MultiDimReductionOp>(op);
  if (!reduction || isa<VectorType>(reduction.getType()) ||
      reduction == form.vote)
    return Value();
  if (reduction.getSource() != form.seenKeys)
    return reduceLanes(task, reduction);
  if (!form.seen && failed(emitSeenKeys(task)))
    return failure();
  return emitAnySeen(task);
}

LogicalResult cpu::cloneScalars(Task &task, Block &block) {
  Emitter &e = task.e;
  TiledForm &form = task.kernel.form;
  auto isThere = [&](Value operand) {
    return task.scalars.contains(operand) ||
           !form.tasks->isAncestor(operand.getParentBlock()->getParentOp());
  };
  for (Operation &op : block) {
    if (form.seen && &op == form.seen.getOperation()) {
      if (failed(emitSeen(task)))
        return failure();
      continue;
    }
    if (isScalarOp(op)) {
      if (llvm::all_of(op.getOperands(), isThere))
        e.b.clone(op, task.scalars)->removeAttr(kRoleAttrName);
      continue;
    }
    FailureOr<Value> scalar = scalarFromVector(task, op);
    if (failed(scalar))
      return failure();
    if (*scalar)
      task.scalars.map(op.getResult(0), *scalar);
  }
  return success();
}

/// The scalars of the branch that tests elements; its `seen` only when the
/// branch is taken, else every key counts as seen.
static LogicalResult cloneBranchScalars(Task &task) {
  Emitter &e = task.e;
  const CpuKernel &kernel = task.kernel;
  TiledForm &form = kernel.form;
  Block *branch = form.masked.thenBlock();
  bool hasSeen = form.seen && form.seen->getBlock() == branch;
  vector::MultiDimReductionOp seen = form.seen;
  if (hasSeen)
    form.seen = {};
  LogicalResult cloned = cloneScalars(task, *branch);
  form.seen = seen;
  if (failed(cloned) || !hasSeen)
    return cloned;
  bool valid = true;
  scf::IfOp::create(
      e.b, e.loc, task.slicer.scalar(form.masked.getCondition()),
      [&](OpBuilder &, Location) {
        valid = succeeded(emitSeen(task));
        scf::YieldOp::create(e.b, e.loc);
      },
      [&](OpBuilder &, Location) {
        auto bytes = VectorType::get(kernel.width, e.b.getI8Type());
        Value all = arith::ConstantOp::create(
            e.b, e.loc, DenseElementsAttr::get(bytes, e.b.getI8IntegerAttr(1)));
        e.loop(e.index(0), e.index(form.blockKey), kernel.width,
               [&](Value column) { e.store(all, task.scratch.seen, column); });
        scf::YieldOp::create(e.b, e.loc);
      });
  return success(valid);
}

LogicalResult cpu::cloneMaskScalars(Task &task) {
  TiledForm &form = task.kernel.form;
  if (form.masked && failed(cloneBranchScalars(task)))
    return failure();
  if (form.seenKeys && !form.seen && !form.reach)
    return emitSeenKeys(task);
  return success();
}
