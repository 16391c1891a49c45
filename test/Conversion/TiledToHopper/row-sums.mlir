// RUN: attn-opt %s --attn-tile --cse --attn-tiled-to-hopper --canonicalize --cse | FileCheck %s

// Under a raised reference row sums are a product: a tile of ones (bf16, two a
// word) lies behind the values, and P V has eight columns more.

// CHECK-LABEL: gpu.func @sums
// CHECK-SAME:     shared_memory = 60416
// CHECK:          st.shared.v4.b32 [$0], {$1, $1, $1, $1};
// CHECK:          nvvm.fence.proxy
// CHECK:          nvvm.barrier0
// A block adds nothing up: the bits of P, joined, tell whether one exceeds 1.
// CHECK:          scf.for
// CHECK:          scf.for
// CHECK:          wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16
// CHECK:          math.exp2
// CHECK-NOT:      arith.addf
// CHECK:          cvt.rn.bf16x2.f32
// CHECK-NOT:      arith.addf
// CHECK:          %[[ROW:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK:          arith.cmpf uge, %[[ROW]], %{{.*}} : f32
// CHECK:          nvvm.vote.sync any
func.func @sums(%q: memref<1x2x512x64xbf16>, %k: memref<1x2x512x64xbf16>, %v: memref<1x2x512x64xbf16>, %o: memref<1x2x512x64xbf16>) {
  attn.attention %q, %k, %v
    target(#attn.target<name = "mine", family = "cuda", arch = "sm_90a", compute_units = 132>)
    tiling(#attn.tiling<block_query = 128, block_key = 32, stages = 3, query_stages = 2, groups = 2, product = "wgmma", softmax = "raised">)
    outs(%o : memref<1x2x512x64xbf16>)
    : memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>
  return
}

// Values of two chunks: the second one has the ones beside it.
// CHECK-LABEL: gpu.func @wide
// CHECK:          wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-SAME:     wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16
func.func @wide(%q: memref<1x2x512x128xbf16>, %k: memref<1x2x512x128xbf16>, %v: memref<1x2x512x128xbf16>, %o: memref<1x2x512x128xbf16>) {
  attn.attention %q, %k, %v
    target(#attn.target<name = "mine", family = "cuda", arch = "sm_90a", compute_units = 132>)
    tiling(#attn.tiling<block_query = 128, block_key = 32, stages = 2, query_stages = 2, groups = 2, product = "wgmma", softmax = "raised">)
    outs(%o : memref<1x2x512x128xbf16>)
    : memref<1x2x512x128xbf16>, memref<1x2x512x128xbf16>, memref<1x2x512x128xbf16>
  return
}
