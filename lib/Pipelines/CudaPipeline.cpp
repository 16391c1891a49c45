//===- CudaPipeline.cpp - From the tiled form to LLVM on an NVIDIA GPU ----===//

#include "attn/Conversion/Passes.h"
#include "attn/Pipelines/Pipelines.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

/// Each mapping takes the tiles that were planned for its product.
void attn::addPassesToMappedCuda(OpPassManager &pm) {
  pm.addPass(createTiledToMMA());
  pm.addPass(createGradientsToMMA());
  pm.addPass(createTiledToHopper());
  pm.addPass(createGradientsToHopper());
  pm.addPass(createCSEPass());
}

void attn::addPassesToLlvmCuda(OpPassManager &pm) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  VectorTransferToSCFOptions transfers;
  transfers.enableFullUnroll();
  kernels.addPass(createConvertVectorToSCFPass(transfers));
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(memref::createExpandStridedMetadataPass());
  // Not arith-expand: it makes comparisons and selects of one max.f32.
  kernels.addPass(createLowerAffinePass());
  // Before convert-gpu-to-nvvm, which would call libdevice.
  kernels.addPass(createMathToPtx());
  // Not convert-vector-to-llvm: it knows no memory spaces.
  kernels.addPass(createLowerVectors());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createAnnotatePtxKernel());
  kernels.addPass(createConvertNVVMToLLVMPass());
  kernels.addPass(createConvertIndexToLLVMPass());
  kernels.addPass(createUBToLLVMConversionPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCSEPass());
}

void attn::buildAttnToCudaPipeline(OpPassManager &pm,
                                   const PipelineOptions &options) {
  buildAttnToTiledPipeline(pm, options);
  addPassesToMappedCuda(pm);
  addPassesToLlvmCuda(pm);
}
