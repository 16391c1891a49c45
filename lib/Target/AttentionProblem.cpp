//===- AttentionProblem.cpp - What the planner is asked -------------------===//

#include "attn/Target/AttentionProblem.h"
#include "attn/IR/Attn.h"
#include <algorithm>

using namespace attn;

static_assert(AttentionProblem::kDynamic == mlir::ShapedType::kDynamic);

int64_t AttentionProblem::elementBytes() const {
  if (elementType == "f64")
    return 8;
  return elementType == "f32" ? 4 : 2;
}

AttentionProblem AttentionProblem::withRepresentativeSizes() const {
  constexpr int64_t kSequence = 4096, kHeads = 16;
  AttentionProblem p = *this;
  p.isRepresentative = isDynamic(batch) || isDynamic(queryHeads) ||
                       isDynamic(queryLength) || isDynamic(kvLength);
  auto assume = [](int64_t &size, int64_t value) {
    if (isDynamic(size))
      size = value;
  };
  assume(p.batch, 1);
  if (isDynamic(p.queryHeads))
    p.queryHeads = isDynamic(p.kvHeads) || p.kvHeads == 0
                       ? kHeads
                       : p.kvHeads * std::max<int64_t>(1, kHeads / p.kvHeads);
  assume(p.kvHeads, p.queryHeads);
  assume(p.kvLength, kSequence);
  assume(p.queryLength, p.kvLength);
  return p;
}

AttentionProblem::KeyRange AttentionProblem::visibleKeys(int64_t first,
                                                         int64_t last) const {
  int64_t offset = alignsBottomRight ? kvLength - queryLength : 0;
  KeyRange range{0, kvLength};
  if (bandLeft)
    range.lo = std::clamp<int64_t>(first + offset - *bandLeft, 0, kvLength);
  if (bandRight)
    range.hi =
        std::clamp<int64_t>(last + offset + *bandRight + 1, range.lo, kvLength);
  return range;
}

/// The sum of clamp(i + shift, 0, limit) over i in [0, count).
static double sumOfClamped(double count, double shift, double limit) {
  double ramp = std::clamp(-shift, 0.0, count);
  double flat = std::clamp(limit - shift, ramp, count);
  return (flat - ramp) * (ramp + flat - 1 + 2 * shift) / 2 +
         (count - flat) * limit;
}

double AttentionProblem::visiblePairs() const {
  double offset = alignsBottomRight ? kvLength - queryLength : 0;
  double pairs = static_cast<double>(queryLength) * kvLength;
  if (bandRight)
    pairs = sumOfClamped(queryLength, offset + *bandRight + 1, kvLength);
  if (bandLeft)
    pairs -= sumOfClamped(queryLength, offset - *bandLeft, kvLength);
  return std::max(pairs, 0.0);
}

namespace {
/// Whether rows lie at whole units of 16 bytes, or only a launch knows.
enum class WholeUnits { No, Open, Yes };
} // namespace

/// The offset, and the strides in front of the innermost one. Those of a tensor
/// are its buffer's.
static WholeUnits countWholeUnits(mlir::ShapedType type) {
  constexpr int64_t kUnit = 16;
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  llvm::SmallVector<int64_t> distances;
  auto memref = llvm::dyn_cast<mlir::MemRefType>(type);
  if (memref && !memref.getLayout().isIdentity()) {
    auto [strides, offset] = memref.getStridesAndOffset();
    if (strides.back() != 1)
      return WholeUnits::No;
    distances = strides;
    distances.back() = offset;
  } else {
    int64_t stride = 1;
    for (int64_t size : llvm::reverse(type.getShape().drop_front())) {
      // An unknown multiple of whole units is one of whole units.
      if (size == mlir::ShapedType::kDynamic && stride != 1)
        break;
      stride = size == mlir::ShapedType::kDynamic ? size : stride * size;
      distances.push_back(stride);
      if (stride == mlir::ShapedType::kDynamic)
        break;
    }
  }
  bool isOpen = false;
  for (int64_t distance : distances) {
    if (distance == mlir::ShapedType::kDynamic)
      isOpen = true;
    else if (distance * bytes % kUnit != 0)
      return WholeUnits::No;
  }
  return isOpen ? WholeUnits::Open : WholeUnits::Yes;
}

AttentionProblem attn::getProblem(AttentionOpInterface op) {
  AttentionShape shape = op.getShape();
  AttentionProblem p;
  p.batch = shape.batch;
  p.queryHeads = shape.queryHeads;
  p.kvHeads = shape.kvHeads;
  p.queryLength = shape.queryLength;
  p.kvLength = shape.kvLength;
  p.headDim = shape.headDim;
  p.valueDim = shape.valueDim;
  mlir::FloatType element = op.getElementType();
  p.elementType = element.isF64()    ? "f64"
                  : element.isF32()  ? "f32"
                  : element.isBF16() ? "bf16"
                                     : "f16";
  p.bandLeft = op.getBandLeft();
  p.bandRight = op.getBandRight();
  p.alignsBottomRight =
      op.getQueryOffset() || op.getAlignment() == Alignment::bottom_right;
  p.hasScoreMod = op.hasScoreMod();
  p.hasSoftcap = op.getSoftcap().has_value();
  p.hasBias = bool(op.getBias());
  p.hasMask = bool(op.getMask());
  p.hasMaskMod = op.hasMaskMod();
  p.hasSegments = bool(op.getQuerySegments());
  p.hasKvLengths = bool(op.getKvLengths());
  p.hasSinks = bool(op.getSinks());
  if (auto backward = llvm::dyn_cast<AttentionBackwardOp>(*op)) {
    p.isBackward = true;
    p.isDeterministic = backward.getDeterministic();
    p.sumsPairGradients =
        backward.getBiasGradient() || !backward.getCaptureGradients().empty();
  }
  p.returnsLse = bool(op.getLseType());
  auto typeOf = [](mlir::Value value) {
    return llvm::cast<mlir::ShapedType>(value.getType());
  };
  llvm::SmallVector<mlir::ShapedType> tiles = {
      typeOf(op.getQuery()), typeOf(op.getKey()), typeOf(op.getValue()),
      op.getOutputType()};
  if (auto backward = llvm::dyn_cast<AttentionBackwardOp>(*op)) {
    tiles.push_back(typeOf(backward.getOutputGradient()));
    mlir::ValueRange gradients = op.isMemRefForm()
                                     ? mlir::ValueRange(op.getOuts())
                                     : mlir::ValueRange(op->getResults());
    for (mlir::Value gradient : gradients.take_front(3))
      tiles.push_back(typeOf(gradient));
  }
  p.hasTensorMaps = true;
  for (mlir::ShapedType type : tiles) {
    WholeUnits units = countWholeUnits(type);
    if (type.getElementTypeBitWidth() != element.getWidth() ||
        units == WholeUnits::No)
      p.hasTensorMaps = false;
    p.mapsDependOnLaunch |= units == WholeUnits::Open;
  }
  p.mapsDependOnLaunch &= p.hasTensorMaps;
  return p;
}
