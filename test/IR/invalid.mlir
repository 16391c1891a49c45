// Every message of the verifier and of the parser, by the number of the
// constraint (C1 to C13) in the op's documentation.
// RUN: attn-opt %s -split-input-file -verify-diagnostics
// RUN: %python %S/check-messages.py %s %S/backward-invalid.mlir %S/attributes-invalid.mlir %attn_source/lib/IR

// C1: ranks.
func.func @c1_rank(%q: tensor<2x3x4xf32>, %k: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects query of rank 4, [batch, heads, sequence, head dimension], got rank 3 ('tensor<2x3x4xf32>')}}
  %o = attn.attention %q, %k, %k : tensor<2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_rank_of_layout(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects output of rank 4, [batch, sequence, heads, head dimension], got rank 1}}
  %o = attn.attention %q, %q, %q layout(bshd) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @c1_batch(%q: tensor<1x2x3x4xf32>, %k: tensor<2x2x3x4xf32>) {
  // expected-error@+1 {{expects key to have batch size 1, got 2}}
  %o = attn.attention %q, %k, %q : tensor<1x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_key_value_heads(%q: tensor<1x2x3x4xf32>, %v: tensor<1x1x3x4xf32>) {
  // expected-error@+1 {{expects value to have head count 2, got 1}}
  %o = attn.attention %q, %q, %v : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x1x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_key_value_length(%q: tensor<1x2x3x4xf32>, %v: tensor<1x2x5x4xf32>) {
  // expected-error@+1 {{expects value to have sequence length 3, got 5}}
  %o = attn.attention %q, %q, %v : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_head_dimension(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x8xf32>) {
  // expected-error@+1 {{expects key to have head dimension 4, got 8}}
  %o = attn.attention %q, %k, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x8xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_output_length(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects output to have sequence length 3, got 7}}
  %o = attn.attention %q, %q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x7x4xf32>
  return
}

// -----

func.func @c1_output_head_dimension(%q: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x5xf32>) {
  // expected-error@+1 {{expects output to have head dimension 5, got 4}}
  %o = attn.attention %q, %q, %v : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c1_lse(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects an lse of [batch, query heads, query length] = 1x2x3, got 1x3x2}}
  %o, %l = attn.attention %q, %q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>, tensor<1x3x2xf32>
  return
}

// -----

// The heads of a bshd operand are its third dimension.
func.func @c1_layout(%q: tensor<1x5x2x4xf32>, %k: tensor<1x2x5x4xf32>) {
  // expected-error@+1 {{expects value to have head count 2, got 5}}
  %o = attn.attention %q, %k, %q layout(query = bshd) : tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32> -> tensor<1x2x5x4xf32>
  return
}

// -----

func.func @c2_ratio(%q: tensor<1x8x3x4xf32>, %k: tensor<1x3x3x4xf32>) {
  // expected-error@+1 {{expects the query heads to be a whole multiple of the key/value heads, got 8 and 3}}
  %o = attn.attention %q, %k, %k : tensor<1x8x3x4xf32>, tensor<1x3x3x4xf32>, tensor<1x3x3x4xf32> -> tensor<1x8x3x4xf32>
  return
}

// -----

func.func @c2_no_key_value_head(%q: tensor<1x8x3x4xf32>, %k: tensor<1x0x3x4xf32>) {
  // expected-error@+1 {{whole multiple of the key/value heads, got 8 and 0}}
  %o = attn.attention %q, %k, %k : tensor<1x8x3x4xf32>, tensor<1x0x3x4xf32>, tensor<1x0x3x4xf32> -> tensor<1x8x3x4xf32>
  return
}

// -----

func.func @c3_element(%q: tensor<1x2x3x4xi8>) {
  // expected-error@+1 {{expects a query of f16, bf16, f32 or f64, got 'i8'}}
  %o = attn.attention %q, %q, %q : tensor<1x2x3x4xi8>, tensor<1x2x3x4xi8>, tensor<1x2x3x4xi8> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c3_mixed(%q: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf16>) {
  // expected-error@+1 {{expects the element type of value to be the query's 'f32', got 'f16'; cast it first}}
  %o = attn.attention %q, %q, %v : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf16> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c3_output(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a float output, got 'i32'}}
  %o = attn.attention %q, %q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xi32>
  return
}

// -----

func.func @c3_lse(%q: tensor<1x2x3x4xf16>) {
  // expected-error@+1 {{expects an lse of 'f32', got 'f16'}}
  %o, %l = attn.attention %q, %q, %q : tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16> -> tensor<1x2x3x4xf16>, tensor<1x2x3xf16>
  return
}

// -----

func.func @c3_lse_of_f64(%q: tensor<1x2x3x4xf64>) {
  // expected-error@+1 {{expects an lse of 'f64', got 'f32'}}
  %o, %l = attn.attention %q, %q, %q : tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64> -> tensor<1x2x3x4xf64>, tensor<1x2x3xf32>
  return
}

// -----

func.func @c4_scale(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a finite scale, got INF}}
  %o = attn.attention %q, %q, %q scale(0x7FF0000000000000) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c4_scale_is_a_number(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a finite scale, got nan}}
  %o = attn.attention %q, %q, %q scale(0x7FF8000000000000) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c5_zero(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a positive finite softcap, got 0.000000e+00; leave it out for no cap}}
  %o = attn.attention %q, %q, %q softcap(0.0) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c5_negative(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a positive finite softcap, got -2.000000e+00}}
  %o = attn.attention %q, %q, %q softcap(-2.0) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c6_left(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a left window bound of 0 or more, or -1 for unbounded, got -2}}
  %o = attn.attention %q, %q, %q window(-2, 0) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c6_right(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a right window bound of 0 or more, or -1 for unbounded, got -7}}
  %o = attn.attention %q, %q, %q window(0, -7) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c6_two_diagonals(%q: tensor<1x2x3x4xf32>, %offset: tensor<1xi32>) {
  // expected-error@+1 {{takes the diagonal from query_offset or from bottom_right, not from both; drop one}}
  %o = attn.attention %q, %q, %q query_offset(%offset : tensor<1xi32>) causal bottom_right : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c6_offset_shape(%q: tensor<3x2x3x4xf32>, %offset: tensor<2xi32>) {
  // expected-error@+1 {{expects query_offset of [batch] or [1] = 3, got 2}}
  %o = attn.attention %q, %q, %q query_offset(%offset : tensor<2xi32>) causal : tensor<3x2x3x4xf32>, tensor<3x2x3x4xf32>, tensor<3x2x3x4xf32> -> tensor<3x2x3x4xf32>
  return
}

// -----

func.func @c7_bias(%q: tensor<1x2x3x4xf32>, %bias: tensor<2x3x5xf32>) {
  // expected-error@+1 {{expects bias to broadcast to [batch, query heads, query length, key length] = 1x2x3x3, got 2x3x5}}
  %o = attn.attention %q, %q, %q bias(%bias : tensor<2x3x5xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c7_mask_rank(%q: tensor<1x2x3x4xf32>, %mask: tensor<1x1x1x1x1xi1>) {
  // expected-error@+1 {{expects mask to broadcast to [batch, query heads, query length, key length] = 1x2x3x3, got 1x1x1x1x1}}
  %o = attn.attention %q, %q, %q mask(%mask : tensor<1x1x1x1x1xi1>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c7_bias_type(%q: tensor<1x2x3x4xf32>, %bias: tensor<3x3xi1>) {
  // expected-error@+1 {{expects a float bias, got 'i1'; a boolean belongs in mask(...)}}
  %o = attn.attention %q, %q, %q bias(%bias : tensor<3x3xi1>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c7_mask_type(%q: tensor<1x2x3x4xf32>, %mask: tensor<3x3xf32>) {
  // expected-error@+1 {{expects a mask of i1 (true is visible), got 'f32'; added numbers belong in bias(...)}}
  %o = attn.attention %q, %q, %q mask(%mask : tensor<3x3xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c8_lengths(%q: tensor<2x2x3x4xf32>, %lengths: tensor<1xi32>) {
  // expected-error@+1 {{expects kv_lengths of [batch] = 2, got 1}}
  %o = attn.attention %q, %q, %q kv_lengths(%lengths : tensor<1xi32>) : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return
}

// -----

func.func @c8_type(%q: tensor<2x2x3x4xf32>, %lengths: tensor<2xf32>) {
  // expected-error@+1 {{expects kv_lengths of i32 or i64, got 'f32'}}
  %o = attn.attention %q, %q, %q kv_lengths(%lengths : tensor<2xf32>) : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return
}

// -----

// The custom form takes both or none; the generic form can give one.
func.func @c9_pair(%q: tensor<1x2x3x4xf32>, %ids: tensor<1x3xi32>) {
  // expected-error@+1 {{expects query and key/value segments together, got only query segments}}
  %o = "attn.attention"(%q, %q, %q, %ids) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x3xi32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c9_query_shape(%q: tensor<1x2x3x4xf32>, %ids: tensor<1x4xi32>, %ks: tensor<1x3xi32>) {
  // expected-error@+1 {{expects query segments of [batch, query length] = 1x3, got 1x4}}
  %o = attn.attention %q, %q, %q segments(%ids, %ks : tensor<1x4xi32>, tensor<1x3xi32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c9_key_shape(%q: tensor<1x2x3x4xf32>, %ids: tensor<1x3xi32>, %ks: tensor<3xi32>) {
  // expected-error@+1 {{expects key/value segments of [batch, key length] = 1x3, got 3}}
  %o = attn.attention %q, %q, %q segments(%ids, %ks : tensor<1x3xi32>, tensor<3xi32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c11_shape(%q: tensor<1x2x3x4xf32>, %sinks: tensor<3xf32>) {
  // expected-error@+1 {{expects sinks of [query heads] = 2, got 3}}
  %o = attn.attention %q, %q, %q sinks(%sinks : tensor<3xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c11_type(%q: tensor<1x2x3x4xf16>, %sinks: tensor<2xf16>) {
  // expected-error@+1 {{expects sinks of 'f32', got 'f16'}}
  %o = attn.attention %q, %q, %q sinks(%sinks : tensor<2xf16>) : tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16> -> tensor<1x2x3x4xf16>
  return
}

// -----

// The score of f64 queries is f64.
func.func @c12_arguments(%q: tensor<1x2x3x4xf64>) {
  // expected-error@+1 {{expects score_mod to take ('f64', 'index', 'index', 'index', 'index'), got ('f32', 'index', 'index', 'index', 'index')}}
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    attn.yield %s : f32
  } : tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64>, tensor<1x2x3x4xf64> -> tensor<1x2x3x4xf64>
  return
}

// -----

func.func @c12_capture_argument(%q: tensor<1x2x3x4xf32>, %c: tensor<2xf32>) {
  // expected-error@+1 {{expects mask_mod to take ('index', 'index', 'index', 'index', 'tensor<2xf32>'), got ('index', 'index', 'index', 'index', 'tensor<3xf32>')}}
  %o = attn.attention %q, %q, %q captures(%c : tensor<2xf32>) mask_mod(%b, %h, %i, %j, %x: tensor<3xf32>) {
    %t = arith.constant true
    attn.yield %t : i1
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c12_score_yield(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects score_mod to end in attn.yield of one 'f32'}}
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    attn.yield %b : index
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c12_mask_yield(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects mask_mod to end in attn.yield of one 'i1'}}
  %o = attn.attention %q, %q, %q mask_mod(%b, %h, %i, %j) {
    attn.yield
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func private @side_effect(f32)
func.func @c12_body(%q: tensor<1x2x3x4xf32>) {
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    // expected-error@+1 {{is not allowed in score_mod; expected scalar arith and math ops and reads of captures}}
    func.call @side_effect(%s) : (f32) -> ()
    attn.yield %s : f32
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c12_vectors(%q: tensor<1x2x3x4xf32>) {
  %o = attn.attention %q, %q, %q mask_mod(%b, %h, %i, %j) {
    // expected-error@+1 {{is not allowed in mask_mod}}
    %v = arith.constant dense<true> : vector<4xi1>
    %t = arith.constant true
    attn.yield %t : i1
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c12_read(%q: tensor<1x2x3x4xf32>) {
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    // expected-error@+1 {{is not allowed in score_mod}}
    %t = arith.constant dense<1.0> : tensor<4xf32>
    %x = tensor.extract %t[%j] : tensor<4xf32>
    attn.yield %x : f32
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c12_captures(%q: tensor<1x2x3x4xf32>, %c: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{expects captures of integers, indices or floats, got 'complex<f32>'}}
  %o = attn.attention %q, %q, %q captures(%c : tensor<2xcomplex<f32>>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

// An outer value is seen through captures only.
func.func @c12_isolated(%q: tensor<1x2x3x4xf32>, %slope: f32) {
  // expected-note@+1 {{required by region isolation constraints}}
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {
    // expected-error@+1 {{using value defined outside the region}}
    %x = arith.mulf %s, %slope : f32
    attn.yield %x : f32
  } : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_mixture(%q: tensor<1x2x3x4xf32>, %m: memref<1x2x3x4xf32>) {
  // expected-error@+1 {{expects all operands to be tensors or all to be memrefs, got query 'tensor<1x2x3x4xf32>' beside 'memref<1x2x3x4xf32>'}}
  %o = attn.attention %q, %m, %q : tensor<1x2x3x4xf32>, memref<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_memref_result(%m: memref<1x2x3x4xf32>) {
  // expected-error@+1 {{on memrefs has no results; name the destinations in outs(...)}}
  %o = attn.attention %m, %m, %m : memref<1x2x3x4xf32>, memref<1x2x3x4xf32>, memref<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_no_destination(%m: memref<1x2x3x4xf32>) {
  // expected-error@+1 {{on memrefs expects one destination (output) or two (output, lse) in outs(...), got 0}}
  attn.attention %m, %m, %m : memref<1x2x3x4xf32>, memref<1x2x3x4xf32>, memref<1x2x3x4xf32>
  return
}

// -----

func.func @c13_no_result(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects one result (output) or two (output, lse), got 0}}
  attn.attention %q, %q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_destinations(%q: tensor<1x2x3x4xf32>, %l: tensor<1x2x3xf32>) {
  // expected-error@+1 {{expects one destination per result in outs(...), got 2 for 1 results}}
  %o = attn.attention %q, %q, %q outs(%q, %l : tensor<1x2x3x4xf32>, tensor<1x2x3xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_destination_type(%q: tensor<1x2x3x4xf32>, %init: tensor<1x2x3x4xf16>) {
  // expected-error@+1 {{expects a destination of the result's type 'tensor<1x2x3x4xf32>', got 'tensor<1x2x3x4xf16>'}}
  %o = attn.attention %q, %q, %q outs(%init : tensor<1x2x3x4xf16>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @c13_stride(%q: memref<1x2x3x4xf32, strided<[24, 12, 4, 2]>>, %k: memref<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a unit innermost stride, got 'memref<1x2x3x4xf32, strided<[24, 12, 4, 2]>>'; copy the operand or transpose its layout}}
  attn.attention %q, %k, %k outs(%k : memref<1x2x3x4xf32>) : memref<1x2x3x4xf32, strided<[24, 12, 4, 2]>>, memref<1x2x3x4xf32>, memref<1x2x3x4xf32>
  return
}

// -----

func.func @c13_map(%q: memref<1x2x3x4xf32, affine_map<(a, b, c, d) -> (a, b, c, d floordiv 2)>>, %k: memref<1x2x3x4xf32>) {
  // expected-error@+1 {{expects memrefs with a strided layout, got}}
  attn.attention %q, %k, %k outs(%k : memref<1x2x3x4xf32>) : memref<1x2x3x4xf32, affine_map<(a, b, c, d) -> (a, b, c, d floordiv 2)>>, memref<1x2x3x4xf32>, memref<1x2x3x4xf32>
  return
}

// -----

func.func @parse_clause(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{unknown clause 'casual', expected one of: bias, mask, kv_lengths}}
  %o = attn.attention %q, %q, %q casual : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_twice(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{scale is given twice}}
  %o = attn.attention %q, %q, %q scale(1.0) scale(2.0) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_layout(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expected layout bhsd or bshd, got sbhd}}
  %o = attn.attention %q, %q, %q layout(sbhd) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_layout_twice(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{layout of key is given twice}}
  %o = attn.attention %q, %q, %q layout(key = bshd, key = bhsd) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_types(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expected three types (query, key, value), got 2}}
  %o = attn.attention %q, %q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_segments(%q: tensor<1x2x3x4xf32>, %ids: tensor<1x3xi32>) {
  // expected-error@+1 {{segments takes two values (query, key/value), got 1}}
  %o = attn.attention %q, %q, %q segments(%ids : tensor<1x3xi32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_one_value(%q: tensor<1x2x3x4xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{bias takes one value, got 2}}
  %o = attn.attention %q, %q, %q bias(%b, %b : tensor<3xf32>, tensor<3xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

// Captures that come after the region are not known to it.
func.func @parse_captures_first(%q: tensor<1x2x3x4xf32>, %c: tensor<2xf32>) {
  // expected-error@+1 {{score_mod takes 5 arguments (score, batch, head, query index, key index, then one per value of a preceding captures(...)), got 6}}
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j, %x) {
    attn.yield %s : f32
  } captures(%c : tensor<2xf32>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_dictionary(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{'scale' is written as a clause before the colon, not in the attribute dictionary}}
  %o = attn.attention %q, %q, %q {scale = 2 : i64} : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_segment_sizes(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{'operandSegmentSizes' is written as a clause}}
  %o = attn.attention %q, %q, %q {operandSegmentSizes = array<i32: 1, 1>} : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_target(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{invalid kind of attribute specified}}
  %o = attn.attention %q, %q, %q target(#attn.tiling<block_query = 4, block_key = 4>) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

// Clauses hold floats as MLIR writes them.
func.func @parse_float(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+2 {{unexpected decimal integer literal for a floating point value}}
  // expected-note@+1 {{add a trailing dot to make the literal a float}}
  %o = attn.attention %q, %q, %q scale(1) : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @parse_empty_region(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects a non-empty block}}
  %o = attn.attention %q, %q, %q score_mod(%s, %b, %h, %i, %j) {} : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return
}

// -----

// Malformed generic forms are refused by their sizes.
func.func @generic_segment_sum(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{operand count (3) does not match with the total size (4) specified in attribute 'operandSegmentSizes'}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_segment_count(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{size mismatch in attribute conversion: 2 vs 12}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 2>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_three_queries(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expects one query, one key and one value, got 3, 0 and 0}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_two_biases(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{operand group starting at #3 requires 0 or 1 element, but found 2}}
  %o = "attn.attention"(%q, %q, %q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_negative_segment(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{'operandSegmentSizes' attribute cannot have negative elements}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, -1, 1, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_regions(%q: tensor<1x2x3x4xf32>) {
  // expected-error@+1 {{expected 2 regions}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @generic_scalar(%q: f32) {
  // expected-error@+1 {{operand #0 must be ranked tensor of any type values or memref of any type values, but got 'f32'}}
  %o = "attn.attention"(%q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}) : (f32, f32, f32) -> tensor<1x2x3x4xf32>
  return
}

// -----

func.func @yield_parent(%s: f32) {
  // expected-error@+1 {{expects parent op to be one of 'attn.attention, attn.attention_backward'}}
  attn.yield %s : f32
}
