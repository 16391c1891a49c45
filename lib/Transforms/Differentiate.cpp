//===- Differentiate.cpp - A function's gradient as a function ------------===//
//
// A function of one attention op that is marked `attn.differentiate`
//
//   func @f(inputs...) -> output                  or -> (output, lse)
//
// is made to return the lse as its last result, since the gradient needs it,
// and gets a neighbour
//
//   func @f_grad(inputs..., output, lse, output gradient [, lse gradient])
//       -> a gradient for each float input that a score or the output
//          depends on, in their order
//
// The gradient of the lse is an argument where @f returned the lse before: then
// something may depend on it. An input that is marked `attn.no_gradient` is
// left out. Query, key and value have gradients of their own type; bias, sinks
// and captures of the accumulators' (C15 of the op). An input that is several
// operands gets the sum.
//
// Elsewhere an op that is marked `attn.differentiate` is made to return its
// lse, for a framework that builds the backward op itself.
//
//===----------------------------------------------------------------------===//

#include "attn/Transforms/Differentiate.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace attn {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "attn/Transforms/Passes.h.inc"
} // namespace attn

using namespace mlir;
using namespace attn;

static constexpr StringLiteral kDifferentiate = "attn.differentiate";
static constexpr StringLiteral kNoGradient = "attn.no_gradient";

namespace {

/// Differentiates one function.
class FunctionGradient {
public:
  FunctionGradient(func::FuncOp function, bool deterministic)
      : function(function), rewriter(function.getContext()) {
    requests.deterministic = deterministic;
  }
  LogicalResult run();

private:
  LogicalResult findOp();
  LogicalResult checkOperands();
  LogicalResult checkResults();
  void returnLse();
  void findRequests();
  func::FuncOp createFunction();
  LogicalResult buildBody(func::FuncOp gradient);

  /// The argument that an operand is, if its gradient is asked for.
  std::optional<unsigned> wantedArgument(Value operand);
  bool isRead(int64_t capture);

  func::FuncOp function;
  IRRewriter rewriter;
  AttentionOp op;
  GradientRequests requests;
  bool returnedLse = false;
};

} // namespace

LogicalResult FunctionGradient::findOp() {
  if (!function.getBody().hasOneBlock())
    return function.emitError("expects a function of one block to "
                              "differentiate");
  int64_t count = 0;
  function.walk([&](AttentionOp found) {
    op = found;
    ++count;
  });
  if (count != 1)
    return function.emitError("expects one attn.attention to differentiate, "
                              "got ")
           << count
           << "; build backward ops with attn/Transforms/Differentiate.h";
  return success();
}

LogicalResult FunctionGradient::checkOperands() {
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (!isa<BlockArgument>(operand) && !matchPattern(operand, m_Constant()))
      return op.emitOpError("expects operands that are arguments or constants "
                            "to differentiate, got operand #")
             << index
             << " computed; build the backward op with "
                "attn/Transforms/Differentiate.h";
  return success();
}

LogicalResult FunctionGradient::checkResults() {
  Operation *terminator = function.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands()))
    if (index > 1 || value != op->getResult(index))
      return function.emitError("expects a function that returns what its "
                                "attn.attention does to differentiate, got "
                                "another result #")
             << index;
  returnedLse = terminator->getNumOperands() == 2;
  if (terminator->getNumOperands() == 0)
    return function.emitError("expects a function that returns the output of "
                              "its attn.attention to differentiate");
  return success();
}

void FunctionGradient::returnLse() {
  op = withLse(rewriter, op);
  if (returnedLse)
    return;
  Operation *terminator = function.front().getTerminator();
  terminator->insertOperands(1, op->getResult(1));
  function.setType(rewriter.getFunctionType(
      function.getArgumentTypes(), ValueRange(op->getResults()).getTypes()));
}

std::optional<unsigned> FunctionGradient::wantedArgument(Value operand) {
  auto argument = dyn_cast_or_null<BlockArgument>(operand);
  if (!argument || function.getArgAttr(argument.getArgNumber(), kNoGradient))
    return std::nullopt;
  return argument.getArgNumber();
}

bool FunctionGradient::isRead(int64_t capture) {
  return op.hasScoreMod() && !op.getScoreMod()
                                  .getArgument(kScoreModArguments + capture)
                                  .use_empty();
}

void FunctionGradient::findRequests() {
  requests.bias = wantedArgument(op.getBias()).has_value();
  requests.sinks = wantedArgument(op.getSinks()).has_value();
  for (auto [number, capture] : llvm::enumerate(op.getCaptures()))
    if (wantedArgument(capture) && isRead(number) &&
        isa<FloatType>(cast<ShapedType>(capture.getType()).getElementType()))
      requests.captures.push_back(number);
}

func::FuncOp FunctionGradient::createFunction() {
  SmallVector<Type> inputs(function.getArgumentTypes());
  Type output = op->getResult(0).getType(), lse = op->getResult(1).getType();
  inputs.append({output, lse, output});
  if (returnedLse)
    inputs.push_back(lse);
  rewriter.setInsertionPointAfter(function);
  auto gradient = func::FuncOp::create(rewriter, function.getLoc(),
                                       (function.getName() + "_grad").str(),
                                       rewriter.getFunctionType(inputs, {}));
  gradient.setVisibility(function.getVisibility());
  rewriter.setInsertionPointToStart(gradient.addEntryBlock());
  return gradient;
}

LogicalResult FunctionGradient::buildBody(func::FuncOp gradient) {
  IRMapping mapping;
  unsigned count = function.getNumArguments();
  mapping.map(function.getArguments(),
              gradient.getArguments().take_front(count));
  for (Value operand : op->getOperands())
    if (Operation *constant = operand.getDefiningOp())
      if (!mapping.contains(operand))
        rewriter.clone(*constant, mapping);
  ArrayRef<BlockArgument> own = gradient.getArguments().drop_front(count);
  BackwardOperands operands = {own[0], own[1], own[2],
                               returnedLse ? Value(own[3]) : Value()};
  FailureOr<AttentionBackwardOp> backward =
      buildAttentionBackward(rewriter, op, operands, requests, mapping);
  if (failed(backward))
    return failure();

  // The operand in the other function, and its gradient, by argument.
  SmallVector<Value> sums(count);
  for (auto [operand, result] :
       llvm::zip_equal(backward->getDifferentiated(), backward->getResults())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument || function.getArgAttr(argument.getArgNumber(), kNoGradient))
      continue;
    Value &sum = sums[argument.getArgNumber()];
    if (!sum) {
      sum = result;
      continue;
    }
    if (sum.getType() != result.getType())
      return op.emitOpError("expects an argument that is several operands to "
                            "have gradients of one type, got ")
             << sum.getType() << " and " << result.getType()
             << "; give the operands arguments of their own";
    Value empty = tensor::EmptyOp::create(
        rewriter, op.getLoc(),
        tensor::getMixedSizes(rewriter, op.getLoc(), result),
        cast<RankedTensorType>(result.getType()).getElementType());
    sum = linalg::AddOp::create(rewriter, op.getLoc(), ValueRange{sum, result},
                                ValueRange{empty})
              .getResult(0);
  }
  SmallVector<Value> results;
  for (Value sum : sums)
    if (sum)
      results.push_back(sum);
  func::ReturnOp::create(rewriter, op.getLoc(), results);
  gradient.setType(rewriter.getFunctionType(gradient.getArgumentTypes(),
                                            ValueRange(results).getTypes()));
  return success();
}

LogicalResult FunctionGradient::run() {
  if (failed(findOp()) || failed(checkOperands()) || failed(checkResults()))
    return failure();
  function->removeAttr(kDifferentiate);
  returnLse();
  findRequests();
  func::FuncOp gradient = createFunction();
  LogicalResult result = buildBody(gradient);
  for (unsigned n = 0; n < function.getNumArguments(); ++n)
    function.removeArgAttr(n, kNoGradient);
  return result;
}

namespace {
struct Differentiate : attn::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;
  void runOnOperation() override {
    SmallVector<func::FuncOp> marked;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kDifferentiate) || function.getName() == entry)
        marked.push_back(function);
    for (func::FuncOp function : marked)
      if (failed(FunctionGradient(function, deterministic).run()))
        return signalPassFailure();
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AttentionOp op) {
      if (op->removeDiscardableAttr(kDifferentiate))
        withLse(rewriter, op);
    });
  }
};
} // namespace
