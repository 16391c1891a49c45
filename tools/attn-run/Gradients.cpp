//===- Gradients.cpp - Run the gradient kernel behind the forward ---------===//

#include "Gradients.h"
#include "attn/Reference/Oracle.h"
#include "attn/Runtime/Kernel.h"
#include "attn/Runtime/Report.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace attn;
using namespace mlir;

/// Multiply-adds that the naive oracle does in about ten seconds.
static constexpr double kMostWork = 2e9;

static Array toArray(const HostTensor &tensor) {
  Array array;
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  array.data = tensor.toDoubles();
  return array;
}

/// Inputs, output and lse as the forward has them, a made-up gradient of the
/// output (and of the lse, where it is asked for), poisoned destinations.
static llvm::Expected<std::vector<HostTensor>>
makeArguments(const LaunchDescription &launch, ArrayRef<HostTensor> forward,
              uint64_t seed) {
  std::vector<HostTensor> arguments;
  SizeMap sizes;
  for (size_t number = 0; number < launch.arguments.size(); ++number) {
    const ArgumentDescription &argument = launch.arguments[number];
    bool isGiven = number < forward.size();
    if (isGiven)
      if (llvm::Error error =
              launch.bindShape(number, forward[number].shape(), sizes))
        return std::move(error);
    auto shape = launch.shapeOf(number, sizes);
    if (!shape)
      return shape.takeError();
    auto tensor = HostTensor::create(argument.type, *shape);
    if (!tensor)
      return tensor.takeError();
    if (isGiven)
      std::memcpy(tensor->data(), forward[number].data(), tensor->bytes());
    else if (argument.access == Access::Out)
      tensor->poison();
    else
      tensor->fillNormal(seed + (uint64_t(number) << 32));
    arguments.push_back(std::move(*tensor));
  }
  return arguments;
}

/// The backward op of a function, and its operands among the arguments.
static llvm::Expected<AttentionBackwardOp>
findBackward(func::FuncOp function, ArrayRef<HostTensor> arguments,
             SmallVectorImpl<Array> &operands) {
  AttentionBackwardOp op;
  function.walk([&](AttentionBackwardOp found) { op = found; });
  auto refuse = [](const Twine &what) {
    return llvm::createStringError("cannot check: " + what +
                                   "; run with --no-check");
  };
  if (!op)
    return refuse("@" + function.getName() + " has no backward op");
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument)
      return refuse("an operand of the backward op is no argument");
    operands.push_back(toArray(arguments[argument.getArgNumber()]));
  }
  double work =
      static_cast<double>(operands[0].size()) * operands[1].size() /
      std::max<double>(1, operands[1].shape[0] * operands[1].shape[3]);
  if (work > kMostWork)
    return refuse("the oracle would take minutes for gradients of this size");
  return op;
}

static llvm::Expected<std::string>
checkGradients(func::FuncOp function, const LaunchDescription &launch,
               ArrayRef<HostTensor> arguments) {
  SmallVector<Array> operands;
  auto op = findBackward(function, arguments, operands);
  if (!op)
    return op.takeError();
  auto exact = evaluateBackward(*op, operands);
  if (!exact)
    return exact.takeError();
  auto straightforward = evaluateStraightforwardBackward(*op, operands);
  if (!straightforward)
    return straightforward.takeError();
  std::string report;
  size_t next = function.getNumArguments();
  for (Value returned : function.front().getTerminator()->getOperands()) {
    auto result = dyn_cast<OpResult>(returned);
    if (!result || result.getOwner() != *op)
      return llvm::createStringError("cannot check: a result is a sum of "
                                     "gradients; run with --no-check");
    const GradientResult &expected = (*exact)[result.getResultNumber()];
    const HostTensor &got = arguments[next];
    const std::string &name = launch.arguments[next++].name;
    if (int64_t unwritten = got.countPoisoned())
      return llvm::createStringError(
          "%s: %lld of %lld elements were never written", name.c_str(),
          (long long)unwritten, (long long)got.size());
    const Array &usual = (*straightforward)[result.getResultNumber()].value;
    double error = gradientError(toArray(got), expected);
    double bound = gradientBound(*op, usual, expected);
    std::string line = llvm::formatv(
        "{0}: error {1:e2}, bound {2:e2} (straightforward {3:e2})", name, error,
        bound, gradientError(usual, expected));
    // Written so that a NaN fails.
    if (!(error <= bound))
      return llvm::createStringError(Twine(line) +
                                     "; the kernel's result is wrong");
    report += line + "\n";
  }
  return report;
}

llvm::Error
attn::runGradients(ModuleOp module, const CompileOptions &options,
                   ArrayRef<HostTensor> forward, const GradientRun &run,
                   llvm::function_ref<void(StringRef, StringRef)> print) {
  auto artifact = compile(module, options);
  if (!artifact)
    return artifact.takeError();
  const LaunchDescription &launch = artifact->launch;
  auto arguments = makeArguments(launch, forward, run.seed);
  if (!arguments)
    return arguments.takeError();
  auto kernel = loadKernel(*artifact);
  if (!kernel)
    return kernel.takeError();
  print("kernel", llvm::formatv("@{0} for {1} ({2})", launch.name,
                                launch.target, launch.arch)
                      .str());
  if (llvm::Error error = (*kernel)->launch(*arguments))
    return error;
  if (run.check) {
    auto shortest = lowerToStage(module, Stage::Attn, options);
    if (!shortest)
      return shortest.takeError();
    auto function = findEntry(**shortest, options);
    if (!function)
      return function.takeError();
    auto report = checkGradients(*function, launch, *arguments);
    if (!report)
      return report.takeError();
    print("check", *report);
  }
  if (run.runs) {
    auto timing = (*kernel)->time(*arguments, *run.runs);
    if (!timing)
      return timing.takeError();
    auto text = speedText(launch, *arguments, *timing);
    if (!text)
      return text.takeError();
    print("speed", *text);
  }
  return llvm::Error::success();
}
