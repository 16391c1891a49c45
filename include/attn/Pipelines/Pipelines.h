//===- Pipelines.h - The passes of each stage, in order ---------*- C++ -*-===//
//
// A stage is a word of --emit. Each function below adds the passes that lead
// from the stage before to the one it is named after; the pipelines are these
// in a row. No pass is named anywhere else.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PIPELINES_PIPELINES_H
#define ATTN_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace attn {

struct PipelineOptions : public mlir::PassPipelineOptions<PipelineOptions> {
  PassOptions::Option<std::string> target{
      *this, "target",
      llvm::cl::desc("name of a known target; ops that carry #attn.target keep "
                     "theirs"),
      llvm::cl::init("cpu")};
};

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// input -> attn: attention in its shortest form.
void addPassesToAttn(mlir::OpPassManager &pm);
/// attn -> configured: #attn.target and #attn.tiling on each op, and a second
/// function where only a launch knows whether the first can take its operands.
void addPassesToConfigured(mlir::OpPassManager &pm, std::string target);
/// configured -> tiled: buffers for tensors, results as trailing arguments,
/// then the loop nest.
void addPassesToTiled(mlir::OpPassManager &pm);
/// tiled -> mapped, on a CPU: vectors, scratch and threads.
void addPassesToMappedCpu(mlir::OpPassManager &pm);
/// mapped -> llvm, on a CPU: MLIR's LLVM dialect, by upstream conversions.
void addPassesToLlvmCpu(mlir::OpPassManager &pm);
/// tiled -> mapped, on an NVIDIA GPU: a gpu.module with the kernel, as
/// attn/IR/MappedKernel.h describes it.
void addPassesToMappedCuda(mlir::OpPassManager &pm);
/// mapped -> llvm, on an NVIDIA GPU: LLVM and NVVM dialects in the gpu.module.
void addPassesToLlvmCuda(mlir::OpPassManager &pm);
/// tiled -> mapped, on a Vulkan device: a gpu.module with the kernel, as
/// attn/IR/MappedKernel.h describes it.
void addPassesToMappedVulkan(mlir::OpPassManager &pm);
/// mapped -> spirv: a spirv.module that can be serialised.
void addPassesToSpirv(mlir::OpPassManager &pm);

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// attn-to-tiled: input to tiled.
void buildAttnToTiledPipeline(mlir::OpPassManager &pm,
                              const PipelineOptions &options);
/// attn-to-cpu: input to llvm.
void buildAttnToCpuPipeline(mlir::OpPassManager &pm,
                            const PipelineOptions &options);
/// attn-to-cuda: input to llvm.
void buildAttnToCudaPipeline(mlir::OpPassManager &pm,
                             const PipelineOptions &options);

/// attn-to-vulkan: input to spirv.
void buildAttnToVulkanPipeline(mlir::OpPassManager &pm,
                               const PipelineOptions &options);

} // namespace attn

#endif // ATTN_PIPELINES_PIPELINES_H
