//===- GradientLaunch.h - Gradients on a device, against the oracle -*- C++
//-*-//

#ifndef ATTN_TEST_SUPPORT_GRADIENTLAUNCH_H
#define ATTN_TEST_SUPPORT_GRADIENTLAUNCH_H

#include "CaseTensors.h"
#include "GradientCase.h"
#include "attn/Runtime/Kernel.h"

namespace attn {

/// In the order of the function's arguments, destinations behind.
inline std::vector<const CaseOperand *> argumentsOf(const GradientCase &c) {
  std::vector<const CaseOperand *> arguments;
  for (llvm::ArrayRef<CaseOperand> group :
       {llvm::ArrayRef(c.problem.operands), llvm::ArrayRef(c.problem.captures),
        llvm::ArrayRef(c.forward), llvm::ArrayRef(c.outs)})
    for (const CaseOperand &operand : group)
      arguments.push_back(&operand);
  return arguments;
}

/// Launches the kernels onto poisoned destinations, `runs` times; `prepare` is
/// told the number of each run. Says in one line what is wrong with them:
/// elements that were not written, bits that differ from run to run, an error
/// beyond the bound; or nothing.
inline std::string launchAndCompare(
    const GradientCase &c, Artifact &artifact, int runs,
    llvm::function_ref<void(int)> prepare = [](int) {}) {
  std::vector<const CaseOperand *> operands = argumentsOf(c);
  if (artifact.launch.arguments.size() != operands.size())
    return "takes another number of arguments";
  std::vector<HostTensor> tensors;
  for (auto [argument, operand] :
       llvm::zip_equal(artifact.launch.arguments, operands)) {
    if (!c.problem.isTensor && !operand->isDense) {
      argument.strides.assign(operand->strides.begin(), operand->strides.end());
      argument.offset = operand->offset();
    }
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
  for (int run = 0; run < runs; ++run) {
    prepare(run);
    for (HostTensor &out : llvm::MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (tensors[a].countPoisoned())
        return operands[a]->name + " was not written whole";
      if (first.size() < c.outs.size())
        first.push_back(bytesOf(tensors[a]));
      else if (first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs";
    }
  }
  llvm::SmallVector<Array> gradients;
  for (const HostTensor &tensor : llvm::ArrayRef(tensors).drop_front(firstOut))
    gradients.push_back(toArray(tensor));
  return c.compare(gradients);
}

} // namespace attn

#endif // ATTN_TEST_SUPPORT_GRADIENTLAUNCH_H
