// Tiles of a backward: register tiles on a CPU, of AMX where it has them, those of wgmma on
// Hopper, of warps on other GPUs of NVIDIA, of lanes behind Vulkan, and stated ones kept.
// RUN: attn-opt %s --attn-select-tiling=target=cpu:avx512 | FileCheck %s
// RUN: attn-opt %s --attn-select-tiling=target=cpu:amx | FileCheck %s --check-prefix=AMX
// RUN: attn-opt %s --target=cpu:avx512 --explain | FileCheck %s --check-prefix=EXPLAIN
// RUN: attn-opt %s --attn-select-tiling=target=h200 | FileCheck %s --check-prefix=HOPPER
// RUN: sed 's/%l, %q$/%l, %q deterministic/' %s | attn-opt --attn-select-tiling=target=h200 | FileCheck %s --check-prefix=ORDERED
// RUN: attn-opt %s --attn-select-tiling=target=sm_80 | FileCheck %s --check-prefix=WARPS
// RUN: attn-opt %s --attn-select-tiling=target=vulkan | FileCheck %s --check-prefix=LANES
// RUN: attn-opt %s --attn-select-tiling=target=vulkan-coopmat | FileCheck %s --check-prefix=LANES

// CHECK-LABEL: func @planned
// CHECK: attn.attention_backward
// CHECK-SAME: target(#attn.target<name = "cpu:avx512"
// CHECK-SAME: tiling(#attn.tiling<block_query = {{[0-9]+}}, block_key = {{16|32|48|64|96|128|192}}, register_rows = 6, register_columns = 64, query_gradient = "recomputed">)
// CHECK: tiling(#attn.tiling<block_query = 3, block_key = 5>)

// AMX: tiling(#attn.tiling<block_query = {{32|64|96|128}}, block_key = {{32|64|96|128|256}}, product = "amx", register_rows = 32, register_columns = 32, query_gradient = "recomputed">)

// EXPLAIN: bf16 attention backward: batch 1, heads 8 on 2, 512 queries x 512 keys, head dimensions 64 and 64
// EXPLAIN: tile {{.*}} query gradient recomputed
// EXPLAIN: memory L2 cache
// EXPLAIN: traffic

// HOPPER: tiling(#attn.tiling<block_query = 96, block_key = 128, stages = 3, groups = 2, product = "wgmma", query_gradient = "accumulated">)

// ORDERED: tiling(#attn.tiling<block_query = 96, block_key = 128, stages = 3, groups = 2, product = "wgmma", query_gradient = "ordered">)

// LANES: tiling(#attn.tiling<block_query = {{[0-9]+}}, block_key = {{[0-9]+}}, {{.*}}query_gradient = "recomputed">)

// WARPS: tiling(#attn.tiling<block_query = {{[0-9]+}}, block_key = {{[0-9]+}}, stages = 2, groups = {{[0-9]+}}, product = "mma", query_gradient = "recomputed">)
func.func @planned(%q: tensor<1x8x512x64xbf16>, %k: tensor<1x2x512x64xbf16>, %l: tensor<1x8x512xf32>)
    -> (tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>) {
  %g:3 = attn.attention_backward %q, %k, %k, %q, %l, %q
    : tensor<1x8x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x64xbf16>
    -> tensor<1x8x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>
  %h:3 = attn.attention_backward %q, %k, %k, %q, %l, %q tiling(#attn.tiling<block_query = 3, block_key = 5>)
    : tensor<1x8x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x64xbf16>
    -> tensor<1x8x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>
  return %g#0, %h#0 : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>
}
