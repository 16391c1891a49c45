// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-coop-matrix --verify-diagnostics

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @elements(%q: memref<1x1x96x16xf32>, %k: memref<1x1x96x16xf32>, %v: memref<1x1x96x16xf32>, %o: memref<1x1x96x16xf32>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected elements of f16 or bf16 for product = "coopmat"}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf32>) : memref<1x1x96x16xf32>, memref<1x1x96x16xf32>, memref<1x1x96x16xf32>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 8, 16, 1]], subgroup_size = 32>
func.func @shape(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected a target with matrices of 16 x 16 x 16}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]]>
func.func @lanes(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected a target whose subgroup size is known}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], matrix_layout = [1, 8, 128, 2, 4, 16, 32, 32], subgroup_size = 32>
func.func @layout(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected a matrix_layout that names each power of two below 256 once}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @rows(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected a block_query that is a multiple of 16 * groups}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 48, block_key = 16, groups = 2, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @keys(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected a block_key that is a multiple of 16}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 24, product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}

// -----

#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @stale(%q: memref<1x1x96x16xf16>, %k: memref<1x1x96x16xf16>, %v: memref<1x1x96x16xf16>, %o: memref<1x1x96x16xf16>) {
  // expected-error @+1 {{cannot map tiles to cooperative matrices: expected softmax = "exact" or "conditional"}}
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, softmax = "stale", product = "coopmat">)
    outs(%o : memref<1x1x96x16xf16>) : memref<1x1x96x16xf16>, memref<1x1x96x16xf16>, memref<1x1x96x16xf16>
  return
}
