// RUN: not attn-opt %s --split-input-file --attn-tile --attn-gradients-to-hopper 2>&1 | FileCheck %s

// What the pass is not for is said in one line.

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot use wgmma: expected two groups, and of an accumulated query gradient block_key = 128
func.func @sizes(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 96, groups = 2, product = "wgmma", query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// Dealing with whole blocks that masks hide is not written yet.
// CHECK: 'scf.forall' op cannot use wgmma: expected no mask but lengths and bands
func.func @mask(%q: !t, %l: !l, %m: memref<64x64xi1>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q mask(%m : memref<64x64xi1>) outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 128, groups = 2, product = "wgmma", query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xbf16>
!l = memref<1x1x64xf32>

// CHECK: 'attn.attention_backward' op wants gradients of a bias or of captures
func.func @bias(%q: !t, %l: !l, %s: memref<64x64xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q bias(%s : memref<64x64xf32>) gradients(bias) outs(%q, %q, %q, %s : !t, !t, !t, memref<64x64xf32>)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 128, groups = 2, product = "wgmma", query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}

// -----

!t = memref<1x1x64x64xf32>
!l = memref<1x1x64xf32>

// CHECK: 'scf.forall' op cannot use wgmma: expected elements of f16 or bf16
func.func @f32(%q: !t, %l: !l) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 128, groups = 2, product = "wgmma", query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}
