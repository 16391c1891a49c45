//===- SpirvBinary.cpp - A SPIR-V module as code --------------------------===//

#include "SpirvBinary.h"
#include "mlir/Target/SPIRV/Serialization.h"

using namespace mlir;

void attn::completeCapabilities(spirv::ModuleOp module) {
  std::optional<spirv::VerCapExtAttr> triple = module.getVceTriple();
  if (!triple)
    return;
  SmallVector<spirv::Capability> capabilities(triple->getCapabilities());
  auto has = [&](spirv::Capability capability) {
    return llvm::is_contained(capabilities, capability);
  };
  constexpr auto kMatrices = spirv::Capability::BFloat16CooperativeMatrixKHR;
  if (!has(spirv::Capability::BFloat16TypeKHR) ||
      !has(spirv::Capability::CooperativeMatrixKHR) || has(kMatrices))
    return;
  capabilities.push_back(kMatrices);
  SmallVector<spirv::Extension> extensions(triple->getExtensions());
  module.setVceTripleAttr(spirv::VerCapExtAttr::get(
      triple->getVersion(), capabilities, extensions, module.getContext()));
}

llvm::Expected<std::string> attn::serializeSpirv(spirv::ModuleOp module) {
  SmallVector<uint32_t, 0> words;
  if (failed(spirv::serialize(module, words)))
    return llvm::createStringError("the module does not serialise to SPIR-V");
  return std::string(reinterpret_cast<const char *>(words.data()),
                     words.size() * sizeof(uint32_t));
}

std::string attn::deviceFeatures(spirv::ModuleOp module) {
  std::string names;
  if (std::optional<spirv::VerCapExtAttr> triple = module.getVceTriple())
    for (spirv::Capability capability : triple->getCapabilities()) {
      if (capability == spirv::Capability::Shader ||
          capability == spirv::Capability::Matrix)
        continue;
      names += names.empty() ? "" : ",";
      names += stringifyCapability(capability);
    }
  return names;
}
