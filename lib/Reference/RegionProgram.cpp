//===- RegionProgram.cpp - A score or mask region, ready to run -----------===//

#include "RegionProgram.h"
#include "ErrorText.h"
#include "attn/IR/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

llvm::Expected<RegionProgram> RegionProgram::build(Region &region,
                                                   StringRef name,
                                                   ArrayRef<Array> captures,
                                                   Rounding rounding) {
  RegionProgram program;
  program.name = name.str();
  Block &body = region.front();
  program.numArguments = body.getNumArguments() - captures.size();
  for (unsigned a = 0; a < program.numArguments; ++a)
    program.slotOf[body.getArgument(a)] = a;
  program.slots.resize(program.numArguments);
  for (Operation &op : body.without_terminator())
    if (llvm::Error error = program.add(op, captures, rounding))
      return std::move(error);
  program.yielded = program.slotOf.lookup(body.getTerminator()->getOperand(0));
  return program;
}

llvm::Error RegionProgram::add(Operation &op, ArrayRef<Array> captures,
                               Rounding rounding) {
  unsigned slot = slots.size();
  if (op.getNumResults() == 1) {
    slots.push_back(scalarOf(0.0));
    slotOf[op.getResult(0)] = slot;
  }

  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      slots[slot] = scalarOf(number.getValueAsDouble());
    else
      slots[slot] = scalarOf(
          wrap(cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue(),
               64));
    return llvm::Error::success();
  }

  Instruction instruction;
  instruction.op = &op;
  instruction.result = slot;
  if (isa<tensor::ExtractOp, memref::LoadOp>(op)) {
    instruction.captureNumber =
        cast<BlockArgument>(op.getOperand(0)).getArgNumber() - numArguments;
    instruction.capture = &captures[instruction.captureNumber];
    instruction.elementType = op.getResult(0).getType();
    for (Value index : llvm::drop_begin(op.getOperands()))
      instruction.operands.push_back(slotOf.lookup(index));
  } else {
    instruction.lane = lookUpLaneOp(&op, rounding);
    if (!instruction.lane.function)
      return errorText("the reference does not know " +
                       op.getName().getStringRef() + " (in " + name + ")");
    for (Value operand : op.getOperands())
      instruction.operands.push_back(slotOf.lookup(operand));
  }
  instructions.push_back(std::move(instruction));
  return llvm::Error::success();
}

llvm::Expected<Scalar> RegionProgram::run(ArrayRef<Scalar> arguments) {
  llvm::copy(arguments, slots.begin());
  for (Instruction &instruction : instructions) {
    if (instruction.capture) {
      if (llvm::Error error = read(instruction))
        return std::move(error);
      continue;
    }
    Scalar operands[3];
    for (auto [operand, slot] : llvm::zip_first(instruction.operands, operands))
      slot = slots[operand];
    bool undefined = false;
    slots[instruction.result] = instruction.lane.apply(operands, undefined);
    if (undefined)
      return errorText(name + " divides by zero in " +
                       instruction.op->getName().getStringRef() + ": " +
                       position());
  }
  return slots[yielded];
}

llvm::Error RegionProgram::read(Instruction &instruction) {
  const Array &capture = *instruction.capture;
  int64_t linear = 0;
  bool isInside = true;
  for (auto [slot, size] :
       llvm::zip_equal(instruction.operands, capture.shape)) {
    int64_t index = slots[slot].i;
    isInside &= index >= 0 && index < size;
    linear = linear * size + index;
  }
  if (isInside) {
    instruction.element = linear;
    slots[instruction.result] =
        scalarOfType(capture.data[linear], instruction.elementType);
    return llvm::Error::success();
  }
  SmallVector<int64_t> indices;
  for (unsigned slot : instruction.operands)
    indices.push_back(slots[slot].i);
  return errorText(
      llvm::formatv("{0} reads captures #{1} at [{2:$[, ]}], size "
                    "{3}: {4}",
                    name, instruction.captureNumber,
                    llvm::make_range(indices.begin(), indices.end()),
                    shapeText(capture.shape), position())
          .str());
}

llvm::Error
RegionProgram::prepareDerivatives(ArrayRef<int64_t> wantedCaptures) {
  std::vector<bool> isActive(slots.size(), false);
  isActive[Score] = true;
  for (Instruction &instruction : instructions) {
    instruction.isActive =
        instruction.capture
            ? llvm::is_contained(wantedCaptures, instruction.captureNumber)
            : isa<FloatType>(instruction.op->getResult(0).getType()) &&
                  llvm::any_of(instruction.operands,
                               [&](unsigned slot) { return isActive[slot]; });
    isActive[instruction.result] = instruction.isActive;
    if (!instruction.isActive || instruction.capture)
      continue;
    StringRef op = instruction.op->getName().getStringRef();
    instruction.derivative = lookUpLaneDerivative(op);
    if (!instruction.derivative)
      return errorText("the reference knows no derivative of " + op + " (in " +
                       name + ")");
  }
  return llvm::Error::success();
}

double RegionProgram::differentiate(double gradient,
                                    CaptureGradient addToCapture) {
  gradients.assign(slots.size(), 0.0);
  gradients[yielded] = gradient;
  for (const Instruction &instruction : llvm::reverse(instructions)) {
    double own = gradients[instruction.result];
    if (!instruction.isActive || own == 0)
      continue;
    if (instruction.capture) {
      addToCapture(instruction.captureNumber, instruction.element, own);
      continue;
    }
    Scalar operands[3];
    double partials[3] = {0, 0, 0};
    for (auto [operand, slot] : llvm::zip_first(instruction.operands, operands))
      slot = slots[operand];
    instruction.derivative(operands, slots[instruction.result].f, partials);
    for (auto [operand, partial] :
         llvm::zip_first(instruction.operands, partials))
      if (partial != 0)
        gradients[operand] += own * partial;
  }
  return gradients[Score];
}

std::string RegionProgram::position() const {
  // The four positions come last before the captures, with or without a score.
  ArrayRef<Scalar> last =
      ArrayRef(slots).take_front(numArguments).take_back(kMaskModArguments);
  return llvm::formatv("batch {0}, head {1}, query {2}, key {3}", last[0].i,
                       last[1].i, last[2].i, last[3].i);
}
