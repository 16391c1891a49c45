//===- SpirvBinary.h - A SPIR-V module as code ------------------*- C++ -*-===//

#ifndef ATTN_LIB_COMPILER_SPIRVBINARY_H
#define ATTN_LIB_COMPILER_SPIRVBINARY_H

#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "llvm/Support/Error.h"
#include <string>

namespace attn {

/// The words of the module, as bytes.
llvm::Expected<std::string> serializeSpirv(mlir::spirv::ModuleOp module);

/// Capabilities beyond Shader, which every Vulkan device has, by their SPIR-V
/// names with commas between.
std::string deviceFeatures(mlir::spirv::ModuleOp module);

} // namespace attn

#endif // ATTN_LIB_COMPILER_SPIRVBINARY_H
