//===- InterpretVector.cpp - Vectors made, taken apart, rearranged --------===//

#include "Interpreter.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

static ArrayRef<int64_t> shapeOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getShape() : ArrayRef<int64_t>();
}

/// Result lane by lane: `source(indices)` is the linear lane of the operand.
template <typename Source>
static Lanes rearrange(const Lanes &operand, ArrayRef<int64_t> shape,
                       Source &&source) {
  Lanes result(shape);
  int64_t linear = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> indices) {
    result.lanes[linear++] = operand.lanes[source(indices)];
  });
  return result;
}

static llvm::Error runBroadcast(Interpreter &interpreter,
                                vector::BroadcastOp op) {
  const Lanes &source = interpreter.lanes(op.getSource());
  ArrayRef<int64_t> shape = op.getResultVectorType().getShape();
  // Leading dimensions are new, dimensions of size 1 are stretched.
  Shape strides(shape.size(), 0), sourceStrides = denseStrides(source.shape);
  size_t leading = shape.size() - source.shape.size();
  for (size_t d = 0; d < source.shape.size(); ++d)
    if (source.shape[d] != 1)
      strides[leading + d] = sourceStrides[d];
  interpreter.set(op, rearrange(source, shape, [&](ArrayRef<int64_t> indices) {
                    return dot(indices, strides);
                  }));
  return llvm::Error::success();
}

static llvm::Error runTranspose(Interpreter &interpreter,
                                vector::TransposeOp op) {
  const Lanes &source = interpreter.lanes(op.getVector());
  Shape sourceStrides = denseStrides(source.shape), strides;
  for (int64_t from : op.getPermutation())
    strides.push_back(sourceStrides[from]);
  interpreter.set(op, rearrange(source, shapeOf(op.getType()),
                                [&](ArrayRef<int64_t> indices) {
                                  return dot(indices, strides);
                                }));
  return llvm::Error::success();
}

static llvm::Error runShapeCast(Interpreter &interpreter,
                                vector::ShapeCastOp op) {
  Lanes result = interpreter.lanes(op.getSource());
  result.shape = Shape(shapeOf(op.getType()));
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runStep(Interpreter &interpreter, vector::StepOp op) {
  Lanes result(shapeOf(op.getType()));
  for (int64_t l = 0; l < result.size(); ++l)
    result.lanes[l] = scalarOf(l);
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Where the part at `position` of a vector begins. The part is all of the
/// dimensions after those of the position.
static llvm::Expected<int64_t> partStart(ArrayRef<int64_t> shape,
                                         ArrayRef<int64_t> position,
                                         const llvm::Twine &what) {
  Shape strides = denseStrides(shape);
  int64_t start = 0;
  for (size_t d = 0; d < position.size(); ++d) {
    if (position[d] < 0 || position[d] >= shape[d])
      return errorText(what + " " + indexText(position) +
                       " of a vector of shape " + indexText(shape));
    start += position[d] * strides[d];
  }
  return start;
}

static llvm::Error runExtract(Interpreter &interpreter, vector::ExtractOp op) {
  const Lanes &source = interpreter.lanes(op.getSource());
  llvm::Expected<int64_t> start =
      partStart(source.shape, interpreter.integers(op.getMixedPosition()),
                "vector.extract takes");
  if (!start)
    return start.takeError();
  Lanes result(shapeOf(op.getType()));
  std::copy_n(source.lanes.begin() + *start, result.size(),
              result.lanes.begin());
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runInsert(Interpreter &interpreter, vector::InsertOp op) {
  const Lanes &part = interpreter.lanes(op.getValueToStore());
  Lanes result = interpreter.lanes(op.getDest());
  llvm::Expected<int64_t> start =
      partStart(result.shape, interpreter.integers(op.getMixedPosition()),
                "vector.insert puts");
  if (!start)
    return start.takeError();
  llvm::copy(part.lanes, result.lanes.begin() + *start);
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runExtractSlice(Interpreter &interpreter,
                                   vector::ExtractStridedSliceOp op) {
  const Lanes &source = interpreter.lanes(op.getSource());
  auto integers = [](ArrayAttr array) {
    return llvm::map_to_vector<4>(array.getAsRange<IntegerAttr>(),
                                  [](IntegerAttr a) { return a.getInt(); });
  };
  Shape offsets = integers(op.getOffsets()), steps = integers(op.getStrides());
  Shape strides = denseStrides(source.shape);
  // The dimensions that the attributes leave out are taken whole.
  int64_t start = dot(offsets, strides);
  for (size_t d = 0; d < steps.size(); ++d)
    strides[d] *= steps[d];
  interpreter.set(op, rearrange(source, shapeOf(op.getType()),
                                [&](ArrayRef<int64_t> indices) {
                                  return start + dot(indices, strides);
                                }));
  return llvm::Error::success();
}

static llvm::Error runInsertSlice(Interpreter &interpreter,
                                  vector::InsertStridedSliceOp op) {
  const Lanes &part = interpreter.lanes(op.getValueToStore());
  Lanes result = interpreter.lanes(op.getDest());
  Shape strides = denseStrides(result.shape);
  int64_t start = 0;
  for (auto [d, offset] :
       llvm::enumerate(op.getOffsets().getAsRange<IntegerAttr>()))
    start += offset.getInt() * strides[d];
  // The part has the last dimensions.
  ArrayRef<int64_t> inner =
      ArrayRef<int64_t>(strides).take_back(part.shape.size());
  int64_t linear = 0;
  forEachIndex(part.shape, [&](ArrayRef<int64_t> indices) {
    result.lanes[start + dot(indices, inner)] = part.lanes[linear++];
  });
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runFromElements(Interpreter &interpreter,
                                   vector::FromElementsOp op) {
  Lanes result(shapeOf(op.getType()));
  for (auto [lane, element] : llvm::zip_equal(result.lanes, op.getElements()))
    lane = interpreter.scalar(element);
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

static llvm::Error runShuffle(Interpreter &interpreter, vector::ShuffleOp op) {
  const Lanes &a = interpreter.lanes(op.getV1());
  const Lanes &b = interpreter.lanes(op.getV2());
  Lanes result(shapeOf(op.getType()));
  // Rank above 1: whole leading slices move.
  int64_t slice = result.size() / result.shape[0];
  int64_t first = a.size() / slice;
  for (auto [to, from] : llvm::enumerate(op.getMask()))
    for (int64_t l = 0; l < slice && from >= 0; ++l)
      result.lanes[to * slice + l] = from < first
                                         ? a.lanes[from * slice + l]
                                         : b.lanes[(from - first) * slice + l];
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// True in the corner where every index is below its bound.
static Lanes cornerMask(ArrayRef<int64_t> shape, ArrayRef<int64_t> bounds) {
  Lanes result(shape);
  int64_t linear = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> indices) {
    bool isInside = true;
    for (auto [index, bound] : llvm::zip_equal(indices, bounds))
      isInside &= index < bound;
    result.lanes[linear++] = scalarOf(int64_t(isInside ? -1 : 0));
  });
  return result;
}

static llvm::Error runCreateMask(Interpreter &interpreter,
                                 vector::CreateMaskOp op) {
  interpreter.set(op, cornerMask(shapeOf(op.getType()),
                                 interpreter.integers(op.getOperands())));
  return llvm::Error::success();
}

static llvm::Error runConstantMask(Interpreter &interpreter,
                                   vector::ConstantMaskOp op) {
  interpreter.set(op, cornerMask(shapeOf(op.getType()), op.getMaskDimSizes()));
  return llvm::Error::success();
}

/// Poison is NaN, so that it is seen where it is used.
static llvm::Error runPoison(Interpreter &interpreter, ub::PoisonOp op) {
  Lanes result(shapeOf(op.getType()));
  llvm::fill(result.lanes, scalarOf(std::numeric_limits<double>::quiet_NaN()));
  interpreter.set(op, std::move(result));
  return llvm::Error::success();
}

void attn::reference::addVectorHandlers(HandlerTable &table) {
  table.add<runBroadcast>();
  table.add<runTranspose>();
  table.add<runShapeCast>();
  table.add<runStep>();
  table.add<runExtract>();
  table.add<runInsert>();
  table.add<runExtractSlice>();
  table.add<runInsertSlice>();
  table.add<runFromElements>();
  table.add<runShuffle>();
  table.add<runCreateMask>();
  table.add<runConstantMask>();
  table.add<runPoison>();
}
