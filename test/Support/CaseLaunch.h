//===- CaseLaunch.h - A problem on a device, against the oracle -*- C++ -*-===//

#ifndef ATTN_TEST_SUPPORT_CASELAUNCH_H
#define ATTN_TEST_SUPPORT_CASELAUNCH_H

#include "CaseTensors.h"
#include "attn/Runtime/Kernel.h"

namespace attn {

/// Launches the kernel twice onto poisoned outputs. Says in one line what is
/// wrong with them: elements that were not written, bits that differ, an error
/// beyond the bound; or nothing.
inline std::string launchAndCompare(const CheckedCase &checked,
                                    Artifact &artifact) {
  const AttentionCase &c = checked.problem;
  stateDistances(c, artifact);
  std::vector<const CaseOperand *> operands = argumentsOf(c);
  std::vector<HostTensor> tensors;
  for (const CaseOperand *operand : operands) {
    auto tensor = toTensor(typeOf(*operand), operand->data);
    if (!tensor)
      return llvm::toString(tensor.takeError());
    tensors.push_back(std::move(*tensor));
  }
  auto kernel = loadKernel(artifact);
  if (!kernel)
    return llvm::toString(kernel.takeError());
  size_t firstOut = operands.size() - c.outs.size();
  std::vector<std::vector<char>> first;
  for (int again : {0, 1}) {
    for (HostTensor &out : llvm::MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (int64_t unwritten = tensors[a].countPoisoned())
        return operands[a]->name + ": " + std::to_string(unwritten) +
               " elements were not written";
      if (!again)
        first.push_back(bytesOf(tensors[a]));
      else if (first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs";
    }
  }
  return checked.compare(toArray(tensors[firstOut]), toArray(tensors.back()));
}

} // namespace attn

#endif // ATTN_TEST_SUPPORT_CASELAUNCH_H
