//===- Registration.cpp - All of attn, registered in one place ------------===//

#include "attn/Pipelines/Registration.h"
#include "attn/Conversion/Passes.h"
#include "attn/IR/Attn.h"
#include "attn/Pipelines/Pipelines.h"
#include "attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Transforms/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

void attn::registerAttnDialects(mlir::DialectRegistry &registry) {
  registry.insert<AttnDialect>();
  registerBufferizableOpInterfaceExternalModels(registry);
}

void attn::registerAttnPasses() {
  registerAttnTransformsPasses();
  registerAttnConversionPasses();
  mlir::PassPipelineRegistration<PipelineOptions>(
      "attn-to-tiled",
      "attention to the tiled form: choose sizes, bufferize, expand to the "
      "online-softmax loop nest",
      buildAttnToTiledPipeline);
  mlir::PassPipelineRegistration<PipelineOptions>(
      "attn-to-cpu",
      "attention to the LLVM dialect for a CPU, by way of attn-to-tiled",
      buildAttnToCpuPipeline);
  mlir::PassPipelineRegistration<PipelineOptions>(
      "attn-to-cuda",
      "attention to the LLVM and NVVM dialects for an NVIDIA GPU, by way of "
      "attn-to-tiled; the target is one of CUDA's",
      buildAttnToCudaPipeline);
  mlir::PassPipelineRegistration<PipelineOptions>(
      "attn-to-vulkan",
      "attention to a SPIR-V module for a Vulkan device, by way of "
      "attn-to-tiled; the target is one of Vulkan's",
      buildAttnToVulkanPipeline);
  mlir::PassPipelineRegistration<>(
      "attn-mapped-to-ptx-llvm",
      "a mapped kernel for an NVIDIA GPU to the LLVM and NVVM dialects",
      addPassesToLlvmCuda);
  mlir::PassPipelineRegistration<>(
      "attn-mapped-to-spirv-module",
      "a mapped kernel for a Vulkan device to a SPIR-V module",
      addPassesToSpirv);
}
