// RUN: attn-opt %s -attn-separate-results | FileCheck %s

// Through the whole road: one attention, two results.
// RUN: attn-opt %s --attn-to-tiled=target=cpu:avx2 | FileCheck %s --check-prefix=TILED

// CHECK-LABEL: func @twice
// CHECK-SAME: %[[BUFFER:.+]]: memref<?x4xf32>, %[[OTHER:.+]]: memref<3xf32>
// CHECK: %[[SIZE:.+]] = memref.dim %[[BUFFER]]
// CHECK: %[[COPY:.+]] = memref.alloc(%[[SIZE]]) : memref<?x4xf32>
// CHECK: memref.copy %[[BUFFER]], %[[COPY]]
// CHECK: return %[[BUFFER]], %[[OTHER]], %[[COPY]]
func.func @twice(%0: memref<?x4xf32>, %1: memref<3xf32>) -> (memref<?x4xf32>, memref<3xf32>, memref<?x4xf32>) {
  return %0, %1, %0 : memref<?x4xf32>, memref<3xf32>, memref<?x4xf32>
}

// CHECK-LABEL: func @distinct
// CHECK-NEXT: return
func.func @distinct(%0: memref<3xf32>, %1: memref<3xf32>, %2: i32) -> (memref<3xf32>, memref<3xf32>, i32, i32) {
  return %0, %1, %2, %2 : memref<3xf32>, memref<3xf32>, i32, i32
}

// TILED-LABEL: func.func @same_attention
// TILED-SAME: %{{.+}}: memref<1x1x5x4xf32>, %[[FIRST:.+]]: memref<1x1x5x4xf32>, %[[SECOND:.+]]: memref<1x1x5x4xf32>)
// TILED: scf.forall
// TILED: memref.copy %[[FIRST]], %[[SECOND]]
func.func @same_attention(%q: tensor<1x1x5x4xf32>) -> (tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>) {
  %0 = attn.attention %q, %q, %q : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  %1 = attn.attention %q, %q, %q : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  return %0, %1 : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>
}
