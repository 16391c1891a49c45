// Messages of the backward op's own constraints; those of both ops are in invalid.mlir.
// RUN: attn-opt %s --split-input-file --verify-diagnostics

!q = tensor<1x4x8x16xf32>
!k = tensor<1x2x6x16xf32>
!l = tensor<1x4x8xf32>

func.func @types(%q: !q, %k: !k, %l: !l) {
  // expected-error@+2 {{expected six types (query, key, value, output, lse, output gradient), got 3}}
  %g:3 = attn.attention_backward %q, %k, %k, %q, %l, %q
    : !q, !k, !k -> !q, !k, !k
  return
}

// -----

func.func @unknown_gradient(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expected gradients of bias, sinks or captures[...], got mask}}
  attn.attention_backward %q, %q, %q, %q, %l, %q gradients(mask)
}

// -----

func.func @gradient_twice(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{bias is given twice}}
  attn.attention_backward %q, %q, %q, %q, %l, %q gradients(bias, bias)
}

// -----

func.func @forward_has_no_gradients(%q: tensor<1x1x8x4xf32>) {
  // expected-error@+1 {{unknown clause 'gradients'}}
  attn.attention %q, %q, %q gradients(bias)
}

// -----

func.func @output_gradient_shape(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %do: tensor<1x1x8x5xf32>) {
  // expected-error@+1 {{expects an output gradient of 1x1x8x4, got 1x1x8x5}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %do
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x5xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @output_gradient_type(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %do: tensor<1x1x8x4xi32>) {
  // expected-error@+1 {{expects a float output gradient, got 'i32'}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %do
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xi32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @lse_shape(%q: tensor<1x1x8x4xf32>, %l: tensor<1x8xf32>) {
  // expected-error@+1 {{expects an lse of [batch, query heads, query length] = 1x1x8, got 1x8}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @lse_gradient_shape(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %dl: tensor<1x1x9xf32>) {
  // expected-error@+1 {{expects an lse gradient of 1x1x8, got 1x1x9}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q lse_gradient(%dl : tensor<1x1x9xf32>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @lse_gradient_type(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %dl: tensor<1x1x8xf16>) {
  // expected-error@+1 {{expects an lse gradient of 'f32', got 'f16'}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q lse_gradient(%dl : tensor<1x1x8xf16>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @no_bias(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects bias(...) beside gradients(bias); add the operand or drop the request}}
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q gradients(bias)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<8x8xf32>
  return
}

// -----

func.func @no_sinks(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects sinks(...) beside gradients(sinks); add the operand or drop the request}}
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q gradients(sinks)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1xf32>
  return
}

// -----

func.func @capture_number(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %c: tensor<8xf32>) {
  // expected-error@+1 {{expects ascending numbers of captures below 1 in gradients(captures[...]), got 1}}
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q gradients(captures[1]) captures(%c : tensor<8xf32>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<8xf32>
  return
}

// -----

func.func @capture_type(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %c: tensor<8xi32>) {
  // expected-error@+1 {{expects a float capture in gradients(...), got capture 0 of 'i32'}}
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q gradients(captures[0]) captures(%c : tensor<8xi32>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<8xf32>
  return
}

// -----

func.func @result_count(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects one result a gradient (query, key, value, then those of gradients(...)) = 3, got 2}}
  %g:2 = attn.attention_backward %q, %q, %q, %q, %l, %q
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @destination_count(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>) {
  // expected-error@+1 {{expects one destination a gradient (query, key, value, then those of gradients(...)) = 3, got 1}}
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q : memref<1x1x8x4xf32>)
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @gradient_shape(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects gradient #1 of 1x1x8x4, got 1x8x4}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x8x4xf32>, tensor<1x1x8x4xf32>
  return
}

// -----

func.func @gradient_type(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects gradient #2 of a float type, got 'i32'}}
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xi32>
  return
}

// -----

func.func @sum_type(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>, %b: tensor<8x8xbf16>) {
  // expected-error@+1 {{expects gradient #3 of the type of the accumulators, got 'bf16'}}
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q bias(%b : tensor<8x8xbf16>) gradients(bias)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>, tensor<1x1x8x4xf32>
    -> tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<8x8xbf16>
  return
}

// -----

func.func @generic_groups(%q: tensor<1x1x8x4xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error@+1 {{expects one query, key, value, output, lse and output gradient each, got operand groups of 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0}}
  %g:3 = "attn.attention_backward"(%q, %q, %q, %q, %q, %l) <{operandSegmentSizes = array<i32: 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0>}> ({}, {}) : (tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8xf32>) -> (tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>)
  return
}
