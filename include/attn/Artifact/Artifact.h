//===- Artifact.h - Code and how to launch it -------------------*- C++ -*-===//
//
// An artifact is two files side by side: OUT, the code as a linker or driver
// takes it, and OUT.json, the launch description. Where an assembler was asked,
// what it says is in a third, OUT.log, which nothing reads.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ARTIFACT_ARTIFACT_H
#define ATTN_ARTIFACT_ARTIFACT_H

#include "attn/Artifact/LaunchDescription.h"
#include <string>

namespace attn {

struct Artifact {
  LaunchDescription launch;
  std::string code;
  /// Registers, spills and warnings, in the assembler's words; may be empty.
  std::string report = "";

  llvm::Error save(llvm::StringRef path) const;
  static llvm::Expected<Artifact> load(llvm::StringRef path);
};

} // namespace attn

#endif // ATTN_ARTIFACT_ARTIFACT_H
