//===- InterpretProduct.cpp - Tile products and reductions ----------------===//
//
// Sums are taken in order, each step rounded to the type of the accumulator:
// what a machine does that adds one product after the other.
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

/// The binary op of a combining kind, on lanes of this type.
static LaneOp combiner(vector::CombiningKind kind, Type type) {
  using Kind = vector::CombiningKind;
  bool isFloat = isa<FloatType>(type);
  auto named = [&]() -> StringRef {
    switch (kind) {
    case Kind::ADD:
      return isFloat ? "arith.addf" : "arith.addi";
    case Kind::MUL:
      return isFloat ? "arith.mulf" : "arith.muli";
    case Kind::MINUI:
      return "arith.minui";
    case Kind::MINSI:
      return "arith.minsi";
    case Kind::MINNUMF:
      return "arith.minnumf";
    case Kind::MAXUI:
      return "arith.maxui";
    case Kind::MAXSI:
      return "arith.maxsi";
    case Kind::MAXNUMF:
      return "arith.maxnumf";
    case Kind::AND:
      return "arith.andi";
    case Kind::OR:
      return "arith.ori";
    case Kind::XOR:
      return "arith.xori";
    case Kind::MINIMUMF:
      return "arith.minimumf";
    case Kind::MAXIMUMF:
      return "arith.maximumf";
    }
    llvm_unreachable("unknown combining kind");
  };
  return lookUpLaneOp(named(), type, type, Rounding::typed);
}

static void combine(const LaneOp &op, Scalar &into, Scalar value) {
  Scalar operands[2] = {into, value};
  bool undefined = false;
  into = op.apply(operands, undefined);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static llvm::Error runMultiReduction(Interpreter &interpreter,
                                     vector::MultiDimReductionOp op) {
  const Lanes &source = interpreter.lanes(op.getSource());
  Lanes result = interpreter.lanes(op.getAcc());
  LaneOp combining =
      combiner(op.getKind(), op.getSourceVectorType().getElementType());
  // Reduced dimensions do not move in the result.
  SmallVector<bool> isReduced = op.getReductionMask();
  Shape strides(source.shape.size(), 0), dense = denseStrides(result.shape);
  unsigned kept = 0;
  for (size_t d = 0; d < strides.size(); ++d)
    if (!isReduced[d])
      strides[d] = dense[kept++];
  int64_t linear = 0;
  forEachIndex(source.shape, [&](ArrayRef<int64_t> indices) {
    combine(combining, result.lanes[dot(indices, strides)],
            source.lanes[linear++]);
  });
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runReduction(Interpreter &interpreter,
                                vector::ReductionOp op) {
  const Lanes &source = interpreter.lanes(op.getVector());
  LaneOp combining = combiner(op.getKind(), op.getType());
  Scalar result =
      op.getAcc() ? interpreter.scalar(op.getAcc()) : source.lanes.front();
  for (Scalar lane :
       ArrayRef<Scalar>(source.lanes).drop_front(op.getAcc() ? 0 : 1))
    combine(combining, result, lane);
  interpreter.set(op, Lanes::scalar(result));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Contraction
//===----------------------------------------------------------------------===//

namespace {
/// A contraction as loops: the parallel ones outside, the reductions inside,
/// with the step of each operand along each loop.
struct ContractLoops {
  Shape parallelSizes, reducedSizes;
  /// For lhs, rhs and accumulator.
  Shape parallelSteps[3], reducedSteps[3];

  explicit ContractLoops(vector::ContractionOp op, ArrayRef<Shape> shapes);
};
} // namespace

ContractLoops::ContractLoops(vector::ContractionOp op, ArrayRef<Shape> shapes) {
  SmallVector<AffineMap, 4> maps = op.getIndexingMapsArray();
  for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    bool isReduced = kind == vector::IteratorType::reduction;
    int64_t size = 0;
    for (auto [o, map] : llvm::enumerate(maps)) {
      Shape dense = denseStrides(shapes[o]);
      int64_t step = 0;
      for (auto [r, expr] : llvm::enumerate(map.getResults())) {
        if (cast<AffineDimExpr>(expr).getPosition() != d)
          continue;
        step = dense[r];
        size = shapes[o][r];
      }
      (isReduced ? reducedSteps : parallelSteps)[o].push_back(step);
    }
    (isReduced ? reducedSizes : parallelSizes).push_back(size);
  }
}

/// f32 accumulation, the ordinary case, on plain floats.
static void contractSingle(const ContractLoops &loops, const Lanes &lhs,
                           const Lanes &rhs, Lanes &result) {
  auto floats = [](const Lanes &lanes) {
    std::vector<float> values(lanes.size());
    for (int64_t l = 0; l < lanes.size(); ++l)
      values[l] = static_cast<float>(lanes.lanes[l].f);
    return values;
  };
  std::vector<float> a = floats(lhs), b = floats(rhs);
  int64_t size = loops.reducedSizes[0];
  int64_t aStep = loops.reducedSteps[0][0], bStep = loops.reducedSteps[1][0];
  forEachIndex(loops.parallelSizes, [&](ArrayRef<int64_t> indices) {
    const float *x = a.data() + dot(indices, loops.parallelSteps[0]);
    const float *y = b.data() + dot(indices, loops.parallelSteps[1]);
    Scalar &into = result.lanes[dot(indices, loops.parallelSteps[2])];
    float sum = static_cast<float>(into.f);
    for (int64_t k = 0; k < size; ++k)
      sum += x[k * aStep] * y[k * bStep];
    into.f = sum;
  });
}

/// Any kind, type and number of reductions.
static void contractAny(const ContractLoops &loops, const Lanes &lhs,
                        const Lanes &rhs, const LaneOp &multiply,
                        const LaneOp &combining, Lanes &result) {
  forEachIndex(loops.parallelSizes, [&](ArrayRef<int64_t> outer) {
    int64_t x = dot(outer, loops.parallelSteps[0]);
    int64_t y = dot(outer, loops.parallelSteps[1]);
    Scalar &into = result.lanes[dot(outer, loops.parallelSteps[2])];
    forEachIndex(loops.reducedSizes, [&](ArrayRef<int64_t> inner) {
      Scalar product = lhs.lanes[x + dot(inner, loops.reducedSteps[0])];
      combine(multiply, product,
              rhs.lanes[y + dot(inner, loops.reducedSteps[1])]);
      combine(combining, into, product);
    });
  });
}

static llvm::Error runContract(Interpreter &interpreter,
                               vector::ContractionOp op) {
  const Lanes &lhs = interpreter.lanes(op.getLhs());
  const Lanes &rhs = interpreter.lanes(op.getRhs());
  Lanes result = interpreter.lanes(op.getAcc());
  ContractLoops loops(op, {lhs.shape, rhs.shape, result.shape});
  Type type = getElementTypeOrSelf(op.getAccType());
  if (type.isF32() && op.getKind() == vector::CombiningKind::ADD &&
      loops.reducedSizes.size() == 1)
    contractSingle(loops, lhs, rhs, result);
  else
    contractAny(loops, lhs, rhs, combiner(vector::CombiningKind::MUL, type),
                combiner(op.getKind(), type), result);
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runOuterProduct(Interpreter &interpreter,
                                   vector::OuterProductOp op) {
  const Lanes &lhs = interpreter.lanes(op.getLhs());
  const Lanes &rhs = interpreter.lanes(op.getRhs());
  auto type = cast<VectorType>(op.getType());
  if (!op.getAcc())
    return errorText("the interpreter knows vector.outerproduct with an "
                     "accumulator only");
  Lanes result = interpreter.lanes(op.getAcc());
  LaneOp multiply = combiner(vector::CombiningKind::MUL, type.getElementType());
  LaneOp combining = combiner(op.getKind(), type.getElementType());
  for (int64_t l = 0; l < result.size(); ++l) {
    Scalar product = lhs.lanes[l / rhs.size()];
    combine(multiply, product, rhs.lanes[l % rhs.size()]);
    combine(combining, result.lanes[l], product);
  }
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

void attn::reference::addProductHandlers(HandlerTable &table) {
  table.add<runMultiReduction>();
  table.add<runReduction>();
  table.add<runContract>();
  table.add<runOuterProduct>();
}
