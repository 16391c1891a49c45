// RUN: not attn-opt %s --split-input-file --attn-tile --attn-tiled-to-hopper 2>&1 | FileCheck %s

// What the pass is not for is said in one line; the planner gives it to warps.

// CHECK: 'scf.forall' op cannot use wgmma: expected block_query = 64 * groups
func.func @rows(%q: memref<1x1x64x64xbf16>, %o: memref<1x1x64x64xbf16>) {
  attn.attention %q, %q, %q
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 32, groups = 2, product = "wgmma">)
    outs(%o : memref<1x1x64x64xbf16>) : memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>
  return
}

// -----

// CHECK: 'scf.forall' op cannot use wgmma: expected a block_key that is a multiple of 16, at most 256
func.func @keys(%q: memref<1x1x64x64xbf16>, %o: memref<1x1x64x64xbf16>) {
  attn.attention %q, %q, %q
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 40, product = "wgmma">)
    outs(%o : memref<1x1x64x64xbf16>) : memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>
  return
}

// -----

// CHECK: 'scf.forall' op cannot use wgmma: expected no mask but lengths, bands and segments
func.func @elements(%q: memref<1x1x64x64xbf16>, %m: memref<64x64xi1>, %o: memref<1x1x64x64xbf16>) {
  attn.attention %q, %q, %q mask(%m : memref<64x64xi1>)
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 32, product = "wgmma">)
    outs(%o : memref<1x1x64x64xbf16>) : memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>
  return
}

// -----

// CHECK: stands beside the attention, and a GPU kernel is the attention alone; move it to a function of its own
func.func @two(%q: memref<1x1x64x64xbf16>, %o: memref<1x1x64x64xbf16>) {
  attn.attention %q, %q, %q
    target(#attn.target<name = "mine", family = "cuda">)
    tiling(#attn.tiling<block_query = 64, block_key = 32, product = "wgmma">)
    outs(%o : memref<1x1x64x64xbf16>) : memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>, memref<1x1x64x64xbf16>
  memref.copy %o, %q : memref<1x1x64x64xbf16> to memref<1x1x64x64xbf16>
  return
}
