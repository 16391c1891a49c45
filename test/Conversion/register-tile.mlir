// A register tile takes a step for each lane of a register at once, over rows that lie
// side by side, and what is left one by one.

// RUN: attn-opt %s --target=cpu:avx512 --emit=mapped | FileCheck %s

// CHECK-LABEL: func.func @attention
// CHECK-DAG:   %[[QUERY:.+]] = memref.alloca() {{.*}} : memref<4x3x6x16xf32>
// CHECK-DAG:   %[[SCORES:.+]] = memref.alloca() {{.*}} : memref<4x4x6x16xf32>
// Two groups of d, and the eight behind them.
// CHECK:       scf.for %[[GROUP:.+]] = %c0 to %c2 step %c1 iter_args
// CHECK:         memref.load %[[QUERY]][%{{.+}}, %[[GROUP]], %c0, %c0]
// CHECK:         memref.load %[[QUERY]][%{{.+}}, %[[GROUP]], %c5, %c15]
// CHECK:         scf.yield
// CHECK:       scf.for %{{.+}} = %c32 to %c40 step %c1 iter_args
// CHECK:         memref.load %[[QUERY]]
// CHECK:       vector.store %{{.+}}, %[[SCORES]]
// CHECK:       memref.load %[[SCORES]][%{{.+}}, %{{.+}}, %c5, %c15]
func.func @attention(%q: tensor<1x2x64x40xf32>, %k: tensor<1x2x512x40xf32>,
                     %v: tensor<1x2x512x64xf32>) -> tensor<1x2x64x64xf32> {
  %o = attn.attention %q, %k, %v
      tiling(#attn.tiling<block_query = 24, block_key = 64, product = "fma", register_rows = 6, register_columns = 64, pack = true, softmax = "exact">)
      : tensor<1x2x64x40xf32>, tensor<1x2x512x40xf32>, tensor<1x2x512x64xf32> -> tensor<1x2x64x64xf32>
  return %o : tensor<1x2x64x64xf32>
}
