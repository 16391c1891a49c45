//===- Arguments.h - The arguments of a launch ------------------*- C++ -*-===//
//
// What attn-run and attn-launch have in common before a launch: inputs come
// from .npy files or from a seed, sizes that the kernel leaves open come from
// the files or from the command line, and outputs are poisoned.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_ARGUMENTS_H
#define ATTN_RUNTIME_ARGUMENTS_H

#include "attn/Artifact/LaunchDescription.h"
#include "attn/Runtime/HostTensor.h"

namespace attn {

struct ArgumentSources {
  /// Files, each "NAME=FILE" or "FILE"; the latter are taken in the order of
  /// the inputs that no file names.
  std::vector<std::string> inputs;
  /// Sizes that the description leaves open, each "NAME=NUMBER"; a name is one
  /// of the description's, such as Sq.
  std::vector<std::string> sizes;
  /// Without a value, every input needs a file. Argument number a without one
  /// is filled from seed + a * 2^32.
  std::optional<uint64_t> seed;
};

/// One tensor for each argument of the description.
llvm::Expected<std::vector<HostTensor>>
makeArguments(const LaunchDescription &launch, const ArgumentSources &sources);

/// The files that outputs go to, one entry an argument, empty for none. Each
/// of `outputs` is "NAME=FILE", or "FILE" for the first output without one.
llvm::Expected<std::vector<std::string>>
assignOutputFiles(const LaunchDescription &launch,
                  llvm::ArrayRef<std::string> outputs);

/// The sizes that the shapes of `arguments` give to the description's names.
llvm::Expected<SizeMap> bindSizes(const LaunchDescription &launch,
                                  llvm::ArrayRef<HostTensor> arguments);

} // namespace attn

#endif // ATTN_RUNTIME_ARGUMENTS_H
