//===- Kernel.cpp - A loaded kernel ---------------------------------------===//

#include "attn/Runtime/Kernel.h"
#include "attn/Runtime/Cpu/CpuKernel.h"
#include "attn/Runtime/Cuda/CudaKernel.h"
#include "attn/Runtime/Vulkan/VulkanKernel.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>

using namespace llvm;
using namespace attn;

Expected<std::unique_ptr<Kernel>> attn::loadKernel(const Artifact &artifact) {
  StringRef format = artifact.launch.format;
  if (format == "obj")
    return loadCpuKernel(artifact);
  if (format == "ptx" || format == "cubin")
    return loadCudaKernel(artifact);
  if (format == "spv")
    return loadVulkanKernel(artifact);
  return createStringError("cannot run code of format '" + format +
                           "'; expected obj, ptx, cubin or spv");
}

Error Kernel::checkArguments(ArrayRef<HostTensor> arguments) const {
  if (arguments.size() != launchDescription.arguments.size())
    return createStringError("kernel '" + launchDescription.name + "' takes " +
                             Twine(launchDescription.arguments.size()) +
                             " arguments, got " + Twine(arguments.size()));
  SizeMap sizes;
  for (auto [index, argument] : enumerate(arguments)) {
    const ArgumentDescription &expected = launchDescription.arguments[index];
    if (argument.type() != expected.type)
      return createStringError("argument '" + expected.name + "': expected " +
                               elementTypeName(expected.type) + ", got " +
                               elementTypeName(argument.type()));
    if (Error error =
            launchDescription.bindShape(index, argument.shape(), sizes))
      return error;
  }
  return Error::success();
}

Timing attn::summarize(std::vector<double> seconds) {
  llvm::sort(seconds);
  size_t middle = seconds.size() / 2;
  double median = seconds.size() % 2
                      ? seconds[middle]
                      : (seconds[middle - 1] + seconds[middle]) / 2;
  return {median, seconds.front(), int64_t(seconds.size())};
}

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Expected<Timing> attn::timeRepeated(function_ref<Error()> run, int64_t runs) {
  constexpr int64_t kFewest = 5;
  return repeatTimed(
      [&]() -> Expected<double> {
        Clock::time_point begin = Clock::now();
        if (Error error = run())
          return error;
        return since(begin);
      },
      runs, kFewest);
}

Expected<Timing> attn::repeatTimed(function_ref<Expected<double>()> run,
                                   int64_t runs, int64_t fewest) {
  constexpr int64_t kMost = 10000;
  constexpr double kSeconds = 1.0, kWarmUpSeconds = 0.1;
  Clock::time_point start = Clock::now();
  do {
    if (Expected<double> ignored = run(); !ignored)
      return ignored.takeError();
  } while (since(start) < kWarmUpSeconds);

  std::vector<double> seconds;
  start = Clock::now();
  auto isEnough = [&] {
    int64_t done = seconds.size();
    if (runs > 0)
      return done >= runs;
    return done >= kMost || (done >= fewest && since(start) >= kSeconds);
  };
  while (!isEnough()) {
    Expected<double> taken = run();
    if (!taken)
      return taken.takeError();
    seconds.push_back(*taken);
  }
  return summarize(std::move(seconds));
}
