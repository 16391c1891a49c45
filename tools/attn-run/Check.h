//===- Check.h - A kernel's results against the oracle ----------*- C++ -*-===//

#ifndef ATTN_TOOLS_ATTN_RUN_CHECK_H
#define ATTN_TOOLS_ATTN_RUN_CHECK_H

#include "attn/Artifact/LaunchDescription.h"
#include "attn/Runtime/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn {

/// Compares the outputs among `arguments` with the oracle and returns what was
/// found, in lines. An error when an output is beyond its bound, or has an
/// element that was never written.
///
/// `entry` is the function at stage `attn`. Of a problem that is too large for
/// the naive oracle some rows are checked, one drawn by `seed` from each of as
/// many equal parts.
llvm::Expected<std::string> checkResults(mlir::func::FuncOp entry,
                                         const LaunchDescription &launch,
                                         llvm::ArrayRef<HostTensor> arguments,
                                         uint64_t seed);

} // namespace attn

#endif // ATTN_TOOLS_ATTN_RUN_CHECK_H
