//===- CaseTensors.h - A problem's operands as a runtime has them -*- C++ -*-=//

#ifndef ATTN_TEST_SUPPORT_CASETENSORS_H
#define ATTN_TEST_SUPPORT_CASETENSORS_H

#include "CheckedCase.h"
#include "attn/Artifact/Artifact.h"
#include "attn/Runtime/HostTensor.h"

namespace attn {

inline ElementType typeOf(const CaseOperand &operand) {
  return *parseElementType(operand.element);
}

inline std::vector<char> bytesOf(const HostTensor &tensor) {
  return std::vector<char>(tensor.data(), tensor.data() + tensor.bytes());
}

inline Array toArray(const HostTensor &tensor) {
  Array array;
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  array.data = tensor.toDoubles();
  return array;
}

/// In the order of the function's arguments, results behind.
inline std::vector<const CaseOperand *> argumentsOf(const AttentionCase &c) {
  std::vector<const CaseOperand *> arguments;
  for (const std::vector<CaseOperand> *group :
       {&c.operands, &c.captures, &c.outs})
    for (const CaseOperand &operand : *group)
      arguments.push_back(&operand);
  return arguments;
}

inline llvm::Expected<HostTensor> toTensor(ElementType type,
                                           const Array &data) {
  auto tensor = HostTensor::create(type, data.shape);
  if (tensor)
    for (int64_t i = 0; i < tensor->size(); ++i)
      tensor->set(i, data.data[i]);
  return tensor;
}

/// Where the type leaves the distances open, they are the caller's.
inline void stateDistances(const AttentionCase &c, Artifact &artifact) {
  for (auto [argument, operand] :
       llvm::zip(artifact.launch.arguments, argumentsOf(c)))
    if (!c.isTensor && !operand->isDense) {
      argument.strides.assign(operand->strides.begin(), operand->strides.end());
      argument.offset = operand->offset();
    }
}

} // namespace attn

#endif // ATTN_TEST_SUPPORT_CASETENSORS_H
