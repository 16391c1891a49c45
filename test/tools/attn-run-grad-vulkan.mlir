// Forward and gradients on a Vulkan device, run and checked.
// REQUIRES: vulkan
// RUN: attn-run %s --entry=alibi --grad --seed=3 --target=vulkan | FileCheck %s
// CHECK: kernel @alibi for vulkan
// CHECK: check output: error
// CHECK: kernel @alibi_grad for vulkan
// CHECK-NEXT: check query_gradient: error {{.*}}, bound {{.*}} (straightforward
// CHECK-NEXT: check key_gradient: error
// CHECK-NEXT: check value_gradient: error
// CHECK-NEXT: check capture0_gradient: error

// Kernels behind the first, and the workspace, come from the description alone.
// RUN: attn-run %s --entry=plain --grad --seed=3 --target=mali --size=Sq=19,Skv=37 --bench=2 | FileCheck %s --check-prefix=PLAIN
// PLAIN: kernel @plain_grad
// PLAIN: check value_gradient: error
// PLAIN: speed median {{.*}} of 2 runs

// RUN: attn-run %s --entry=plain --grad --seed=3 --target=vulkan --size=Sq=0,Skv=37 | FileCheck %s --check-prefix=NONE
// NONE: kernel @plain_grad
// NONE: check query_gradient: error 0
// NONE: check key_gradient: error 0

func.func @alibi(%q: tensor<1x4x30x24xf32>, %k: tensor<1x2x30x24xf32>, %v: tensor<1x2x30x40xf32>, %slopes: tensor<4xf32>) -> tensor<1x4x30x40xf32> {
  %o = attn.attention %q, %k, %v causal captures(%slopes : tensor<4xf32>)
    score_mod(%s, %b, %h, %i, %j, %c) {
      %m = tensor.extract %c[%h] : tensor<4xf32>
      %d = arith.subi %j, %i : index
      %n = arith.index_cast %d : index to i32
      %f = arith.sitofp %n : i32 to f32
      %x = arith.mulf %m, %f : f32
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } : tensor<1x4x30x24xf32>, tensor<1x2x30x24xf32>, tensor<1x2x30x40xf32> -> tensor<1x4x30x40xf32>
  return %o : tensor<1x4x30x40xf32>
}

func.func @plain(%q: tensor<2x2x?x16xbf16>, %k: tensor<2x2x?x16xbf16>, %v: tensor<2x2x?x16xbf16>) -> tensor<2x2x?x16xbf16> {
  %o = attn.attention %q, %k, %v : tensor<2x2x?x16xbf16>, tensor<2x2x?x16xbf16>, tensor<2x2x?x16xbf16> -> tensor<2x2x?x16xbf16>
  return %o : tensor<2x2x?x16xbf16>
}
