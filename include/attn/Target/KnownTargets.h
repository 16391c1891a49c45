//===- KnownTargets.h - Chips by name ---------------------------*- C++ -*-===//
//
// The names that --target takes and the numbers behind them: plain tables, one
// file per vendor in lib/Target, each number with its public source.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_KNOWNTARGETS_H
#define ATTN_TARGET_KNOWNTARGETS_H

#include "attn/IR/TargetDescription.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace attn {

/// The chip of that name; "cpu" is the host, read anew at each call. The error
/// for an unknown name is one line with the nearest name and all known ones.
llvm::Expected<TargetDescription> lookupTarget(llvm::StringRef name);

/// Every known chip, the host first, in the order of --list-targets.
std::vector<TargetDescription> listTargets();

/// The machine that this runs on.
TargetDescription detectHostTarget();

} // namespace attn

#endif // ATTN_TARGET_KNOWNTARGETS_H
