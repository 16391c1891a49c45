// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-mma --verify-diagnostics

#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @product(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map tiles to warps: expected elements of f16 or bf16 for product = "mma"}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "mma">)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @narrow(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>) {
  // expected-error @+1 {{cannot map tiles to warps: expected elements of f32 or f64 for product = "fma"}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "fma">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}

// -----

#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @rows(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>) {
  // expected-error @+1 {{expected block_query = 16 * groups, or a multiple or a whole part of it in steps of 16}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 24, block_key = 16, product = "mma">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}

// -----

#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @keys(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>) {
  // expected-error @+1 {{expected a block_key that is a multiple of 16, or of 8 for product = "fma"}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 8, product = "mma">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}
