// The query is [B, S, H, D] in memory; rows of a batch may lie anywhere.
!query = memref<1x2x8x16xf32, strided<[?, 16, 32, 1], offset: ?>>
func.func @attention(%q: !query, %k: memref<1x2x8x16xf32>,
                     %v: memref<1x2x8x16xf32>, %o: memref<1x2x8x16xf32>) {
  attn.attention %q, %k, %v outs(%o : memref<1x2x8x16xf32>)
    : !query, memref<1x2x8x16xf32>, memref<1x2x8x16xf32>
  return
}
