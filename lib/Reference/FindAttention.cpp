//===- FindAttention.cpp - The one attention op of a function -------------===//

#include "ErrorText.h"
#include "attn/Reference/Oracle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

/// The value before casts that change only what the type says.
static Value withoutCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::CastOp, memref::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static llvm::Expected<AttentionOp> findOnlyAttention(func::FuncOp function) {
  if (function.isExternal())
    return errorText("@" + function.getName() + " has no body");
  AttentionOp found;
  bool isOnly = true;
  function.walk([&](AttentionOp op) {
    isOnly &= !found;
    found = op;
  });
  if (!found)
    return errorText("no attn.attention in @" + function.getName());
  if (!isOnly)
    return errorText("more than one attn.attention in @" + function.getName() +
                     "; expected one");
  return found;
}

/// The elements of a constant; nullopt for what is none.
static std::optional<Array> constantArray(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)))
    return std::nullopt;
  Array array;
  array.shape.assign(elements.getType().getShape().begin(),
                     elements.getType().getShape().end());
  if (isa<FloatType>(elements.getElementType())) {
    for (APFloat element : elements.getValues<APFloat>()) {
      bool losesInfo;
      element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                      &losesInfo);
      array.data.push_back(element.convertToDouble());
    }
  } else {
    bool isBoolean = elements.getElementType().isInteger(1);
    for (const APInt &element : elements.getValues<APInt>())
      array.data.push_back(isBoolean ? element.getZExtValue()
                                     : element.getSExtValue());
  }
  return array;
}

llvm::Expected<AttentionInFunction> attn::findAttention(func::FuncOp function) {
  llvm::Expected<AttentionOp> op = findOnlyAttention(function);
  if (!op)
    return op.takeError();
  AttentionInFunction found;
  found.op = *op;

  unsigned inputs = (*op)->getNumOperands() - op->getOuts().size();
  for (auto [index, operand] : llvm::enumerate((*op)->getOperands())) {
    AttentionInFunction::Operand source;
    Value value = withoutCasts(operand);
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == &function.getBody().front())
      source.argument = argument.getArgNumber();
    else if (index < inputs)
      source.constant = constantArray(value);
    if (index < inputs && !source.argument && !source.constant)
      return errorText("operand #" + llvm::Twine(index) +
                       " of attn.attention in @" + function.getName() +
                       " is computed; expected a function argument or a "
                       "constant");
    if (index >= inputs && op->isMemRefForm() && !source.argument)
      return errorText("destination #" + llvm::Twine(index - inputs) +
                       " of attn.attention in @" + function.getName() +
                       " is not a function argument");
    found.operands.push_back(std::move(source));
  }

  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [index, returned] : llvm::enumerate(terminator->getOperands())) {
    auto result = dyn_cast<OpResult>(withoutCasts(returned));
    if (!result || result.getOwner() != found.op)
      return errorText("result #" + llvm::Twine(index) + " of @" +
                       function.getName() +
                       " is not a result of its attn.attention");
    found.results.push_back(result.getResultNumber());
  }
  return found;
}

llvm::Expected<SmallVector<Array>>
AttentionInFunction::bind(ArrayRef<Array> arguments) const {
  AttentionOp attention = op;
  unsigned inputs = attention->getNumOperands() - attention.getOuts().size();
  SmallVector<Array> bound;
  for (const Operand &operand : ArrayRef(operands).take_front(inputs)) {
    if (operand.constant) {
      bound.push_back(*operand.constant);
      continue;
    }
    if (*operand.argument >= arguments.size())
      return errorText("argument #" + llvm::Twine(*operand.argument) +
                       " is missing: got " + llvm::Twine(arguments.size()));
    bound.push_back(arguments[*operand.argument]);
  }
  return bound;
}
