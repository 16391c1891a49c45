//===- Kernel.h - A loaded kernel -------------------------------*- C++ -*-===//
//
// The same three steps for every device: load an artifact, launch it on host
// tensors, time it. All that is known of the kernel is its launch description.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_KERNEL_H
#define ATTN_RUNTIME_KERNEL_H

#include "attn/Artifact/Artifact.h"
#include "attn/Runtime/HostTensor.h"
#include <memory>

namespace attn {

/// Times of repeated launches, in seconds.
struct Timing {
  double median = 0, minimum = 0;
  int64_t runs = 0;
};

class Kernel {
public:
  virtual ~Kernel() = default;

  const LaunchDescription &description() const { return launchDescription; }

  /// Runs once. `arguments` are those of the description, in its order.
  virtual llvm::Error launch(llvm::MutableArrayRef<HostTensor> arguments) = 0;

  /// Runs `runs` times after a warm-up; with 0, for about a second. Arguments
  /// stay where they are between runs.
  virtual llvm::Expected<Timing>
  time(llvm::MutableArrayRef<HostTensor> arguments, int64_t runs) = 0;

protected:
  explicit Kernel(LaunchDescription description)
      : launchDescription(std::move(description)) {}

  /// The number, types and shapes of `arguments` against the description.
  llvm::Error checkArguments(llvm::ArrayRef<HostTensor> arguments) const;

private:
  LaunchDescription launchDescription;
};

/// Makes the artifact ready to run on this machine.
llvm::Expected<std::unique_ptr<Kernel>> loadKernel(const Artifact &artifact);

/// Median and minimum of `seconds`, which is not empty.
Timing summarize(std::vector<double> seconds);

/// Calls `run` as `Kernel::time` says and times each call by the steady clock.
llvm::Expected<Timing> timeRepeated(llvm::function_ref<llvm::Error()> run,
                                    int64_t runs);

/// The same where `run` itself says how many seconds it took. Without a number
/// of runs, at least `fewest`.
llvm::Expected<Timing>
repeatTimed(llvm::function_ref<llvm::Expected<double>()> run, int64_t runs,
            int64_t fewest);

} // namespace attn

#endif // ATTN_RUNTIME_KERNEL_H
