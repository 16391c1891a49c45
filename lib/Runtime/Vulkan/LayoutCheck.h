//===- LayoutCheck.h - Do matrices lie as a kernel expects? -----*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_LAYOUTCHECK_H
#define ATTN_LIB_RUNTIME_VULKAN_LAYOUTCHECK_H

#include "Pipeline.h"

namespace attn::vulkan {

/// Runs the entry `launch.layoutCheck` of the module `code`, or reads what it
/// answered to an earlier process: a file beside the pipeline cache.
llvm::Expected<bool> askLayout(const Device &device,
                               const LaunchDescription &launch,
                               llvm::ArrayRef<uint32_t> code);

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_LAYOUTCHECK_H
