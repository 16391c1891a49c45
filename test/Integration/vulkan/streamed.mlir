// Tiles that stream through shared memory, with tails of rows, keys, depth and
// columns, run on a device and compared with the oracle.
// REQUIRES: vulkan
// RUN: attn-run %s --entry=single --target=apple --seed=1 | FileCheck %s
// RUN: attn-run %s --entry=half --target=apple --seed=2 | FileCheck %s

// CHECK: all {{[0-9]+}} rows checked

func.func @single(%q: tensor<1x2x70x72xf32>, %k: tensor<1x1x135x72xf32>, %v: tensor<1x1x135x40xf32>) -> (tensor<1x2x70x40xf32>, tensor<1x2x70xf32>) {
  %o, %lse = attn.attention %q, %k, %v causal bottom_right
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 2, product = "fma", softmax = "conditional">)
    : tensor<1x2x70x72xf32>, tensor<1x1x135x72xf32>, tensor<1x1x135x40xf32> -> tensor<1x2x70x40xf32>, tensor<1x2x70xf32>
  return %o, %lse : tensor<1x2x70x40xf32>, tensor<1x2x70xf32>
}

func.func @half(%q: tensor<1x1x35x64xf16>, %k: tensor<1x1x67x64xf16>, %v: tensor<1x1x67x64xf16>, %n: tensor<1xi32>) -> tensor<1x1x35x64xf16> {
  %o = attn.attention %q, %k, %v kv_lengths(%n : tensor<1xi32>) softcap(5.0)
    tiling(#attn.tiling<block_query = 32, block_key = 64, groups = 2, product = "fma", softmax = "exact">)
    : tensor<1x1x35x64xf16>, tensor<1x1x67x64xf16>, tensor<1x1x67x64xf16> -> tensor<1x1x35x64xf16>
  return %o : tensor<1x1x35x64xf16>
}
