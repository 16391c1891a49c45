// RUN: not attn-opt %s --split-input-file --attn-tile --attn-gradients-to-mma 2>&1 | FileCheck %s

// What the pass is not for is said in one line.

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot map gradients to warps: expected query_gradient = "recomputed"
func.func @accumulated(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 4, product = "mma", query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xf32>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot map gradients to warps: expected elements of f16 or bf16 for product = "mma"
func.func @narrow(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 4, product = "mma", query_gradient = "recomputed">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot map gradients to warps: expected elements of f32 or f64 for product = "fma"
func.func @wide(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 4, product = "fma", query_gradient = "recomputed">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot map gradients to warps: expected a block_query and a block_key that are multiples of 16
func.func @sizes(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 24, block_key = 64, groups = 4, product = "mma", query_gradient = "recomputed">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot map gradients to warps: expected groups of block_key / 16, or that times a power of two
func.func @groups(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 3, product = "mma", query_gradient = "recomputed">)
    : !t, !t, !t, !t, !l, !t
  return
}
