// RUN: attn-opt %s --split-input-file --attn-tile --attn-gradients-to-spirv --verify-diagnostics

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @schedule(%q: memref<1x1x64x16xf32>, %l: memref<1x1x64xf32>, %dq: memref<1x1x64x16xf32>, %dk: memref<1x1x64x16xf32>, %dv: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map gradients to lanes: expected query_gradient = "recomputed", got "accumulated"; state it in #attn.tiling}}
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, query_gradient = "accumulated">)
    outs(%dq, %dk, %dv : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>)
    : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @stages(%q: memref<1x1x64x16xf32>, %l: memref<1x1x64xf32>, %dq: memref<1x1x64x16xf32>, %dk: memref<1x1x64x16xf32>, %dv: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map gradients to lanes: expected one stage, got 2; state stages = 1}}
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, stages = 2>)
    outs(%dq, %dk, %dv : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>)
    : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @threads(%q: memref<1x1x64x16xf32>, %l: memref<1x1x64xf32>, %dq: memref<1x1x64x16xf32>, %dk: memref<1x1x64x16xf32>, %dv: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map gradients to lanes: expected at most 128 threads, got 256; give fewer groups}}
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 8>)
    outs(%dq, %dk, %dv : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>)
    : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @memory(%q: memref<1x1x64x128xf32>, %l: memref<1x1x64xf32>, %dq: memref<1x1x64x128xf32>, %dk: memref<1x1x64x128xf32>, %dv: memref<1x1x64x128xf32>) {
  // expected-error @+1 {{cannot map gradients to lanes: expected at most 16384 bytes of shared memory, as 'vulkan' has, got 16896; give smaller blocks}}
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 32, block_key = 64>)
    outs(%dq, %dk, %dv : memref<1x1x64x128xf32>, memref<1x1x64x128xf32>, memref<1x1x64x128xf32>)
    : memref<1x1x64x128xf32>, memref<1x1x64x128xf32>, memref<1x1x64x128xf32>, memref<1x1x64x128xf32>, memref<1x1x64xf32>, memref<1x1x64x128xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @dropped(%q: memref<1x1x64x16xf32>, %l: memref<1x1x64xf32>, %dq: memref<1x1x64x16xf32>, %dk: memref<1x1x64x16xf32>) {
  %dv = memref.alloc() : memref<1x1x64x16xf32>
  // expected-error @+1 {{is memory that kernels of lanes have not, such as that of a gradient which the function does not return; return all gradients of the op}}
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%dq, %dk, %dv : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>)
    : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64xf32>, memref<1x1x64x16xf32>
  return
}
