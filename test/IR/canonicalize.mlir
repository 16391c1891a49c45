// RUN: attn-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: func @identity_score_mod
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
func.func @identity_score_mod(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    // Dead, and gone with the region.
    %unused = arith.addf %s, %s : f32
    attn.yield %s : f32
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// -----

// x * 1 is folded first, then the region is the identity.
// CHECK-LABEL: func @becomes_identity
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
func.func @becomes_identity(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    %one = arith.constant 1.0 : f32
    %x = arith.mulf %s, %one : f32
    attn.yield %x : f32
  } mask_mod(%b, %h, %i, %j) {
    %t = arith.cmpi eq, %i, %i : index
    attn.yield %t : i1
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// -----

// CHECK-LABEL: func @other_regions_stay
// CHECK: score_mod
// CHECK: arith.negf
// CHECK: mask_mod
// CHECK: arith.constant false
func.func @other_regions_stay(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    %x = arith.negf %s : f32
    attn.yield %x : f32
  } mask_mod(%b, %h, %i, %j) {
    %f = arith.constant false
    attn.yield %f : i1
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// -----

// The second capture is read by mask_mod only, the others by nobody.
// CHECK-LABEL: func @unused_captures
// CHECK-SAME: %{{.+}}: tensor<1x2x3x4xf32>, %{{.+}}: tensor<2xf32>, %[[READ:.+]]: tensor<3xi1>, %{{.+}}: tensor<4xf32>
// CHECK: captures(%[[READ]] : tensor<3xi1>) score_mod(%{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}) {
// CHECK: mask_mod(%{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}}, %[[KEY:[^,]+]], %[[VISIBLE:[^,]+]]) {
// CHECK: tensor.extract %[[VISIBLE]][%[[KEY]]] : tensor<3xi1>
func.func @unused_captures(%q: tensor<1x2x3x4xf32>, %c0: tensor<2xf32>, %c1: tensor<3xi1>, %c2: tensor<4xf32>) -> tensor<1x2x3x4xf32> {
  %o = attn.attention %q, %q, %q captures(%c0, %c1, %c2 : tensor<2xf32>, tensor<3xi1>, tensor<4xf32>)
    score_mod(%s, %b, %h, %i, %j, %x0, %x1, %x2) {
      %x = arith.negf %s : f32
      attn.yield %x : f32
    } mask_mod(%b, %h, %i, %j, %x0, %x1, %x2) {
      %visible = tensor.extract %x1[%j] : tensor<3xi1>
      attn.yield %visible : i1
    } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// -----

// The last query (4) reaches key 0 by 4 steps to the left, the first reaches
// the last key (6) by 6 to the right.
// CHECK-LABEL: func @wide_window
// CHECK: attn.attention
// CHECK-NOT: window
// CHECK: attn.attention {{.*}} window(3, 5)
func.func @wide_window(%q: tensor<1x1x5x4xf32>, %k: tensor<1x1x7x4xf32>) -> (tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>) {
  %0 = attn.attention %q, %k, %k window(4, 6) : tensor<1x1x5x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x5x4xf32>
  %1 = attn.attention %q, %k, %k window(3, 5) : tensor<1x1x5x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x5x4xf32>
  return %0, %1 : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>
}

// -----

// On the bottom-right diagonal the bounds are 6 and 4.
// CHECK-LABEL: func @wide_window_bottom_right
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
// CHECK: attn.attention {{.*}} window(5, 3) bottom_right
func.func @wide_window_bottom_right(%q: tensor<1x1x5x4xf32>, %k: tensor<1x1x7x4xf32>) -> (tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>) {
  %0 = attn.attention %q, %k, %k window(6, 4) bottom_right : tensor<1x1x5x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x5x4xf32>
  %1 = attn.attention %q, %k, %k window(5, 3) bottom_right : tensor<1x1x5x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x5x4xf32>
  return %0, %1 : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>
}

// -----

// CHECK-LABEL: func @causal_repeats_the_window
// CHECK: attn.attention {{.*}} causal window(2, -1) :
func.func @causal_repeats_the_window(%q: tensor<1x1x5x4xf32>) -> tensor<1x1x5x4xf32> {
  %o = attn.attention %q, %q, %q causal window(2, 1) : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  return %o : tensor<1x1x5x4xf32>
}

// -----

// The last query sees every key; the first of several does not.
// CHECK-LABEL: func @causal_of_the_last_query
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x1x1x4xf32>
// CHECK: attn.attention {{.*}} causal bottom_right : tensor<1x1x2x4xf32>
func.func @causal_of_the_last_query(%q: tensor<1x1x1x4xf32>, %p: tensor<1x1x2x4xf32>, %k: tensor<1x1x7x4xf32>) -> (tensor<1x1x1x4xf32>, tensor<1x1x2x4xf32>) {
  %0 = attn.attention %q, %k, %k causal bottom_right : tensor<1x1x1x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x1x4xf32>
  %1 = attn.attention %p, %k, %k causal bottom_right : tensor<1x1x2x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x2x4xf32>
  return %0, %1 : tensor<1x1x1x4xf32>, tensor<1x1x2x4xf32>
}

// -----

// Where a length or the diagonal is known at run time only, bounds stay.
// CHECK-LABEL: func @unknown_sizes
// CHECK: attn.attention {{.*}} causal window(1000, -1) bottom_right
// CHECK: attn.attention {{.*}} query_offset(%{{.*}} : tensor<1xi32>) causal window(1000, -1)
func.func @unknown_sizes(%q: tensor<1x1x1x4xf32>, %k: tensor<1x1x?x4xf32>, %offset: tensor<1xi32>) -> (tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>) {
  %0 = attn.attention %q, %k, %k causal window(1000, -1) bottom_right : tensor<1x1x1x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x1x4xf32>
  %1 = attn.attention %q, %q, %q query_offset(%offset : tensor<1xi32>) causal window(1000, -1) : tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32> -> tensor<1x1x1x4xf32>
  return %0, %1 : tensor<1x1x1x4xf32>, tensor<1x1x1x4xf32>
}

// -----

// Without a bound there is no diagonal: its place is dropped.
// CHECK-LABEL: func @no_band
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
func.func @no_band(%q: tensor<1x1x5x4xf32>, %offset: tensor<1xi32>) -> (tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>) {
  %0 = attn.attention %q, %q, %q bottom_right : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  %1 = attn.attention %q, %q, %q query_offset(%offset : tensor<1xi32>) : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  return %0, %1 : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>
}

// -----

// CHECK-LABEL: func @operand_transposes
// CHECK-SAME: %[[QUERY:.+]]: tensor<1x5x2x4xf32>, %[[KEY:.+]]: tensor<1x2x5x4xf32>, %
// CHECK-NOT: linalg.transpose
// CHECK: attn.attention %[[QUERY]], %[[KEY]], %[[QUERY]] layout(query = bshd, value = bshd) : tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32> -> tensor<1x2x5x4xf32>
func.func @operand_transposes(%s: tensor<1x5x2x4xf32>, %k: tensor<1x2x5x4xf32>, %init: tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32> {
  %q = linalg.transpose ins(%s : tensor<1x5x2x4xf32>) outs(%init : tensor<1x2x5x4xf32>) permutation = [0, 2, 1, 3]
  %o = attn.attention %q, %k, %q : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  return %o : tensor<1x2x5x4xf32>
}

// -----

// A transpose of the head dimension is no layout.
// CHECK-LABEL: func @other_transpose
// CHECK: linalg.transpose
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
func.func @other_transpose(%s: tensor<1x2x4x5xf32>, %init: tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32> {
  %q = linalg.transpose ins(%s : tensor<1x2x4x5xf32>) outs(%init : tensor<1x2x5x4xf32>) permutation = [0, 1, 3, 2]
  %o = attn.attention %q, %q, %q : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  return %o : tensor<1x2x5x4xf32>
}

// -----

// The lse is read between the op and the transpose.
// CHECK-LABEL: func @output_transpose
// CHECK: %[[OUTPUT:.+]]:2 = attn.attention {{.*}} layout(output = bshd) : {{.*}} -> tensor<1x5x2x4xf32>, tensor<1x2x5xf32>
// CHECK: %[[SUM:.+]] = arith.addf %[[OUTPUT]]#1, %[[OUTPUT]]#1
// CHECK-NOT: linalg.transpose
// CHECK: return %[[OUTPUT]]#0, %[[SUM]]
func.func @output_transpose(%q: tensor<1x2x5x4xf32>, %init: tensor<1x5x2x4xf32>) -> (tensor<1x5x2x4xf32>, tensor<1x2x5xf32>) {
  %o, %l = attn.attention %q, %q, %q : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>, tensor<1x2x5xf32>
  %sum = arith.addf %l, %l : tensor<1x2x5xf32>
  %t = linalg.transpose ins(%o : tensor<1x2x5x4xf32>) outs(%init : tensor<1x5x2x4xf32>) permutation = [0, 2, 1, 3]
  return %t, %sum : tensor<1x5x2x4xf32>, tensor<1x2x5xf32>
}

// -----

// An output that is read as it stands keeps its layout.
// CHECK-LABEL: func @output_with_two_readers
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor
// CHECK: linalg.transpose
func.func @output_with_two_readers(%q: tensor<1x2x5x4xf32>, %init: tensor<1x5x2x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>) {
  %o = attn.attention %q, %q, %q : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x2x5x4xf32>) outs(%init : tensor<1x5x2x4xf32>) permutation = [0, 2, 1, 3]
  return %o, %t : tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>
}

// -----

// The tensor form computes a value: unread, it goes; twice, it is one. The
// memref form writes: it stays.
// CHECK-LABEL: func @dead
// CHECK-NOT: tensor
// CHECK: attn.attention {{.*}} outs(
func.func @dead(%q: memref<1x2x5x4xf32>, %o: memref<1x2x5x4xf32>) {
  %t = tensor.empty() : tensor<1x2x5x4xf32>
  %unused = attn.attention %t, %t, %t : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  attn.attention %q, %q, %q outs(%o : memref<1x2x5x4xf32>) : memref<1x2x5x4xf32>, memref<1x2x5x4xf32>, memref<1x2x5x4xf32>
  return
}

// The backward op in its shortest form: a wide window goes, and so does a
// capture that nobody reads, unless its gradient is asked for; numbers follow.
// CHECK-LABEL: func @backward
// CHECK-SAME: %{{.+}}: tensor<1x1x8x4xf32>, %{{.+}}: tensor<1x1x8xf32>, %[[A:.+]]: tensor<3xf32>, %[[B:.+]]: tensor<4xf32>, %[[C:.+]]: tensor<5xf32>)
// CHECK: attn.attention_backward {{.*}} gradients(captures[0, 1]) captures(%[[B]], %[[C]] : tensor<4xf32>, tensor<5xf32>) score_mod(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) {
func.func @backward(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %a: tensor<3xf32>, %b: tensor<4xf32>, %c: tensor<5xf32>)
    -> (tensor<1x1x8x4xf32>, tensor<4xf32>, tensor<5xf32>) {
  %g:5 = attn.attention_backward %q, %q, %q, %q, %l, %q window(100, 100) gradients(captures[1, 2])
    captures(%a, %b, %c : tensor<3xf32>, tensor<4xf32>, tensor<5xf32>)
    score_mod(%s, %bb, %h, %i, %j, %x, %y, %z) {
      %m = tensor.extract %z[%h] : tensor<5xf32>
      %r = arith.mulf %s, %m : f32
      attn.yield %r : f32
    }
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<4xf32>, tensor<5xf32>
  return %g#0, %g#3, %g#4 : tensor<1x1x8x4xf32>, tensor<4xf32>, tensor<5xf32>
}
