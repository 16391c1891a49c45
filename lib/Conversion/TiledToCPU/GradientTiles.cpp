//===- GradientTiles.cpp - A task of the gradients in register tiles ------===//

#include "GradientTiles.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

//===----------------------------------------------------------------------===//
// What can be mapped
//===----------------------------------------------------------------------===//

/// Products whose sums stay in scratch from block to block; the others become
/// P and dX.
static bool accumulates(vector::ContractionOp product) {
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

GradientTiles::GradientTiles(Emitter &e, scf::ForallOp tasks,
                             const TargetDescription &target,
                             IRMapping &scalars)
    : e(e), scalars(scalars), slicer(e.b, e.loc, scalars),
      type(accumulatorOf(tasks)), width(lanesOf(target, type)),
      registers(std::max<int64_t>(target.simdRegisters, 16)) {
  vector = VectorType::get(width, type);
}

/// What a factor is before it was rounded for the product.
static Value unrounded(Value factor) {
  while (Operation *op = factor.getDefiningOp()) {
    if (!isa<arith::TruncFOp, arith::ExtFOp>(op))
      break;
    factor = op->getOperand(0);
  }
  return factor;
}

void GradientTiles::loadTile(vector::TransferReadOp read) {
  bool isPlain = false, isTurned = false;
  SmallVector<Value> values = {read.getResult()};
  while (!values.empty()) {
    Value value = values.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      if (auto product = dyn_cast<vector::ContractionOp>(use.getOwner())) {
        bool turns = use.getOperandNumber() == 1 && !accumulates(product);
        (turns ? isTurned : isPlain) = true;
      } else if (isa<arith::TruncFOp, arith::ExtFOp>(use.getOwner())) {
        values.push_back(use.getOwner()->getResult(0));
      }
    }
  }
  if (isPlain)
    loadPlain(read);
  if (isTurned)
    loadTurned(read);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Rows of the tile that are rows of the operand.
static Value rowsInside(Emitter &e, TileSlicer &slicer,
                        vector::TransferReadOp read) {
  Value length = memref::DimOp::create(
      e.b, e.loc, slicer.scalar(read.getBase()), int64_t(0));
  return e.min(e.index(read.getVectorType().getDimSize(0)),
               e.sub(length, slicer.scalar(read.getIndices()[0])));
}

/// The ops that `tile` is computed by, down to what is placed.
static void collect(Value tile, const llvm::DenseMap<Value, Value> &placed,
                    llvm::SetVector<Operation *> &ops) {
  Operation *op = tile.getDefiningOp();
  if (!op || !isa<VectorType>(tile.getType()) || placed.contains(tile) ||
      !ops.insert(op))
    return;
  for (Value operand : op->getOperands())
    if (!isa<vector::ContractionOp>(op))
      collect(operand, placed, ops);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    for (scf::YieldOp yield : {branch.thenYield(), branch.elseYield()})
      collect(yield.getOperand(0), placed, ops);
}

/// The tile of an operand, or one that is made of it.
static vector::TransferReadOp findRead(Value tile) {
  llvm::SetVector<Operation *> ops;
  collect(tile, llvm::DenseMap<Value, Value>(), ops);
  for (Operation *op : ops)
    if (auto read = dyn_cast<vector::TransferReadOp>(op);
        read && read.getVectorType() == tile.getType())
      return read;
  return {};
}

LogicalResult GradientTiles::accumulate(vector::ContractionOp product) {
  Value left = unrounded(product.getLhs()), right = unrounded(product.getRhs());
  if (failed(makeTile(left)) || failed(makeTile(right)))
    return failure();
  Product p;
  // The P of a row past the end is of what its lse is not.
  p.steps = rowsInside(e, slicer, findRead(right));
  p.left = tiles.lookup(left);
  p.leftIsTurned = getRole(product) != role::kQueryGradient;
  p.right = tiles.lookup(right);
  // What a block adds to dQ in memory starts anew.
  p.sums = tiles.lookup(product.getAcc());
  p.startsAtSums = bool(p.sums);
  if (!p.sums) {
    ArrayRef<int64_t> shape =
        cast<VectorType>(product.getResultType()).getShape();
    p.sums = allocate(shape[0], shape[1]);
  }
  multiply(p);
  place(product.getResult(), p.sums);
  return success();
}

void GradientTiles::multiplyTiles(vector::ContractionOp product, Value sums) {
  Value left = unrounded(product.getLhs());
  Product p;
  p.steps = e.index(cast<VectorType>(left.getType()).getDimSize(1));
  p.left = tiles.lookup(left);
  p.right = turned.lookup(unrounded(product.getRhs()));
  p.sums = sums;
  multiply(p);
}

//===----------------------------------------------------------------------===//
// P and dX
//===----------------------------------------------------------------------===//

/// Whether dX takes the scores themselves, and not only what became of them.
static bool readsScoresAgain(vector::ContractionOp scores,
                             Value probabilities) {
  for (Operation &op : *scores->getBlock()) {
    auto product = dyn_cast<vector::ContractionOp>(op);
    if (!product || !accumulates(product))
      continue;
    llvm::SetVector<Operation *> ops;
    collect(unrounded(product.getLhs()), {{probabilities, Value()}}, ops);
    if (ops.contains(scores))
      return true;
  }
  return false;
}

LogicalResult GradientTiles::makeTile(Value tile) {
  if (tiles.contains(tile))
    return success();
  llvm::SetVector<Operation *> ops;
  collect(tile, tiles, ops);
  for (Operation *op : ops)
    if (getRole(op) == role::kProbabilities && op->getResult(0) != tile)
      return success(succeeded(makeTile(op->getResult(0))) &&
                     succeeded(makeTile(tile)));
  // One product at a time: that of the scores comes before P.
  vector::ContractionOp raw;
  scf::IfOp masked;
  for (Operation *op : ops) {
    if (auto product = dyn_cast<vector::ContractionOp>(op))
      raw = product;
    if (auto branch = dyn_cast<scf::IfOp>(op))
      masked = branch;
  }
  auto shape = cast<VectorType>(tile.getType()).getShape();
  Value scratch = allocate(shape[0], shape[1]);
  if (raw) {
    // The derivative of a region or softcap takes the score again.
    bool isKept = getRole(raw) == role::kScores && readsScoresAgain(raw, tile);
    Value product = isKept ? allocate(shape[0], shape[1]) : scratch;
    multiplyTiles(raw, product);
    place(raw.getResult(), product);
  }
  auto make = [&] { return makeElements(tile, scratch); };
  if (failed(masked ? branchOnEdge(masked, make) : make()))
    return failure();
  place(tile, scratch);
  return success();
}

/// `scratch` holds the product, and then what becomes of it.
LogicalResult GradientTiles::makeElements(Value tile, Value scratch) {
  auto shape = cast<VectorType>(tile.getType()).getShape();
  bool valid = true;
  e.loop(e.index(0), e.index(shape[0]), 1, [&](Value row) {
    e.loop(e.index(0), e.index(shape[1]), width, [&](Value column) {
      FailureOr<Value> piece = slicer.tile(tile, {row, column, width});
      valid &= succeeded(piece);
      if (succeeded(piece))
        e.store(widen(*piece), scratch, {row, column});
    });
  });
  return success(valid);
}

/// Once with the tests of elements and once without.
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
// The nest
//===----------------------------------------------------------------------===//

LogicalResult GradientTiles::emitLoop(scf::ForOp loop) {
  for (auto [init, carried] :
       llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs())) {
    Value scratch = tiles.lookup(init);
    if (!scratch) {
      ArrayRef<int64_t> shape = cast<VectorType>(init.getType()).getShape();
      scratch = allocate(shape[0], shape[1]);
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
  for (auto [carried, result] :
       llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults()))
    place(result, tiles.lookup(carried));
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
