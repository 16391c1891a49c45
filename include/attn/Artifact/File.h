//===- File.h - Whole files, written whole ----------------------*- C++ -*-===//

#ifndef ATTN_ARTIFACT_FILE_H
#define ATTN_ARTIFACT_FILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace attn {

/// The bytes of `path` ("-" is standard input), or a one-line error.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readFile(llvm::StringRef path);

/// Writes `parts`, one after the other, to `path` ("-" is standard output). A
/// reader sees the old file or the whole new one: the bytes go to a temporary
/// file beside it, which is then renamed. Pipes and devices are written to
/// directly.
llvm::Error writeFile(llvm::StringRef path,
                      llvm::ArrayRef<llvm::StringRef> parts);

} // namespace attn

#endif // ATTN_ARTIFACT_FILE_H
