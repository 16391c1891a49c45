//===- Passes.td - Conversions out of the tiled form -------*- tablegen -*-===//

#ifndef ATTN_CONVERSION_PASSES
#define ATTN_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def TiledToCPU : Pass<"attn-tiled-to-cpu"> {
  let summary = "map the tiled form to CPU vectors, scratch tiles and threads";
  let description = [{
    Tiles become cache-resident scratch; tile products become loops around a register tile of
    native vectors; the task loop becomes an OpenMP loop.
  }];
  let dependentDialects = [
    "::mlir::amx::AMXDialect", "::mlir::arith::ArithDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::omp::OpenMPDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def TiledToHopper : Pass<"attn-tiled-to-hopper", "::mlir::ModuleOp"> {
  let summary = "map the tiled form to warp-specialised TMA and wgmma kernels";
  let description = [{
    The function around a task loop becomes a `gpu.func`: a producer warpgroup copies tiles by TMA
    into rings of shared memory, consumer warpgroups multiply them by wgmma and keep the softmax in
    registers. The attribute `attn.launch` of the kernel says how to launch it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def MaskBf16AsIntegers : Pass<"attn-mask-bf16-as-integers"> {
  let summary = "masked loads and stores of bf16 vectors as 16-bit integers";
  let description = [{
    LLVM promotes a masked bf16 vector to f32 on chips without bf16 arithmetic, and calls a function
    for each element to round it back. The bits of a load or store do not depend on the type.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // ATTN_CONVERSION_PASSES
