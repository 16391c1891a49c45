//===- SpirvBinary.h - A SPIR-V module as code ------------------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_SPIRVBINARY_H
#define ATTN_LIB_COMPILER_SPIRVBINARY_H

#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "llvm/Support/Error.h"
#include <string>

namespace attn {

/// Adds to the module's capabilities what spirv-update-vce overlooks: matrices
/// of bf16 are one of their own.
void completeCapabilities(mlir::spirv::ModuleOp module);

/// The words of the module, as bytes.
llvm::Expected<std::string> serializeSpirv(mlir::spirv::ModuleOp module);

/// Capabilities beyond Shader, which every Vulkan device has, by their SPIR-V
/// names with commas between.
std::string deviceFeatures(mlir::spirv::ModuleOp module);

} // namespace attn

#endif // ATTN_LIB_COMPILER_SPIRVBINARY_H
