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

#endif // ATTN_CONVERSION_PASSES
