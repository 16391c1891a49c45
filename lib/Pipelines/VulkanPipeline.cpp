//===- VulkanPipeline.cpp - From the tiled form to SPIR-V -----------------===//

#include "attn/Conversion/Passes.h"
#include "attn/Pipelines/Pipelines.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/Dialect/SPIRV/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

/// Each mapping takes the tiles that were planned for its product.
void attn::addPassesToMappedVulkan(OpPassManager &pm) {
  pm.addPass(createTiledToCoopMatrix());
  pm.addPass(createTiledToSPIRV());
  pm.addPass(createGradientsToSPIRV());
  pm.addPass(createCSEPass());
}

void attn::addPassesToSpirv(OpPassManager &pm) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  // Loads and stores then name the arguments themselves.
  kernels.addPass(memref::createFoldMemRefAliasOpsPass());
  kernels.addPass(memref::createExpandStridedMetadataPass());
  kernels.addPass(createLowerAffinePass());
  // What is computed in f16 or bf16 is computed in f32 and rounded.
  kernels.addPass(math::createMathExtendToSupportedTypes());
  kernels.addPass(createMathToSpirv());
  arith::ArithEmulateUnsupportedFloatsOptions floats;
  floats.sourceTypeStrs = {"f16", "bf16"};
  floats.targetTypeStr = "f32";
  kernels.addPass(arith::createArithEmulateUnsupportedFloats(floats));
  kernels.addPass(arith::createArithExpandOpsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  pm.addPass(createMappedToSPIRV());
  OpPassManager &modules = pm.nest<spirv::ModuleOp>();
  modules.addPass(createCSEPass());
  modules.addPass(spirv::createSPIRVLowerABIAttributesPass());
  modules.addPass(spirv::createSPIRVUpdateVCEPass());
}

void attn::buildAttnToVulkanPipeline(OpPassManager &pm,
                                     const PipelineOptions &options) {
  buildAttnToTiledPipeline(pm, options);
  addPassesToMappedVulkan(pm);
  addPassesToSpirv(pm);
}
