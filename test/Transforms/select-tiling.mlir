// RUN: attn-opt %s --attn-select-tiling=target=cpu:avx512 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: attn-opt %s --attn-select-tiling=target=h200 | FileCheck %s --check-prefixes=CHECK,H200
// RUN: attn-opt %s --attn-select-tiling=target=cpu:avx512 --attn-select-tiling=target=h200 | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: attn-opt %s --attn-select-tiling | FileCheck %s
// RUN: not attn-opt %s --attn-select-tiling=target=h20 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown target 'h20', did you mean 'h200'? known: cpu, cpu:avx2, {{.*}}, npu:xdna
// UNKNOWN-NOT: {{.}}

// CHECK-LABEL: func @prefill
// CPU: attn.attention
// CPU-SAME: target(#attn.target<name = "cpu:avx512", family = "cpu", arch = "x86-64-v4"
// CPU-SAME: tiling(#attn.tiling<block_query = {{[0-9]+}}, block_key = {{128|256}}, register_rows = 6, register_columns = 64, pack = true>)
// H200: attn.attention
// H200-SAME: target(#attn.target<name = "h200", family = "cuda", arch = "sm_90a"
// H200-SAME: tiling(#attn.tiling<block_query = 192, block_key = 64, stages = 4, query_stages = 2, groups = 3, product = "wgmma", softmax = "raised">)
func.func @prefill(%q: tensor<4x16x4096x128xbf16>) -> tensor<4x16x4096x128xbf16> {
  %o = attn.attention %q, %q, %q : tensor<4x16x4096x128xbf16>, tensor<4x16x4096x128xbf16>, tensor<4x16x4096x128xbf16>
    -> tensor<4x16x4096x128xbf16>
  return %o : tensor<4x16x4096x128xbf16>
}

// One query: keys are read where they lie.
// CHECK-LABEL: func @decode
// CPU: tiling(#attn.tiling<block_query = 1, block_key = 256, register_rows = 1, register_columns = 64>)
func.func @decode(%q: tensor<1x8x1x64xf32>, %k: tensor<1x2x?x64xf32>) -> tensor<1x8x1x64xf32> {
  %o = attn.attention %q, %k, %k : tensor<1x8x1x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32> -> tensor<1x8x1x64xf32>
  return %o : tensor<1x8x1x64xf32>
}

// The memref form is configured alike.
// CHECK-LABEL: func @memrefs
// CHECK: attn.attention
// CHECK-SAME: target(#attn.target<
// CHECK-SAME: tiling(#attn.tiling<
func.func @memrefs(%q: memref<1x4x?x32xf32>, %o: memref<1x4x?x32xf32>) {
  attn.attention %q, %q, %q causal outs(%o : memref<1x4x?x32xf32>) : memref<1x4x?x32xf32>, memref<1x4x?x32xf32>, memref<1x4x?x32xf32>
  return
}

// What is there stays, even where the planner would choose otherwise.
// CHECK-LABEL: func @decided
// CHECK: target(#attn.target<name = "mine", family = "cpu", matrix_units = {{\[\[}}"fma", "f32", 1, 8, 1, 16]]>) tiling(#attn.tiling<block_query = 7, block_key = 9>)
func.func @decided(%q: tensor<1x4x64x32xf32>) -> tensor<1x4x64x32xf32> {
  %o = attn.attention %q, %q, %q
    target(#attn.target<name = "mine", family = "cpu", matrix_units = [["fma", "f32", 1, 8, 1, 16]]>)
    tiling(#attn.tiling<block_query = 7, block_key = 9>)
    : tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32> -> tensor<1x4x64x32xf32>
  return %o : tensor<1x4x64x32xf32>
}

// A tiling is chosen for the target that the op names, not for the option's.
// CHECK-LABEL: func @own_target
// CHECK: target(#attn.target<name = "mine"
// CHECK-SAME: tiling(#attn.tiling<{{.*}}register_rows = 6, register_columns = 16
func.func @own_target(%q: tensor<1x4x64x32xf32>) -> tensor<1x4x64x32xf32> {
  %o = attn.attention %q, %q, %q
    target(#attn.target<name = "mine", family = "cpu", matrix_units = [["fma", "f32", 1, 8, 1, 16]],
                        simd_bits = 256, simd_registers = 16, compute_units = 1>)
    : tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32> -> tensor<1x4x64x32xf32>
  return %o : tensor<1x4x64x32xf32>
}

// CHECK-LABEL: func @nothing_to_do
// CHECK-NEXT: return
func.func @nothing_to_do(%x: f32) -> f32 {
  return %x : f32
}
