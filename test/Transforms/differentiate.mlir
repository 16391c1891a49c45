// attn-differentiate: a function and its gradient, what is left out, and refusals.
// RUN: attn-opt %s --attn-differentiate --split-input-file --verify-diagnostics | FileCheck %s

!q = tensor<1x4x8x16xf32>
!k = tensor<1x2x6x16xf32>

// The lse becomes a result; the gradient function has inputs, results, and the
// gradient of the output.
// CHECK-LABEL: func @plain(
// CHECK-SAME: -> (tensor<1x4x8x16xf32>, tensor<1x4x8xf32>)
// CHECK-NOT: attn.differentiate
// CHECK: %[[FORWARD:.+]]:2 = attn.attention
// CHECK: return %[[FORWARD]]#0, %[[FORWARD]]#1

// CHECK-LABEL: func @plain_grad(
// CHECK-SAME: %[[Q:[^:]+]]: tensor<1x4x8x16xf32>, %[[K:[^:]+]]: tensor<1x2x6x16xf32>, %[[V:[^:]+]]: tensor<1x2x6x16xf32>,
// CHECK-SAME: %[[O:[^:]+]]: tensor<1x4x8x16xf32>, %[[LSE:[^:]+]]: tensor<1x4x8xf32>, %[[DO:[^:]+]]: tensor<1x4x8x16xf32>)
// CHECK: %[[G:.+]]:3 = attn.attention_backward %[[Q]], %[[K]], %[[V]], %[[O]], %[[LSE]], %[[DO]] scale(5.000000e-01) causal :
// CHECK: return %[[G]]#0, %[[G]]#1, %[[G]]#2
func.func @plain(%q: !q, %k: !k, %v: !k) -> !q attributes {attn.differentiate} {
  %o = attn.attention %q, %k, %v causal scale(0.5) : !q, !k, !k -> !q
  return %o : !q
}

// -----

// Bias, sinks and captures; a gradient of the lse, which was a result before.
// Integers have no gradient, and no_gradient is obeyed.
// CHECK-LABEL: func @everything_grad(
// CHECK: attn.attention_backward {{.*}} bias({{.*}}) sinks({{.*}}) lse_gradient({{.*}}) gradients(sinks, captures[0])
// CHECK: score_mod
// CHECK: return {{.*}} : tensor<1x2x8x4xbf16>, tensor<1x2x8x4xbf16>, tensor<1x2x8x4xbf16>, tensor<2xf32>, tensor<2xf32>
func.func @everything(%q: tensor<1x2x8x4xbf16>, %k: tensor<1x2x8x4xbf16>, %v: tensor<1x2x8x4xbf16>,
                      %bias: tensor<8x8xf32> {attn.no_gradient}, %sinks: tensor<2xf32>, %slopes: tensor<2xf32>, %ids: tensor<8xi32>)
    -> (tensor<1x2x8x4xbf16>, tensor<1x2x8xf32>) attributes {attn.differentiate} {
  %o, %l = attn.attention %q, %k, %v bias(%bias : tensor<8x8xf32>) sinks(%sinks : tensor<2xf32>)
    captures(%slopes, %ids : tensor<2xf32>, tensor<8xi32>)
    score_mod(%s, %b, %h, %i, %j, %m, %id) {
      %x = tensor.extract %m[%h] : tensor<2xf32>
      %y = tensor.extract %id[%j] : tensor<8xi32>
      %f = arith.sitofp %y : i32 to f32
      %z = arith.mulf %x, %f : f32
      %r = arith.addf %s, %z : f32
      attn.yield %r : f32
    }
    : tensor<1x2x8x4xbf16>, tensor<1x2x8x4xbf16>, tensor<1x2x8x4xbf16> -> tensor<1x2x8x4xbf16>, tensor<1x2x8xf32>
  return %o, %l : tensor<1x2x8x4xbf16>, tensor<1x2x8xf32>
}

// -----

// One value as query, key and value has the sum of three gradients.
// CHECK-LABEL: func @shared_grad(
// CHECK: %[[G:.+]]:3 = attn.attention_backward
// CHECK: %[[QK:.+]] = linalg.add ins(%[[G]]#0, %[[G]]#1 :
// CHECK: %[[QKV:.+]] = linalg.add ins(%[[QK]], %[[G]]#2 :
// CHECK: return %[[QKV]]
func.func @shared(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> attributes {attn.differentiate} {
  %o = attn.attention %x, %x, %x : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// A marked op in another function returns its lse.
// CHECK-LABEL: func @op
// CHECK: %{{.+}}:2 = attn.attention {{.*}} -> tensor<1x2x8x4xf32>, tensor<1x2x8xf32>
// CHECK-NOT: @op_grad
func.func @op(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %o = attn.attention %x, %x, %x {attn.differentiate} : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// Unmarked functions stay as they are.
// CHECK-LABEL: func @unmarked
// CHECK: %{{.+}} = attn.attention {{.*}} -> tensor<1x2x8x4xf32>{{$}}
// CHECK-NOT: @unmarked_grad
func.func @unmarked(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> {
  %o = attn.attention %x, %x, %x : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// expected-error@+1 {{expects one attn.attention to differentiate, got 0; build backward ops with attn/Transforms/Differentiate.h}}
func.func @none(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> attributes {attn.differentiate} {
  return %x : tensor<1x2x8x4xf32>
}

// -----

func.func @computed(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> attributes {attn.differentiate} {
  %y = arith.addf %x, %x : tensor<1x2x8x4xf32>
  // expected-error@+1 {{expects operands that are arguments or constants to differentiate, got operand #0 computed; build the backward op with attn/Transforms/Differentiate.h}}
  %o = attn.attention %y, %x, %x : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// -----

// expected-error@+1 {{expects a function that returns what its attn.attention does to differentiate, got another result #0}}
func.func @other_result(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> attributes {attn.differentiate} {
  %o = attn.attention %x, %x, %x : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %x : tensor<1x2x8x4xf32>
}

// -----

// expected-error@+1 {{expects a function that returns the output of its attn.attention to differentiate}}
func.func @memrefs(%x: memref<1x2x8x4xf32>) attributes {attn.differentiate} {
  attn.attention %x, %x, %x outs(%x : memref<1x2x8x4xf32>) : memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>
  return
}

// -----

func.func @no_derivative(%x: tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32> attributes {attn.differentiate} {
  %o = attn.attention %x, %x, %x score_mod(%s, %b, %h, %i, %j) {
      // expected-error@+1 {{'math.acosh' op in score_mod has no derivative; expected arith and math ops that have one, or an op that depends on neither the score nor a differentiated capture}}
      %r = math.acosh %s : f32
      attn.yield %r : f32
    } : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}
