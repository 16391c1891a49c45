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

def TiledToCoopMatrix : Pass<"attn-tiled-to-coop-matrix", "::mlir::ModuleOp"> {
  let summary = "map the tiled form to subgroups with cooperative matrices";
  let description = [{
    The function around a task loop becomes a `gpu.func`: a workgroup a task, whose subgroups own
    rows, share the key/value blocks in shared memory and multiply by SPV_KHR_cooperative_matrix.
    Takes every form whose tiling has the product "coopmat", and leaves the others alone. The
    attribute `attn.launch` of the kernel says how to launch it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::spirv::SPIRVDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def GradientsToCPU : Pass<"attn-gradients-to-cpu"> {
  let summary = "map the task loops of the gradients to threads";
  let description = [{
    The task loops of `attn.attention_backward` become OpenMP loops over tasks, whose products are
    loops around register tiles over scratch. Tasks that add to the gradient of a bias or capture,
    or ask a mask whether it shows anything of a block, keep their tiles as vectors, which
    upstream's lowerings cut into registers; the planner keeps them small enough for that. Loops
    that fill memory become loops of one thread.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
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

def GradientsToHopper : Pass<"attn-gradients-to-hopper", "::mlir::ModuleOp"> {
  let summary = "map the tiled form of the gradients to TMA and wgmma kernels";
  let description = [{
    A function of gradients whose tiling has the product "wgmma" becomes three kernels, which are
    launched in their order: delta and zeros; dK, dV and, where it is accumulated or ordered, the parts
    of dQ, added up in a workspace; dQ. The attribute `attn.launch` of each says how to launch it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def TiledToMMA : Pass<"attn-tiled-to-mma", "::mlir::ModuleOp"> {
  let summary = "map the tiled form to warps with mma.sync or multiply-adds";
  let description = [{
    The function around a task loop becomes a `gpu.func`: a block of threads a task, whose warps own
    rows and share the key/value blocks in shared memory. Takes every form whose tiling has the
    product "mma" or "fma", and leaves the others alone. The attribute `attn.launch` of the kernel
    says how to launch it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def GradientsToMMA : Pass<"attn-gradients-to-mma", "::mlir::ModuleOp"> {
  let summary = "map the tiled form of the gradients to warps with mma.sync or multiply-adds";
  let description = [{
    A function of gradients whose tiling has the product "mma" or "fma" becomes kernels that are
    launched in their order: zeros for what pairs add to; delta of the rows; dK and dV; dQ, with the
    gradients of bias and captures; the gradients of sinks. Takes every form with
    `query_gradient = "recomputed"`, and leaves functions for another product alone. The attribute
    `attn.launch` of each kernel says how to launch it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def TiledToSPIRV : Pass<"attn-tiled-to-spirv", "::mlir::ModuleOp"> {
  let summary = "map the tiled form to the workgroups of a Vulkan device";
  let description = [{
    The function around a task loop becomes a `gpu.func`: a workgroup a task, whose threads own a few
    rows and columns each and meet in shared memory. Takes every form whose tiling has the product
    "fma", and leaves the others alone. The attribute `attn.launch` of the kernel says how to launch
    it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def GradientsToSPIRV : Pass<"attn-gradients-to-spirv", "::mlir::ModuleOp"> {
  let summary = "map the tiled form of the gradients to the workgroups of a Vulkan device";
  let description = [{
    A function of gradients whose tiling has the product "fma" becomes a `gpu.func` for each of its
    task loops, which are launched in their order and share a workspace: delta; dK and dV; zeros; dQ
    and the gradients that pairs add to; sinks. The attribute `attn.launch` of each says how to launch
    it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
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

def MathToPtx : Pass<"attn-math-to-ptx"> {
  let summary = "mathematical functions as PTX's approximations and polynomials";
  let description = [{
    Upstream's way to the functions that have no instruction is a call of CUDA's libdevice, which
    is not there without CUDA. `afn` on an op asks for the fastest form.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def MathToSpirv : Pass<"attn-math-to-spirv"> {
  let summary = "mathematical functions as arithmetic that any Vulkan device does exactly enough";
  let description = [{
    What Vulkan promises of the functions of GLSL.std.450 is too little for a softmax. They become
    polynomials and other arithmetic; what is exact there stays.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def MappedToSPIRV : Pass<"attn-mapped-to-spirv", "::mlir::ModuleOp"> {
  let summary = "a mapped kernel as a module of SPIR-V";
  let description = [{
    Arguments become storage buffers, open sizes and strides push constants (or one more buffer),
    workgroup memory variables; the rest is upstream's conversions. f16, bf16, i8 and i1 are taken
    out of 32-bit words, so that a kernel needs nothing beyond Vulkan 1.1.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::spirv::SPIRVDialect", "::mlir::vector::VectorDialect"
  ];
}

def LowerVectors : Pass<"attn-lower-vectors"> {
  let summary = "vector ops as those that have a counterpart in LLVM";
  let description = [{
    What convert-vector-to-llvm does before it converts. convert-gpu-to-nvvm, which knows the memory
    spaces of a GPU, converts the rest.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def AnnotatePtxKernel : Pass<"attn-annotate-ptx-kernel", "::mlir::gpu::GPUModuleOp"> {
  let summary = "threads of a block and tensor maps of a kernel, from attn.launch";
  let description = [{
    Makes of attn.launch the attributes of an llvm.func that LLVM's PTX back end reads.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

#endif // ATTN_CONVERSION_PASSES
