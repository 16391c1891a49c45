//===- Report.h - What the tools print of a run -----------------*- C++ -*-===//

#ifndef ATTN_RUNTIME_REPORT_H
#define ATTN_RUNTIME_REPORT_H

#include "attn/Runtime/Kernel.h"

namespace attn {

/// "median 1.234 ms, minimum 1.201 ms of 100 runs, 0.213 TFLOP/s, 12.3 GB/s".
/// Arithmetic is that of the description; bytes are those of the arguments,
/// each moved once.
llvm::Expected<std::string> speedText(const LaunchDescription &launch,
                                      llvm::ArrayRef<HostTensor> arguments,
                                      const Timing &timing);

/// The value of --bench, for Kernel::time: how many runs; 0 for "".
llvm::Expected<int64_t> parseRuns(llvm::StringRef text);

} // namespace attn

#endif // ATTN_RUNTIME_REPORT_H
