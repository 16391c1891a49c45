//===- Stage.h - The stages of the road -------------------------*- C++ -*-===//

#ifndef ATTN_COMPILER_STAGE_H
#define ATTN_COMPILER_STAGE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace attn {

/// What the IR is, in the order that it goes through; a word of --emit each.
/// Code of a CPU is Asm or Obj, of an NVIDIA GPU Ptx or Cubin, of a Vulkan
/// device Spv, in front of which Spirv takes the place of Llvm.
enum class Stage {
  Input,
  Attn,
  Configured,
  Tiled,
  Mapped,
  Llvm,
  Spirv,
  Asm,
  Obj,
  Ptx,
  Cubin,
  Spv
};

inline bool isCode(Stage stage) { return stage > Stage::Spirv; }

llvm::StringRef stageName(Stage stage);
/// The error names all stages.
llvm::Expected<Stage> parseStage(llvm::StringRef name);

} // namespace attn

#endif // ATTN_COMPILER_STAGE_H
