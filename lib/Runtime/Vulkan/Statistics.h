//===- Statistics.h - What a driver says of a pipeline ----------*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_VULKAN_STATISTICS_H
#define ATTN_LIB_RUNTIME_VULKAN_STATISTICS_H

#include "Device.h"

namespace attn::vulkan {

/// Whether ATTN_VULKAN_STATISTICS is 1 and the driver has something to say. A
/// pipeline has to be made for it, with the flag of capturing statistics.
bool wantsStatistics(const Device &device);
/// Registers, spills and the like on the error stream, a line an executable.
void printStatistics(const Device &device, VkPipeline pipeline,
                     llvm::StringRef name);

} // namespace attn::vulkan

#endif // ATTN_LIB_RUNTIME_VULKAN_STATISTICS_H
