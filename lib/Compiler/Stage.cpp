//===- Stage.cpp - The stages of the road ---------------------------------===//

#include "attn/Compiler/Stage.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"

using namespace attn;

static constexpr llvm::StringLiteral kNames[] = {
    "input", "attn", "configured", "tiled", "mapped", "llvm",
    "spirv", "asm",  "obj",        "ptx",   "cubin",  "spv"};

llvm::StringRef attn::stageName(Stage stage) {
  return kNames[static_cast<unsigned>(stage)];
}

llvm::Expected<Stage> attn::parseStage(llvm::StringRef name) {
  for (auto [index, known] : llvm::enumerate(kNames))
    if (name == known)
      return static_cast<Stage>(index);
  return llvm::createStringError("unknown stage '" + name + "'; expected " +
                                 llvm::join(llvm::ArrayRef(kNames), ", "));
}
