//===- Requirements.h - Whether a device runs a kernel ----------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_REQUIREMENTS_H
#define ATTN_LIB_RUNTIME_VULKAN_REQUIREMENTS_H

#include "PhysicalDevice.h"
#include "attn/Artifact/LaunchDescription.h"

namespace attn::vulkan {

/// Success, or what `device` lacks for `launch` and what would do instead.
/// Sizes that a launch chooses are not looked at.
llvm::Error checkRuns(const PhysicalDevice &device,
                      const LaunchDescription &launch);

/// A formula without names.
llvm::Expected<int64_t> constantSize(llvm::StringRef expression);

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_REQUIREMENTS_H
