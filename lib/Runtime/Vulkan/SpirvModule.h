//===- SpirvModule.h - What a runtime reads of SPIR-V -----------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_SPIRVMODULE_H
#define ATTN_LIB_RUNTIME_VULKAN_SPIRVMODULE_H

#include "attn/Artifact/Artifact.h"

namespace attn::vulkan {

/// The words of the module, once it is whole and has the entry point and the
/// local size that the description speaks of: drivers look at none of it.
llvm::Expected<std::vector<uint32_t>> readModule(const Artifact &artifact);

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_SPIRVMODULE_H
