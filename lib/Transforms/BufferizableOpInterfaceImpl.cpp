//===- BufferizableOpInterfaceImpl.cpp - Tensors to memrefs ---------------===//
//
// The tensor form of the attention ops becomes the memref form: every operand
// is read, `outs` are written and become the results in place; without `outs`
// the results are allocated. Captured tensors are memrefs in the regions, and
// tensor.extract there is memref.load.
//
//===----------------------------------------------------------------------===//

#include "attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/IR/Attn.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace attn;
using namespace mlir::bufferization;

/// The number of a destination among `outs`, or nothing for a read operand.
static std::optional<unsigned> destinationNumber(AttentionOpInterface op,
                                                 OpOperand &operand) {
  MutableOperandRange outs = op.getOutsMutable();
  if (outs.empty() || operand.getOperandNumber() < outs[0].getOperandNumber())
    return std::nullopt;
  return operand.getOperandNumber() - outs[0].getOperandNumber();
}

/// The capture that a block argument of a region stands for, or null.
static OpOperand *captureOf(AttentionOpInterface op, Value value) {
  auto argument = cast<BlockArgument>(value);
  unsigned first = argument.getOwner()->getParent() == &op.getScoreMod()
                       ? kScoreModArguments
                       : kMaskModArguments;
  if (argument.getArgNumber() < first)
    return nullptr;
  return &op.getCapturesMutable()[argument.getArgNumber() - first];
}

/// The buffer of an operand. The memref form wants a unit innermost stride; a
/// tensor has no strides, so what a view made of it must not be an error here.
static FailureOr<Value> getUnitStrideBuffer(RewriterBase &rewriter, Value value,
                                            const BufferizationOptions &options,
                                            BufferizationState &state) {
  FailureOr<Value> buffer = getBuffer(rewriter, value, options, state);
  if (failed(buffer))
    return failure();
  auto type = cast<MemRefType>(buffer->getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  bool isUnit = succeeded(type.getStridesAndOffset(strides, offset)) &&
                (strides.empty() || strides.back() == 1);
  if (isUnit)
    return buffer;
  Location loc = value.getLoc();
  SmallVector<Value> sizes;
  populateDynamicDimSizes(rewriter, loc, *buffer, sizes);
  auto packed =
      MemRefType::get(type.getShape(), type.getElementType(),
                      MemRefLayoutAttrInterface(), type.getMemorySpace());
  FailureOr<Value> copy = options.createAlloc(rewriter, loc, packed, sizes);
  if (failed(copy) ||
      failed(options.createMemCpy(rewriter, loc, *buffer, *copy)))
    return failure();
  return copy;
}

/// A result that is allocated here is packed, in the default memory space.
static FailureOr<BufferLikeType>
allocationType(Value result, const BufferizationOptions &options) {
  auto tensor = cast<RankedTensorType>(result.getType());
  std::optional<Attribute> space = options.defaultMemorySpaceFn(tensor);
  if (!space)
    return failure();
  return cast<BufferLikeType>(
      getMemRefTypeWithStaticIdentityLayout(tensor, *space));
}

/// One allocation per result.
static LogicalResult allocateResults(RewriterBase &rewriter,
                                     AttentionOpInterface op,
                                     const BufferizationOptions &options,
                                     SmallVectorImpl<Value> &buffers) {
  ReifiedRankedShapedTypeDims shapes;
  if (failed(reifyResultShapes(rewriter, op, shapes)))
    return failure();
  for (auto [result, shape] : llvm::zip(op->getResults(), shapes)) {
    FailureOr<BufferLikeType> type = allocationType(result, options);
    if (failed(type))
      return failure();
    // An operand may state a size that the result's type leaves open.
    SmallVector<Value> sizes;
    auto bufferType = cast<MemRefType>(*type);
    for (auto [dimension, size] : llvm::enumerate(shape))
      if (bufferType.isDynamicDim(dimension))
        sizes.push_back(
            getValueOrCreateConstantIndexOp(rewriter, op.getLoc(), size));
    FailureOr<Value> buffer =
        options.createAlloc(rewriter, op.getLoc(), bufferType, sizes);
    if (failed(buffer))
      return failure();
    buffers.push_back(*buffer);
  }
  return success();
}

/// Gives the captured arguments of a region the types of their buffers.
static void bufferizeRegion(RewriterBase &rewriter, Region &region,
                            unsigned firstCapture, ValueRange captures) {
  if (region.empty())
    return;
  for (auto [argument, capture] :
       llvm::zip(region.getArguments().drop_front(firstCapture), captures)) {
    argument.setType(capture.getType());
    for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
      rewriter.setInsertionPoint(user);
      // Reads that were bufferized before this op look at a cast.
      if (auto cast = dyn_cast<ToBufferOp>(user)) {
        rewriter.replaceOp(cast, argument);
      } else if (auto extract = dyn_cast<tensor::ExtractOp>(user)) {
        rewriter.replaceOpWithNewOp<memref::LoadOp>(extract, argument,
                                                    extract.getIndices());
      }
    }
  }
}

namespace {

template <typename OpTy>
struct AttentionModel
    : BufferizableOpInterface::ExternalModel<AttentionModel<OpTy>, OpTy> {
  bool bufferizesToAllocation(Operation *op, Value value) const {
    return cast<OpTy>(op).getOuts().empty();
  }
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand,
                              const AnalysisState &) const {
    return !destinationNumber(cast<OpTy>(op), operand);
  }
  bool bufferizesToMemoryWrite(Operation *op, OpOperand &operand,
                               const AnalysisState &) const {
    return destinationNumber(cast<OpTy>(op), operand).has_value();
  }
  AliasingValueList getAliasingValues(Operation *op, OpOperand &operand,
                                      const AnalysisState &) const {
    if (std::optional<unsigned> number =
            destinationNumber(cast<OpTy>(op), operand))
      return {{op->getResult(*number), BufferRelation::Equivalent}};
    return {};
  }
  AliasingOpOperandList getAliasingOpOperands(Operation *op, Value value,
                                              const AnalysisState &) const {
    auto attention = cast<OpTy>(op);
    if (auto result = dyn_cast<OpResult>(value)) {
      if (attention.getOuts().empty())
        return {};
      return {{&attention.getOutsMutable()[result.getResultNumber()],
               BufferRelation::Equivalent}};
    }
    if (OpOperand *capture = captureOf(attention, value))
      return {{capture, BufferRelation::Equivalent}};
    return {};
  }

  FailureOr<BufferLikeType>
  getBufferType(Operation *op, Value value, const BufferizationOptions &options,
                const BufferizationState &state,
                SmallVector<Value> &invocationStack) const {
    auto attention = cast<OpTy>(op);
    if (isa<BlockArgument>(value))
      if (OpOperand *capture = captureOf(attention, value))
        return bufferization::getBufferType(capture->get(), options, state,
                                            invocationStack);
    if (isa<OpResult>(value) && attention.getOuts().empty())
      return allocationType(value, options);
    return bufferization::detail::defaultGetBufferType(value, options, state,
                                                       invocationStack);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto attention = cast<OpTy>(op);
    SmallVector<Value> buffers;
    for (Value operand : op->getOperands()) {
      FailureOr<Value> buffer =
          getUnitStrideBuffer(rewriter, operand, options, state);
      if (failed(buffer))
        return failure();
      buffers.push_back(*buffer);
    }
    if (attention.getOuts().empty() &&
        failed(allocateResults(rewriter, attention, options, buffers)))
      return failure();

    OperationState memrefForm(op->getLoc(), op->getName());
    memrefForm.addOperands(buffers);
    memrefForm.addAttributes(op->getDiscardableAttrDictionary().getValue());
    auto &properties =
        memrefForm.getOrAddProperties<typename OpTy::Properties>();
    properties = attention.getProperties();
    properties.operandSegmentSizes.back() = op->getNumResults();
    memrefForm.addRegion()->takeBody(attention.getScoreMod());
    memrefForm.addRegion()->takeBody(attention.getMaskMod());
    auto bufferized = cast<OpTy>(rewriter.create(memrefForm));
    bufferizeRegion(rewriter, bufferized.getScoreMod(), kScoreModArguments,
                    bufferized.getCaptures());
    bufferizeRegion(rewriter, bufferized.getMaskMod(), kMaskModArguments,
                    bufferized.getCaptures());
    replaceOpWithBufferizedValues(
        rewriter, op, ValueRange(buffers).take_back(op->getNumResults()));
    return success();
  }
};

} // namespace

void attn::registerBufferizableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionModel<AttentionOp>>(*context);
    AttentionBackwardOp::attachInterface<AttentionModel<AttentionBackwardOp>>(
        *context);
  });
}
