// RUN: attn-opt %s --attn-select-tiling=target=h200 --attn-add-fallback | FileCheck %s
// RUN: attn-opt %s --attn-select-tiling=target=h200 --attn-add-fallback --attn-add-fallback | FileCheck %s
// RUN: attn-opt %s --attn-select-tiling=target=sm_80 --attn-add-fallback | FileCheck %s --check-prefix=NONE
// RUN: attn-opt %s --attn-select-tiling=target=cpu:avx2 --attn-add-fallback | FileCheck %s --check-prefix=NONE

// Without TMA there is nothing to fall back from.
// NONE-NOT: @open_fallback

!open = memref<2x8x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>

// CHECK-LABEL: func @open(
// CHECK-NOT: attn.fallback
// CHECK: product = "wgmma"
// CHECK-LABEL: func @open_fallback(
// CHECK-SAME: memref<2x8x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
// CHECK-SAME: attributes {attn.fallback = @open}
// CHECK: tiling(#attn.tiling<{{.*}}product = "mma"
func.func @open(%q: !open, %k: !open, %v: !open, %o: !open) {
  attn.attention %q, %k, %v causal outs(%o : !open) : !open, !open, !open
  return
}

// A tiling that was stated stays; what stands in for it is planned.
// CHECK-LABEL: func @stated(
// CHECK: tiling(#attn.tiling<block_query = 64, block_key = 32, product = "wgmma">)
// CHECK-LABEL: func @stated_fallback(
// CHECK: tiling(#attn.tiling<{{.*}}product = "mma"
func.func @stated(%q: !open, %k: !open, %v: !open, %o: !open) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 64, block_key = 32, product = "wgmma">) outs(%o : !open)
    : !open, !open, !open
  return
}

// Strides of tensors, and strides that the types tell, are known to fit.
// CHECK-LABEL: func @tensors(
// CHECK-NOT: fallback
// CHECK-LABEL: func @known(
// CHECK-NOT: fallback
func.func @tensors(%q: tensor<2x8x?x64xbf16>, %k: tensor<2x8x?x64xbf16>) -> tensor<2x8x?x64xbf16> {
  %o = attn.attention %q, %k, %k : tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16>, tensor<2x8x?x64xbf16> -> tensor<2x8x?x64xbf16>
  return %o : tensor<2x8x?x64xbf16>
}

func.func @known(%q: memref<2x8x?x64xbf16>, %o: memref<2x8x?x64xbf16>) {
  attn.attention %q, %q, %q outs(%o : memref<2x8x?x64xbf16>) : memref<2x8x?x64xbf16>, memref<2x8x?x64xbf16>, memref<2x8x?x64xbf16>
  return
}

// What is planned for warps anyway needs no second plan.
// CHECK-LABEL: func @masked(
// CHECK-NOT: fallback
func.func @masked(%q: !open, %o: !open, %m: memref<?x?xi1>) {
  attn.attention %q, %q, %q mask(%m : memref<?x?xi1>) outs(%o : !open) : !open, !open, !open
  return
}
