// RUN: attn-opt %s -attn-tile | %python %attn_source/scripts/outline.py | FileCheck %s
// RUN: not %python %attn_source/scripts/outline.py < %s 2>&1 | FileCheck %s --check-prefix=OTHER

// OTHER: outline: no attn.role in the input; expected the tiled form

// CHECK: in parallel for each (batch, head, query block) of (1, 12, 9)
// CHECK-NEXT: {{^}}  q   = read query <16x32xf32>
// CHECK-NEXT: {{^}}  for each block of 32 keys, carrying m <16xf32>, l <16xf32>, acc <16x8xf32>
// CHECK-NEXT: {{^}}    s   = q · transposed(read key)  <16x32xf32>
// CHECK-NEXT: {{^}}    s   = -inf where a key is hidden, in blocks on an edge only
// CHECK-NEXT: {{^}}    m'  = max(m, row maximum of s)
// CHECK-NEXT: {{^}}    a   = exp2(c m - c m');  m, l, acc = m', a l, a acc
// CHECK-NEXT: {{^}}    p   = exp2(c s - c m)  <16x32xf32>
// CHECK-NEXT: {{^}}    l   = l + row sum of p
// CHECK-NEXT: {{^}}    acc = acc + p · (read value)  <16x8xf32>
// CHECK-NEXT: {{^}}  write acc / l
// CHECK-NEXT: {{^}}  write (c m + log2 l) ln 2
func.func @attention(%q: memref<1x12x141x32xf32>, %v: memref<1x12x141x8xf32>, %o: memref<1x12x141x8xf32>, %l: memref<1x12x141xf32>) {
  attn.attention %q, %q, %v causal tiling(#attn.tiling<block_query = 16, block_key = 32>)
    outs(%o, %l : memref<1x12x141x8xf32>, memref<1x12x141xf32>)
    : memref<1x12x141x32xf32>, memref<1x12x141x32xf32>, memref<1x12x141x8xf32>
  return
}
