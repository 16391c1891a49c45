// Gradients of bf16 by AMX: two products to memory, patch by patch; P and dX, rounded;
// dV and dK turned and dQ over the block.

// RUN: attn-opt %s --target=cpu:amx --emit=mapped | FileCheck %s
// RUN: attn-opt %s --target=cpu:amx --emit=mapped | FileCheck %s --check-prefix=TAIL
// RUN: attn-opt %s --target=cpu:amx --emit=mapped | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/bf16/f32/g' %s | not attn-opt - --target=cpu:amx --emit=mapped 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: sed 's/block_key = 32/block_key = 48/' %s | not attn-opt - --target=cpu:amx --emit=mapped 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not attn-opt %s --target=cpu:avx512 --emit=mapped 2>&1 | FileCheck %s --check-prefix=TARGET

// TYPE: expects bf16, blocks of whole 32 queries and keys and a target with amx-bf16 for product = "amx", got 64 x 32 on 'cpu:amx'; state product = "fma" in the tiling
// BLOCK: expects bf16, blocks of whole 32 queries and keys and a target with amx-bf16 for product = "amx", got 64 x 48 on 'cpu:amx'
// TARGET: got 64 x 32 on 'cpu:avx512'

// CHECK-LABEL: func.func @gradients
// Delta has no product.
// CHECK:       omp.parallel
// CHECK-NOT:     ldtilecfg
// CHECK:         vector.reduction <add>
// CHECK:       omp.parallel
// CHECK-COUNT-2: memref.alloca() {{.*}} : memref<32x32xf32>
// CHECK:         llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CHECK-NOT:     vector.contract
// S and dP of a patch.
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// P and dX: pairs for dV, dK, and rows for dQ.
// CHECK:         llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
// CHECK:         vector.shuffle {{.*}} [0, 16, 1, 17,
// dV, dK and dQ.
// CHECK-COUNT-12: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CHECK-NOT:     tdpbf16ps
// CHECK:         llvm.call_intrinsic "llvm.x86.tilerelease"
// CHECK-NOT:     vector.fma
// CHECK:       return
func.func @gradients(%q: tensor<1x2x128x64xbf16>, %l: tensor<1x2x128xf32>) -> (tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %q, %l, %q
    tiling(#attn.tiling<block_query = 64, block_key = 32, product = "amx", query_gradient = "accumulated">)
    : tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128xf32>, tensor<1x2x128x64xbf16>
    -> tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>
  return %dq, %dk, %dv : tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>, tensor<1x2x128x64xbf16>
}

// Rows and keys past the end are not multiplied.
// TAIL-LABEL:  func.func @tail
// TAIL:        arith.andi {{.*}} : vector<16xi32>
// TAIL:        vector.shuffle {{.*}} [0, 16, 1, 17,
// TAIL:        omp.parallel
// TAIL:        vector.create_mask
func.func @tail(%q: tensor<1x2x50x40xbf16>, %l: tensor<1x2x50xf32>) -> (tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %q, %l, %q
    tiling(#attn.tiling<block_query = 64, block_key = 32, product = "amx", query_gradient = "recomputed">)
    : tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50xf32>, tensor<1x2x50x40xbf16>
    -> tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>
  return %dq, %dk, %dv : tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>, tensor<1x2x50x40xbf16>
}

// An output gradient of f32 is not rounded to be packed.
// WIDE-LABEL:  func.func @wide
// WIDE-NOT:    tdpbf16ps
// WIDE:        vector.fma
func.func @wide(%q: tensor<1x2x64x32xbf16>, %l: tensor<1x2x64xf32>, %o: tensor<1x2x64x32xf32>) -> (tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>) {
  %dq, %dk, %dv = attn.attention_backward %q, %q, %q, %o, %l, %o
    tiling(#attn.tiling<block_query = 64, block_key = 32, product = "amx", query_gradient = "recomputed">)
    : tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xf32>, tensor<1x2x64xf32>, tensor<1x2x64x32xf32>
    -> tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>
  return %dq, %dk, %dv : tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>
}
