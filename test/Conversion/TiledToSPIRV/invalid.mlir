// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-spirv --verify-diagnostics

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @softmax(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map tiles to lanes: expected softmax = "exact" or "conditional", got "stale", whose vote would stop all threads}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, softmax = "stale">)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @stages(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map tiles to lanes: expected one stage}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, stages = 2>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @threads(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map tiles to lanes: expected at most 128 threads, got 256; give fewer groups}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 8>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @rows(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  // expected-error @+1 {{cannot map tiles to lanes: 96 threads cannot share 16 rows; expected groups that are a power of two}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 3>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @memory(%q: memref<1x1x64x128xf32>, %k: memref<1x1x64x128xf32>, %v: memref<1x1x64x128xf32>, %o: memref<1x1x64x128xf32>) {
  // expected-error @+1 {{cannot map tiles to lanes: they need 27904 bytes of shared memory, and 'vulkan' has 16384; give smaller blocks}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 32, block_key = 16>)
    outs(%o : memref<1x1x64x128xf32>) : memref<1x1x64x128xf32>, memref<1x1x64x128xf32>, memref<1x1x64x128xf32>
  return
}
