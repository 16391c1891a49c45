//===- FmaGradients.cpp - Gradients by multiply-adds ----------------------===//
//
// A product is a loop nest around a register tile of accumulators, over scratch
// in the accumulators' type: f16 and bf16 are widened where they are loaded,
// and P and dX are not rounded to them. Keys and values lie turned, [d][key],
// for Q K^T and dO V^T.
//
//===----------------------------------------------------------------------===//

#include "GradientTiles.h"
#include "RegisterTile.h"
#include "attn/IR/TiledForm.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// Steps of a product that a register tile takes at once. The more, the longer
/// the code takes to compile: there are five products.
static constexpr int64_t kStepsAtOnce = 4;

namespace {

class FmaGradients : public GradientTiles {
public:
  FmaGradients(Emitter &e, scf::ForallOp tasks, const TargetDescription &target,
               IRMapping &scalars)
      : GradientTiles(e, tasks, target, scalars) {}

private:
  /// sums[row][column] (+)= sum over steps of left[row][step] *
  /// right[step][column], by register tiles.
  struct Product {
    Value steps, left, right, sums;
    /// left lies as [step][row].
    bool leftIsTurned = false;
    /// Adds to what is there.
    bool startsAtSums = false;
  };
  void multiply(const Product &product);
  void multiplyColumns(const Product &product, Value column, int64_t vectors);
  /// Q K^T or dO V^T.
  void multiplyTiles(vector::ContractionOp product, Value sums);
  LogicalResult accumulate(vector::ContractionOp product) override;

  void loadTile(vector::TransferReadOp read) override;
  void loadPlain(vector::TransferReadOp read);
  void loadTurned(vector::TransferReadOp read);
  /// Computes P or dX to scratch.
  LogicalResult makeTile(Value tile);
  LogicalResult makeElements(Value tile, Value scratch);
  /// To the type of sums.
  Value widen(Value piece);

  /// Operands that products read turned, [column][row].
  llvm::DenseMap<Value, Value> turned;
};

} // namespace

std::unique_ptr<GradientTiles>
cpu::createFmaGradients(Emitter &e, scf::ForallOp tasks,
                        const TargetDescription &target, IRMapping &scalars) {
  return std::make_unique<FmaGradients>(e, tasks, target, scalars);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Value FmaGradients::widen(Value piece) {
  return piece.getType() == vector
             ? piece
             : arith::ExtFOp::create(e.b, e.loc, vector, piece).getResult();
}

void FmaGradients::loadTile(vector::TransferReadOp read) {
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

void FmaGradients::loadPlain(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value scratch = allocate(shape[0], shape[1], type);
  e.loop(e.index(0), e.index(shape[0]), 1, [&](Value row) {
    forEachPiece(e, shape[1], width, [&](Value column, int64_t count) {
      e.store(widen(loadPiece(read, row, column, count, width)), scratch,
              {row, column});
    });
  });
  place(read, scratch);
}

/// By squares that are transposed in registers.
void FmaGradients::loadTurned(vector::TransferReadOp read) {
  ArrayRef<int64_t> shape = read.getVectorType().getShape();
  Value scratch = allocate(shape[1], shape[0], type);
  auto square = VectorType::get({width, width}, type);
  e.loop(e.index(0), e.index(shape[0]), width, [&](Value row) {
    forEachPiece(e, shape[1], width, [&](Value column, int64_t count) {
      Value tile = e.constant(square, 0.0);
      for (int64_t r = 0; r < width; ++r)
        tile = vector::InsertOp::create(
            e.b, e.loc,
            widen(loadPiece(read, e.add(row, r), column, count, width)), tile,
            r);
      tile = vector::TransposeOp::create(e.b, e.loc, tile,
                                         ArrayRef<int64_t>{1, 0});
      for (int64_t c = 0; c < count; ++c)
        e.store(vector::ExtractOp::create(e.b, e.loc, tile, c), scratch,
                {e.add(column, c), row});
    });
  });
  turned[read] = scratch;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void FmaGradients::multiply(const Product &product) {
  int64_t total =
      cast<MemRefType>(product.sums.getType()).getDimSize(1) / width;
  forEachColumnGroup(e, total, width, registers >= 32 ? 4 : 2,
                     [&](Value column, int64_t vectors) {
                       multiplyColumns(product, column, vectors);
                     });
}

void FmaGradients::multiplyColumns(const Product &product, Value column,
                                   int64_t vectors) {
  int64_t rows = cast<MemRefType>(product.sums.getType()).getDimSize(0);
  // Three quarters of the registers hold the accumulators.
  int64_t tileRows = divisorAtMost(rows, registers * 3 / 4 / vectors);
  auto multiplyTile = [&](Value row) {
    auto place = [&](Value r, int64_t v) {
      return SmallVector<Value>{r, e.add(column, v * width)};
    };
    SmallVector<Value> sums;
    for (int64_t r = 0; r < tileRows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(product.startsAtSums ? e.load(vector, product.sums,
                                                     place(e.add(row, r), v))
                                            : e.constant(vector, 0.0));
    RegisterTile tile(tileRows, vectors);
    tile.left = [&](int64_t r, const Step &step) -> Value {
      SmallVector<Value> at = {e.add(row, r), step.index};
      if (product.leftIsTurned)
        std::swap(at[0], at[1]);
      return memref::LoadOp::create(e.b, e.loc, product.left, at);
    };
    tile.right = [&](const Step &step) {
      SmallVector<Value> right;
      for (int64_t v = 0; v < vectors; ++v)
        right.push_back(e.load(vector, product.right, place(step.index, v)));
      return right;
    };
    tile.multiplyAdd = [&](Value left, Value right, Value sum) -> Value {
      return vector::FMAOp::create(e.b, e.loc, e.splat(vector, left), right,
                                   sum);
    };
    sums = tile.addAll(e, kStepsAtOnce, e.index(0), product.steps, sums);
    for (int64_t r = 0; r < tileRows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        e.store(sums[r * vectors + v], product.sums, place(e.add(row, r), v));
  };
  e.loop(e.index(0), e.index(rows), tileRows, multiplyTile);
}

LogicalResult FmaGradients::accumulate(vector::ContractionOp product) {
  Value left = unrounded(product.getLhs()), right = unrounded(product.getRhs());
  if (failed(makeTile(left)) || failed(makeTile(right)))
    return failure();
  Product p;
  // The P of a row past the end is of what its lse is not.
  p.steps = rowsInside(findRead(right));
  p.left = tiles.lookup(left);
  p.leftIsTurned = getRole(product) != role::kQueryGradient;
  p.right = tiles.lookup(right);
  // What a block adds to dQ in memory starts anew.
  p.sums = tiles.lookup(product.getAcc());
  p.startsAtSums = bool(p.sums);
  if (!p.sums) {
    ArrayRef<int64_t> shape =
        cast<VectorType>(product.getResultType()).getShape();
    p.sums = allocate(shape[0], shape[1], type);
  }
  multiply(p);
  place(product.getResult(), p.sums);
  return success();
}

void FmaGradients::multiplyTiles(vector::ContractionOp product, Value sums) {
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
    collectOps(unrounded(product.getLhs()), {{probabilities, Value()}}, ops);
    if (ops.contains(scores))
      return true;
  }
  return false;
}

LogicalResult FmaGradients::makeTile(Value tile) {
  if (tiles.contains(tile))
    return success();
  llvm::SetVector<Operation *> ops;
  collectOps(tile, tiles, ops);
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
  Value scratch = allocate(shape[0], shape[1], type);
  if (raw) {
    // The derivative of a region or softcap takes the score again.
    bool isKept = getRole(raw) == role::kScores && readsScoresAgain(raw, tile);
    Value product = isKept ? allocate(shape[0], shape[1], type) : scratch;
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
LogicalResult FmaGradients::makeElements(Value tile, Value scratch) {
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
