//===- Passes.td - Passes from attn to the tiled form ------*- tablegen -*-===//

#ifndef ATTN_TRANSFORMS_PASSES
#define ATTN_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def SelectTiling : Pass<"attn-select-tiling"> {
  let summary = "choose the target and the tile sizes of each attention op";
  let description = [{
    Puts `#attn.target` and `#attn.tiling` on every `attn.attention` that has none. This is the only
    pass that decides sizes; every later pass reads the attributes.
  }];
  let options = [
    Option<"targetName", "target", "std::string", "\"cpu\"",
           "name of a known target, see --list-targets">
  ];
  let dependentDialects = ["::attn::AttnDialect"];
}

def SeparateResults : Pass<"attn-separate-results"> {
  let summary = "give each result of a function a buffer of its own";
  let description = [{
    A buffer that a function returns more than once is copied for the second result and those
    after it. `buffer-results-to-out-params` makes one argument of each result, and expects each
    to have been allocated for itself.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
}

def Tile : Pass<"attn-tile"> {
  let summary = "expand attention to the online-softmax loop nest";
  let description = [{
    Replaces the memref form of `attn.attention` by the tiled form: loops of upstream ops over
    query blocks and key/value blocks, with row maximum, row sum and accumulator carried by the
    inner loop. The op must carry `#attn.tiling`.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // ATTN_TRANSFORMS_PASSES
