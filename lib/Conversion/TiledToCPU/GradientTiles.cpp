//===- GradientTiles.cpp - A task of the gradients in scratch -------------===//

#include "GradientTiles.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

//===----------------------------------------------------------------------===//
// What can be mapped
//===----------------------------------------------------------------------===//

bool cpu::accumulates(vector::ContractionOp product) {
  return llvm::is_contained(
      {role::kValueGradient, role::kKeyGradient, role::kQueryGradient},
      getRole(product));
}

static int64_t lanesOf(const TargetDescription &target, FloatType type) {
  return std::max<int64_t>(target.simdBits, 128) / type.getWidth();
}

static FloatType accumulatorOf(scf::ForallOp tasks) {
  FloatType type;
  tasks.walk([&](Operation *op) {
    if (auto product = dyn_cast<vector::ContractionOp>(op))
      type = cast<FloatType>(getElementTypeOrSelf(product.getAccType()));
    else if (auto write = dyn_cast<vector::TransferWriteOp>(op);
             write && getRole(write) == role::kDelta)
      type = cast<FloatType>(write.getVectorType().getElementType());
    else if (auto read = dyn_cast<vector::TransferReadOp>(op);
             read && getRole(read) == role::kQuerySum)
      type = cast<FloatType>(read.getVectorType().getElementType());
  });
  return type;
}

bool GradientTiles::canMap(scf::ForallOp tasks,
                           const TargetDescription &target) {
  FloatType type = accumulatorOf(tasks);
  if (!type || getRole(tasks) == role::kDeltaTasks)
    return bool(type);
  WalkResult found = tasks.walk([&](Operation *op) {
    if (auto product = dyn_cast<vector::ContractionOp>(op)) {
      bool hasKeys = !accumulates(product);
      int64_t keys = cast<VectorType>(product.getAccType()).getDimSize(1);
      return hasKeys && keys % lanesOf(target, type) != 0
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    }
    if (auto read = dyn_cast<vector::TransferReadOp>(op))
      return read.getMask() ? WalkResult::interrupt() : WalkResult::advance();
    if (isa<memref::AllocaScopeOp, memref::StoreOp, vector::ExtractOp,
            vector::MultiDimReductionOp>(op))
      return WalkResult::interrupt();
    // A loop without a role adds to a gradient of many tasks.
    if (isa<scf::ForOp>(op) && getRole(op).empty())
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return !found.wasInterrupted();
}

bool GradientTiles::asksForTileRegisters(scf::ForallOp tasks) {
  auto tiling = tasks->getAttrOfType<TilingAttr>(kTilingAttrName);
  return tiling && tiling.getValue().product == "amx" &&
         tasks
             .walk(
                 [](vector::ContractionOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

bool GradientTiles::usesTileRegisters(scf::ForallOp tasks) {
  bool fits = asksForTileRegisters(tasks);
  tasks.walk([&](vector::ContractionOp product) {
    for (Value operand : {product.getLhs(), product.getRhs()})
      if (operand != product.getLhs() || !accumulates(product))
        fits &= getElementTypeOrSelf(unrounded(operand)).isBF16();
  });
  return fits;
}

std::unique_ptr<GradientTiles>
GradientTiles::create(Emitter &e, scf::ForallOp tasks,
                      const TargetDescription &target, IRMapping &scalars) {
  return usesTileRegisters(tasks)
             ? createAmxGradients(e, tasks, target, scalars)
             : createFmaGradients(e, tasks, target, scalars);
}

GradientTiles::GradientTiles(Emitter &e, scf::ForallOp tasks,
                             const TargetDescription &target,
                             IRMapping &scalars)
    : e(e), scalars(scalars), slicer(e.b, e.loc, scalars),
      type(accumulatorOf(tasks)), width(lanesOf(target, type)),
      registers(std::max<int64_t>(target.simdRegisters, 16)) {
  vector = VectorType::get(width, type);
}

Value cpu::unrounded(Value factor) {
  while (Operation *op = factor.getDefiningOp()) {
    if (!isa<arith::TruncFOp, arith::ExtFOp>(op))
      break;
    factor = op->getOperand(0);
  }
  return factor;
}

void cpu::collectOps(Value tile, const llvm::DenseMap<Value, Value> &placed,
                     llvm::SetVector<Operation *> &ops) {
  Operation *op = tile.getDefiningOp();
  if (!op || !isa<VectorType>(tile.getType()) || placed.contains(tile) ||
      !ops.insert(op))
    return;
  for (Value operand : op->getOperands())
    if (!isa<vector::ContractionOp>(op))
      collectOps(operand, placed, ops);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()})
      collectOps(yield.getOperand(0), placed, ops);
}

vector::TransferReadOp cpu::findRead(Value tile) {
  llvm::SetVector<Operation *> ops;
  collectOps(tile, llvm::DenseMap<Value, Value>(), ops);
  for (Operation *op : ops)
    if (auto read = dyn_cast<vector::TransferReadOp>(op);
        read && read.getVectorType() == tile.getType())
      return read;
  return {};
}

LogicalResult
GradientTiles::branchOnEdge(scf::IfOp masked,
                            llvm::function_ref<LogicalResult()> body) {
  bool valid = true;
  auto branch = [&](Value score) {
    return [&, score](OpBuilder &, Location) {
      slicer.bind(masked.getResult(0), [&, score](const Piece &piece) {
        FailureOr<Value> element = slicer.tile(score, piece);
        valid &= succeeded(element);
        return succeeded(element) ? *element : e.constant(vector, 0.0);
      });
      valid &= succeeded(body());
      scf::YieldOp::create(e.b, e.loc);
    };
  };
  scf::IfOp::create(e.b, e.loc, slicer.scalar(masked.getCondition()),
                    branch(masked.thenYield().getOperand(0)),
                    branch(masked.elseYield().getOperand(0)));
  slicer.unbind(masked.getResult(0));
  return success(valid);
}

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

Value GradientTiles::allocate(int64_t rows, int64_t columns, Type element) {
  int64_t whole = llvm::alignTo(std::max<int64_t>(columns, 1), width);
  return memref::AllocaOp::create(e.b, e.loc,
                                  MemRefType::get({rows, whole}, element),
                                  e.b.getI64IntegerAttr(64));
}

void GradientTiles::clear(Value scratch) {
  ArrayRef<int64_t> shape = cast<MemRefType>(scratch.getType()).getShape();
  Value zero = e.constant(vector, 0.0);
  SmallVector<Value> at;
  std::function<void(size_t)> visit = [&](size_t axis) {
    bool isLast = axis + 1 == shape.size();
    e.loop(e.index(0), e.index(shape[axis]), isLast ? width : 1, [&](Value i) {
      at.push_back(i);
      if (isLast)
        e.store(zero, scratch, at);
      else
        visit(axis + 1);
      at.pop_back();
    });
  };
  visit(0);
}

void GradientTiles::place(Value tile, Value scratch) {
  tiles[tile] = scratch;
  auto memory = cast<MemRefType>(scratch.getType());
  auto lanes = VectorType::get(width, memory.getElementType());
  slicer.bind(tile, [this, scratch, lanes](const Piece &piece) {
    return e.load(lanes, scratch, {piece.row, piece.column});
  });
}

Value GradientTiles::loadPiece(vector::TransferReadOp read, Value row,
                               Value column, int64_t count, int64_t lanes) {
  Value view = slicer.scalar(read.getBase());
  Value first = slicer.scalar(read.getIndices()[0]);
  auto type = VectorType::get(lanes, read.getVectorType().getElementType());
  if (read.isDimInBounds(0) && count >= lanes)
    return e.load(type, view, {e.add(first, row), column});
  return loadRowPiece(e, type, view, e.add(first, row), column, count);
}

Value GradientTiles::rowsInside(vector::TransferReadOp read) {
  Value length = memref::DimOp::create(
      e.b, e.loc, slicer.scalar(read.getBase()), int64_t(0));
  return e.min(e.index(read.getVectorType().getDimSize(0)),
               e.sub(length, slicer.scalar(read.getIndices()[0])));
}

//===----------------------------------------------------------------------===//
// The nest
//===----------------------------------------------------------------------===//

LogicalResult GradientTiles::emitLoop(scf::ForOp loop) {
  for (auto [init, carried] :
       llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs())) {
    Value scratch = tiles.lookup(init);
    if (!scratch) {
      scratch = allocateSums(cast<VectorType>(init.getType()));
      clear(scratch);
    }
    place(carried, scratch);
  }
  bool valid = true;
  e.loop(slicer.scalar(loop.getLowerBound()),
         slicer.scalar(loop.getUpperBound()),
         *getConstantIntValue(loop.getStep()), [&](Value position) {
           scalars.map(loop.getInductionVar(), position);
           valid = succeeded(emitBlock(*loop.getBody()));
         });
  for (auto [init, carried, result] : llvm::zip_equal(
           loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults())) {
    Value scratch = tiles.lookup(carried);
    place(result,
          tiles.contains(init)
              ? scratch
              : finishSums(cast<VectorType>(result.getType()), scratch));
  }
  return success(valid);
}

LogicalResult GradientTiles::emitReach(scf::IfOp reach) {
  bool valid = true;
  scf::IfOp::create(e.b, e.loc, slicer.scalar(reach.getCondition()),
                    [&](OpBuilder &, Location) {
                      valid = succeeded(emitBlock(*reach.thenBlock()));
                      scf::YieldOp::create(e.b, e.loc);
                    });
  if (reach.getNumResults() != 0)
    for (auto [result, carried] :
         llvm::zip_equal(reach.getResults(), reach.elseYield().getOperands()))
      place(result, tiles.lookup(carried));
  return success(valid);
}

LogicalResult GradientTiles::write(vector::TransferWriteOp write) {
  Value view = slicer.scalar(write.getBase());
  Value first = slicer.scalar(write.getIndices()[0]);
  ArrayRef<int64_t> shape = write.getVectorType().getShape();
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  bool valid = true;
  e.loop(e.index(0), e.min(e.index(shape[0]), e.sub(length, first)), 1,
         [&](Value row) {
           forEachPiece(e, shape[1], width, [&](Value column, int64_t count) {
             FailureOr<Value> piece =
                 slicer.tile(write.getValueToStore(), {row, column, width});
             valid &= succeeded(piece);
             if (succeeded(piece))
               storeRowPiece(e, *piece, view, e.add(first, row), column, count);
           });
         });
  return success(valid);
}

LogicalResult GradientTiles::writePerRow(vector::TransferWriteOp write) {
  Value view = slicer.scalar(write.getBase());
  Value first = slicer.scalar(write.getIndices()[0]);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  int64_t rows = write.getVectorType().getDimSize(0);
  bool valid = true;
  e.loop(e.index(0), e.min(e.index(rows), e.sub(length, first)), 1,
         [&](Value row) {
           FailureOr<Value> sum = sumRow(write.getValueToStore(), row);
           valid &= succeeded(sum);
           if (succeeded(sum))
             memref::StoreOp::create(e.b, e.loc, *sum, view, e.add(first, row));
         });
  return success(valid);
}

FailureOr<Value> GradientTiles::sumRow(Value sums, Value row) {
  auto sum = sums.getDefiningOp<vector::MultiDimReductionOp>();
  FailureOr<Value> start =
      slicer.rowElement(sum ? sum.getAcc() : sums, {row, e.index(0), width});
  if (!sum || failed(start))
    return start;
  bool valid = true;
  int64_t columns = sum.getSourceVectorType().getDimSize(1);
  Value lanes = e.loop(
      e.index(0), e.index(columns), width, e.constant(vector, 0.0),
      [&](Value column, ValueRange carried) -> SmallVector<Value> {
        FailureOr<Value> piece =
            slicer.tile(sum.getSource(), {row, column, width});
        valid &= succeeded(piece);
        Value term = succeeded(piece) ? *piece : Value(carried[0]);
        return {
            arith::AddFOp::create(e.b, e.loc, carried[0], term).getResult()};
      })[0];
  if (!valid)
    return failure();
  return Value(
      vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::ADD, lanes,
                                  *start, arith::FastMathFlags::reassoc));
}

LogicalResult GradientTiles::emitOp(Operation &op) {
  if (isScalarOp(op)) {
    e.b.clone(op, scalars)->removeAttr(kRoleAttrName);
    return success();
  }
  if (auto read = dyn_cast<vector::TransferReadOp>(op)) {
    loadTile(read);
    return success();
  }
  if (auto product = dyn_cast<vector::ContractionOp>(op))
    return accumulates(product) ? accumulate(product) : success();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitLoop(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (getRole(branch) == role::kReach)
      return emitReach(branch);
    // The branch that tests elements: its scalars here, its elements later.
    for (Operation &scalar : branch.thenBlock()->without_terminator())
      if (isScalarOp(scalar))
        e.b.clone(scalar, scalars)->removeAttr(kRoleAttrName);
    return success();
  }
  if (auto stored = dyn_cast<vector::TransferWriteOp>(op))
    return stored.getVectorType().getRank() == 1 ? writePerRow(stored)
                                                 : write(stored);
  // Arithmetic on elements is made where it is used.
  return success();
}

LogicalResult GradientTiles::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(emitOp(op)))
      return failure();
  return success();
}

LogicalResult GradientTiles::emitTask(scf::ForallOp tasks) {
  return emitBlock(*tasks.getBody());
}
