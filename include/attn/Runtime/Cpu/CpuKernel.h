//===- CpuKernel.h - Kernels on the host's processor ------------*- C++ -*-===//

#ifndef ATTN_RUNTIME_CPU_CPUKERNEL_H
#define ATTN_RUNTIME_CPU_CPUKERNEL_H

#include "attn/Runtime/Kernel.h"

namespace attn {

/// Links the relocatable object of `artifact` into this process.
llvm::Expected<std::unique_ptr<Kernel>> loadCpuKernel(const Artifact &artifact);

/// Whether this process may run code built for `launch`: the architecture, the
/// processor's features, and the kernel's permission where code needs one.
llvm::Error checkHostRuns(const LaunchDescription &launch);

} // namespace attn

#endif // ATTN_RUNTIME_CPU_CPUKERNEL_H
