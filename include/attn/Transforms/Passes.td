//===- Passes.td - Passes from attn to the tiled form ------*- tablegen -*-===//

#ifndef ATTN_TRANSFORMS_PASSES
#define ATTN_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def SelectTiling : Pass<"attn-select-tiling"> {
  let summary = "choose the target and the tile sizes of each attention op";
  let description = [{
    Puts `#attn.target` and `#attn.tiling` on every attention op, forward or backward, that has none. This is the
    pass that decides sizes; every later pass reads the attributes.
  }];
  let options = [
    Option<"targetName", "target", "std::string", "\"cpu\"",
           "name of a known target, see --list-targets">
  ];
  let dependentDialects = ["::attn::AttnDialect"];
}

def AddFallback : Pass<"attn-add-fallback", "::mlir::ModuleOp"> {
  let summary = "add a function for operands that no tensor map describes";
  let description = [{
    Tensor maps, by which TMA copies tiles on Hopper, take addresses and strides that are multiples
    of 16 bytes. A function whose tiles come by them, and whose types leave strides or an offset open,
    gets a neighbour of the same arguments that is planned without them:

    ```mlir
    func.func @f(%q: memref<1x8x?x64xf16, strided<[?, ?, ?, 1], offset: ?>>, ...)
    func.func @f_fallback(...) attributes {attn.fallback = @f}
    ```

    Both become kernels of one artifact, and the launch chooses.
  }];
  let dependentDialects = ["::attn::AttnDialect"];
}

def Differentiate : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "give functions of attention their gradients";
  let description = [{
    A function of one attention op that is marked `attn.differentiate` is made to return the lse as
    well, and gets a neighbour that takes its inputs, its results and the gradient of its output:

    ```mlir
    func.func @f(%q, %k, %v) -> output attributes {attn.differentiate}

    func.func @f(%q, %k, %v) -> (output, lse)
    func.func @f_grad(%q, %k, %v, %output, %lse, %output_gradient)
        -> (query gradient, key gradient, value gradient)
    ```

    There is a gradient for each float argument that the result depends on: query, key, value, bias,
    sinks and captures of score_mod, in the order of the arguments; `attn.no_gradient` on an argument
    leaves it out. Where @f returns the lse already, its gradient is one more argument.

    An op marked `attn.differentiate` in another function is made to return its lse.
    `attn/Transforms/Differentiate.h` builds the backward op of an op.
  }];
  let options = [
    Option<"entry", "entry", "std::string", "\"\"",
           "name of a function to differentiate though it is not marked">,
    Option<"deterministic", "deterministic", "bool", "false",
           "ask for gradients of equal bits for equal inputs">
  ];
  let dependentDialects = [
    "::attn::AttnDialect", "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"
  ];
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
    inner loop. `attn.attention_backward` becomes loops over key/value blocks for the gradients of
    key and value, and over query blocks for that of the query; each computes the scores again. The
    op must carry `#attn.tiling`.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // ATTN_TRANSFORMS_PASSES
