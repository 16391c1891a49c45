//===- VulkanKernel.h - Kernels on a Vulkan device --------------*- C++ -*-===//

#ifndef ATTN_RUNTIME_VULKAN_VULKANKERNEL_H
#define ATTN_RUNTIME_VULKAN_VULKANKERNEL_H

#include "attn/Runtime/Kernel.h"

namespace attn {

/// Makes a pipeline of a SPIR-V module. The loader is opened now:
/// libvulkan.so.1, or what the environment's ATTN_LIBVULKAN names. Of the
/// devices that run the code a discrete GPU is preferred, then an integrated
/// one; ATTN_VULKAN_DEVICE chooses by number or by a part of the name.
llvm::Expected<std::unique_ptr<Kernel>>
loadVulkanKernel(const Artifact &artifact);

} // namespace attn

#endif // ATTN_RUNTIME_VULKAN_VULKANKERNEL_H
