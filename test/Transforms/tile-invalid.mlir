// RUN: attn-opt %s --split-input-file --attn-tile --verify-diagnostics

func.func @tensors(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x8x4xf32>, %v: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  // expected-error@+1 {{expects the memref form to tile, got tensors; run one-shot-bufferize first}}
  %o = attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32> -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}

// -----

func.func @no_tiling(%q: memref<1x1x8x4xf32>, %k: memref<1x1x8x4xf32>, %v: memref<1x1x8x4xf32>, %o: memref<1x1x8x4xf32>) {
  // expected-error@+1 {{expects #attn.tiling to tile; run attn-select-tiling first}}
  attn.attention %q, %k, %v
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @dynamic_head_dimension(%q: memref<1x1x8x?xf32>, %k: memref<1x1x8x?xf32>, %v: memref<1x1x8x4xf32>, %o: memref<1x1x8x4xf32>) {
  // expected-error@+1 {{expects a static head dimension to tile, got ?; state it in the type of one operand}}
  attn.attention %q, %k, %v scale(0.5) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x?xf32>, memref<1x1x8x?xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @dynamic_value_dimension(%q: memref<1x1x8x4xf32>, %k: memref<1x1x8x4xf32>, %v: memref<1x1x8x?xf32>, %o: memref<1x1x8x?xf32>) {
  // expected-error@+1 {{expects a static value dimension to tile, got ?; state it in the type of one operand}}
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x?xf32>) : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x?xf32>
  return
}

// -----

func.func @wide(%q: memref<1x1x8x65537xf32>, %k: memref<1x1x8x65537xf32>, %v: memref<1x1x8x4xf32>, %o: memref<1x1x8x4xf32>) {
  // expected-error@+1 {{expects a head dimension of at most 65536 to tile, got 65537}}
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x65537xf32>, memref<1x1x8x65537xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @raised_f16(%q: memref<1x1x8x4xf16>, %k: memref<1x1x8x4xf16>, %v: memref<1x1x8x4xf16>, %o: memref<1x1x8x4xf16>) {
  // expected-error@+1 {{expects elements of bf16 and no lse, which its rounded sums are nothing for, to tile with softmax = "raised"; state softmax = "stale"}}
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "raised">)
    outs(%o : memref<1x1x8x4xf16>) : memref<1x1x8x4xf16>, memref<1x1x8x4xf16>, memref<1x1x8x4xf16>
  return
}

// -----

func.func @raised_lse(%q: memref<1x1x8x4xbf16>, %k: memref<1x1x8x4xbf16>, %v: memref<1x1x8x4xbf16>, %o: memref<1x1x8x4xbf16>, %l: memref<1x1x8xf32>) {
  // expected-error@+1 {{expects elements of bf16 and no lse}}
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "raised">)
    outs(%o, %l : memref<1x1x8x4xbf16>, memref<1x1x8xf32>) : memref<1x1x8x4xbf16>, memref<1x1x8x4xbf16>, memref<1x1x8x4xbf16>
  return
}

// -----

func.func @uncountable(%q: memref<?x?x9223372036854775807x4xf32>, %k: memref<?x?x8x4xf32>, %o: memref<?x?x9223372036854775807x4xf32>) {
  // expected-error@+1 {{expects operands of fewer than 2^63 bytes to tile, got 'memref<?x?x9223372036854775807x4xf32>'; leave its length open (?) or split the batch}}
  attn.attention %q, %k, %k tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<?x?x9223372036854775807x4xf32>) : memref<?x?x9223372036854775807x4xf32>, memref<?x?x8x4xf32>, memref<?x?x8x4xf32>
  return
}
