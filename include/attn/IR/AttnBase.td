//===- AttnBase.td - The attn dialect ----------------------*- tablegen -*-===//

#ifndef ATTN_BASE
#define ATTN_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Attn_Dialect : Dialect {
  let name = "attn";
  let cppNamespace = "::attn";
  let summary = "Exact softmax attention, from its meaning to a tiled kernel";
  let description = [{
    One operation, `attn.attention`, says what dense softmax attention
    computes, and `attn.attention_backward` what its gradients are. The passes of this project turn it into a fused, tiled,
    online-softmax loop nest whose tiles fit the on-chip memory of a named
    chip; the score matrix never exists in main memory.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::tensor::TensorDialect"
  ];
  let useDefaultAttributePrinterParser = 1;
  let hasCanonicalizer = 1;
}

#endif // ATTN_BASE
