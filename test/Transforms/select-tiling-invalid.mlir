// RUN: attn-opt %s --attn-select-tiling=target=vulkan --split-input-file --verify-diagnostics

func.func @too_wide(%q: tensor<1x4x64x8192xf32>) -> tensor<1x4x64x8192xf32> {
  // expected-error @below {{cannot tile 'attn.attention': no tile fits target 'vulkan': with head dimensions 8192 and 8192 of f32 the smallest (block_query 1, block_key 2) needs 96.2 KiB of shared memory, the budget is 16 KiB}}
  %o = attn.attention %q, %q, %q : tensor<1x4x64x8192xf32>, tensor<1x4x64x8192xf32>, tensor<1x4x64x8192xf32> -> tensor<1x4x64x8192xf32>
  return %o : tensor<1x4x64x8192xf32>
}

// -----

func.func @no_f64(%q: tensor<1x4x64x32xf64>) -> tensor<1x4x64x32xf64> {
  // expected-error @below {{cannot tile 'attn.attention': target 'vulkan' cannot multiply f64 into f64; it has fma f32}}
  %o = attn.attention %q, %q, %q : tensor<1x4x64x32xf64>, tensor<1x4x64x32xf64>, tensor<1x4x64x32xf64> -> tensor<1x4x64x32xf64>
  return %o : tensor<1x4x64x32xf64>
}

// -----

func.func @dynamic_head_dimension(%q: tensor<1x4x64x?xf32>) -> tensor<1x4x64x?xf32> {
  // expected-error @below {{expected static head dimensions to choose tiles for, got a dynamic one of query and key; state them in the operand types}}
  %o = attn.attention %q, %q, %q scale(0.125) : tensor<1x4x64x?xf32>, tensor<1x4x64x?xf32>, tensor<1x4x64x?xf32> -> tensor<1x4x64x?xf32>
  return %o : tensor<1x4x64x?xf32>
}

// -----

func.func @unknown_family(%q: tensor<1x4x64x32xf32>) -> tensor<1x4x64x32xf32> {
  // expected-error @below {{target 'mine' has family 'tpu', expected cpu, cuda or vulkan}}
  %o = attn.attention %q, %q, %q target(#attn.target<name = "mine", family = "tpu">)
    : tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32>, tensor<1x4x64x32xf32> -> tensor<1x4x64x32xf32>
  return %o : tensor<1x4x64x32xf32>
}
