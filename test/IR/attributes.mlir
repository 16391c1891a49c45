// Fields in any order; those at their default are not printed.
// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt %s --emit-bytecode | attn-opt | FileCheck %s

// CHECK-LABEL: func private @target
// CHECK-SAME: #attn.target<name = "cpu:avx2", family = "cpu", arch = "x86-64-v3", features = "+avx2,+fma", capabilities = ["avx2", "fma"], matrix_units = {{\[\[}}"fma", "f32", 1, 8, 1, 16], ["dot", "bf16", 1, 16, 2, 64]], compute_units = 2, simd_bits = 256, simd_registers = 16, source = "a \22quoted\22 page">
func.func private @target() attributes {t = #attn.target<
  source = "a \"quoted\" page", simd_registers = 16, simd_bits = 256, compute_units = 2,
  matrix_units = [["fma", "f32", 1, 8, 1, 16], ["dot", "bf16", 1, 16, 2, 64]],
  capabilities = ["avx2", "fma"], features = "+avx2,+fma", arch = "x86-64-v3",
  family = "cpu", name = "cpu:avx2", clock_mhz = 0>}

// CHECK-LABEL: func private @empty_target
// CHECK-SAME: #attn.target<>
func.func private @empty_target() attributes {t = #attn.target<>}

// CHECK-LABEL: func private @tiling
// CHECK-SAME: #attn.tiling<block_query = 64, block_key = 128, stages = 2, groups = 4, product = "wgmma", register_rows = 4, register_columns = 64, pack = true, softmax = "conditional">
func.func private @tiling() attributes {t = #attn.tiling<
  softmax = "conditional", pack = true, register_columns = 64, register_rows = 4,
  product = "wgmma", groups = 4, stages = 2, block_key = 128, block_query = 64>}

// CHECK-LABEL: func private @default_fields
// CHECK-SAME: #attn.tiling<block_query = 1, block_key = 1>
func.func private @default_fields() attributes {t = #attn.tiling<
  block_query = 1, block_key = 1, stages = 1, groups = 1, product = "fma", pack = false, softmax = "exact">}

// On the op they are clauses.
// CHECK-LABEL: func @configured
// CHECK: attn.attention {{.*}} target(#attn.target<name = "cpu">) tiling(#attn.tiling<block_query = 8, block_key = 16>) :
func.func @configured(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o = attn.attention %q, %q, %q tiling(#attn.tiling<block_query = 8, block_key = 16>) target(#attn.target<name = "cpu">)
    : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}
