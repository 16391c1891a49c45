// The backward op: clauses printed as they are read, and read as they are printed.
// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

!q = tensor<1x4x8x16xf32>
!k = tensor<1x2x6x16xf32>
!l = tensor<1x4x8xf32>

// CHECK-LABEL: func @plain
// CHECK: attn.attention_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-SAME: tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8x16xf32>
// CHECK-SAME: -> tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x16xf32>
func.func @plain(%q: !q, %k: !k, %v: !k, %o: !q, %l: !l, %do: !q) -> (!q, !k, !k) {
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do : !q, !k, !k, !q, !l, !q -> !q, !k, !k
  return %g#0, %g#1, %g#2 : !q, !k, !k
}

// CHECK-LABEL: func @every_clause
// CHECK: attn.attention_backward
// CHECK-SAME: bias(%{{[a-z0-9]+}} : tensor<8x6xf16>) mask(%{{[a-z0-9]+}} : tensor<8x6xi1>) kv_lengths(%{{[a-z0-9]+}} : tensor<1xi32>)
// CHECK-SAME: segments(%{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<1x8xi32>, tensor<1x6xi32>) sinks(%{{[a-z0-9]+}} : tensor<4xf32>)
// CHECK-SAME: query_offset(%{{[a-z0-9]+}} : tensor<1xi32>) lse_gradient(%{{[a-z0-9]+}} : tensor<1x4x8xf32>)
// CHECK-SAME: layout(output = bshd) scale(5.000000e-01) softcap(2.000000e+01) causal window(3, 0)
// CHECK-SAME: gradients(bias, sinks, captures[0, 2]) deterministic
// CHECK-SAME: captures(%{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<4xf32>, tensor<4xi32>, tensor<4xbf16>)
// CHECK-SAME: score_mod(
// CHECK: -> tensor<1x4x8x16xf32>, tensor<1x2x6x16xf32>, tensor<1x2x6x16xf32>, tensor<8x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
func.func @every_clause(%q: !q, %k: !k, %v: !k, %o: tensor<1x8x4x16xf32>, %l: !l, %do: tensor<1x8x4x16xbf16>, %dl: !l,
                        %bias: tensor<8x6xf16>, %mask: tensor<8x6xi1>, %n: tensor<1xi32>, %qs: tensor<1x8xi32>,
                        %ks: tensor<1x6xi32>, %sinks: tensor<4xf32>, %c0: tensor<4xf32>, %c1: tensor<4xi32>, %c2: tensor<4xbf16>) {
  %g:7 = attn.attention_backward %q, %k, %v, %o, %l, %do deterministic gradients(captures[0, 2], sinks, bias)
    lse_gradient(%dl : !l) causal window(3, 0) softcap(20.0) scale(0.5) layout(output = bshd)
    bias(%bias : tensor<8x6xf16>) mask(%mask : tensor<8x6xi1>) kv_lengths(%n : tensor<1xi32>)
    segments(%qs, %ks : tensor<1x8xi32>, tensor<1x6xi32>) sinks(%sinks : tensor<4xf32>) query_offset(%n : tensor<1xi32>)
    captures(%c0, %c1, %c2 : tensor<4xf32>, tensor<4xi32>, tensor<4xbf16>)
    score_mod(%s, %b, %h, %i, %j, %x, %y, %z) {
      %m = tensor.extract %x[%h] : tensor<4xf32>
      %r = arith.mulf %s, %m : f32
      attn.yield %r : f32
    }
    : !q, !k, !k, tensor<1x8x4x16xf32>, !l, tensor<1x8x4x16xbf16>
    -> !q, !k, !k, tensor<8x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// CHECK-LABEL: func @memrefs
// CHECK: attn.attention_backward {{.*}} outs(%{{.*}}, %{{.*}}, %{{.*}} : memref<1x1x?x4xf16>, memref<1x1x8x4xf16>, memref<1x1x8x4xf16, strided<[64, 64, 8, 1], offset: ?>>) :
func.func @memrefs(%q: memref<1x1x?x4xf16>, %k: memref<1x1x8x4xf16>, %l: memref<1x1x?xf32>,
                   %dv: memref<1x1x8x4xf16, strided<[64, 64, 8, 1], offset: ?>>) {
  attn.attention_backward %q, %k, %k, %q, %l, %q outs(%q, %k, %dv : memref<1x1x?x4xf16>, memref<1x1x8x4xf16>, memref<1x1x8x4xf16, strided<[64, 64, 8, 1], offset: ?>>)
    : memref<1x1x?x4xf16>, memref<1x1x8x4xf16>, memref<1x1x8x4xf16>, memref<1x1x?x4xf16>, memref<1x1x?xf32>, memref<1x1x?x4xf16>
  return
}
