// The backward op becomes its memref form: results are allocated with the sizes
// of the operands that they are the gradients of, or written in place.
// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" | FileCheck %s

// CHECK-LABEL: func @allocated
// CHECK-SAME: %[[Q:.+]]: memref<1x2x?x4xf16>, %[[K:.+]]: memref<1x1x?x4xf16>, %{{.+}}: memref<1x2x?xf32>, %[[C:.+]]: memref<?xf32>)
// CHECK: %[[QUERIES:.+]] = memref.dim %[[Q]], %c2
// CHECK: %[[DQ:.+]] = memref.alloc(%[[QUERIES]]) {{.*}} : memref<1x2x?x4xf16>
// CHECK: %[[DK:.+]] = memref.alloc(%{{.+}}) {{.*}} : memref<1x1x?x4xf16>
// CHECK: %[[DV:.+]] = memref.alloc(%{{.+}}) {{.*}} : memref<1x1x?x4xf16>
// CHECK: %[[DC:.+]] = memref.alloc(%{{.+}}) {{.*}} : memref<?xf32>
// CHECK: attn.attention_backward {{.*}} gradients(captures[0]) outs(%[[DQ]], %[[DK]], %[[DV]], %[[DC]] : {{.*}}) captures(%[[C]] : memref<?xf32>)
// CHECK: memref.load %{{.+}}[%{{.+}}] : memref<?xf32>
// CHECK: return %[[DQ]], %[[DK]], %[[DV]], %[[DC]]
func.func @allocated(%q: tensor<1x2x?x4xf16>, %k: tensor<1x1x?x4xf16>, %l: tensor<1x2x?xf32>, %c: tensor<?xf32>)
    -> (tensor<1x2x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>) {
  %g:4 = attn.attention_backward %q, %k, %k, %q, %l, %q gradients(captures[0]) captures(%c : tensor<?xf32>)
    score_mod(%s, %b, %h, %i, %j, %t) {
      %m = tensor.extract %t[%h] : tensor<?xf32>
      %r = arith.mulf %s, %m : f32
      attn.yield %r : f32
    }
    : tensor<1x2x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x2x?x4xf16>, tensor<1x2x?xf32>, tensor<1x2x?x4xf16>
    -> tensor<1x2x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>
  return %g#0, %g#1, %g#2, %g#3 : tensor<1x2x?x4xf16>, tensor<1x1x?x4xf16>, tensor<1x1x?x4xf16>, tensor<?xf32>
}

// CHECK-LABEL: func @in_place
// CHECK-NOT: memref.alloc
// CHECK: attn.attention_backward {{.*}} outs(
func.func @in_place(%q: tensor<1x2x8x4xf32>, %l: tensor<1x2x8xf32>, %dq: tensor<1x2x8x4xf32>, %dk: tensor<1x2x8x4xf32>, %dv: tensor<1x2x8x4xf32>)
    -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) {
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q outs(%dq, %dk, %dv : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>)
    : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8xf32>, tensor<1x2x8x4xf32>
    -> tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
  return %g#0, %g#1, %g#2 : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
