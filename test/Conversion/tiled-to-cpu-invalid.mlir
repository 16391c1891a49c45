// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-cpu --verify-diagnostics

func.func @conditional(%q: memref<1x1x8x4xf32>, %k: memref<1x1x8x4xf32>, %v: memref<1x1x8x4xf32>, %o: memref<1x1x8x4xf32>) {
  // expected-error@+1 {{expects an exact or stale softmax to map to a CPU, got "conditional"; state softmax = "stale" in the tiling}}
  attn.attention %q, %k, %v target(#attn.target<name = "cpu:test">) tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "conditional">)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>
  return
}
