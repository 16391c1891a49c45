//===- Artifact.h - Code and how to launch it -------------------*- C++ -*-===//
//
// An artifact is two files side by side: OUT, the code as a linker or driver
// takes it, and OUT.json, the launch description.
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

  llvm::Error save(llvm::StringRef path) const;
  static llvm::Expected<Artifact> load(llvm::StringRef path);
};

} // namespace attn

#endif // ATTN_ARTIFACT_ARTIFACT_H
