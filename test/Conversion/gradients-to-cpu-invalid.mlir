// RUN: attn-opt %s --attn-tile --attn-gradients-to-cpu --verify-diagnostics

!t = memref<1x1x8x4xf32>
!l = memref<1x1x8xf32>

// Tasks that run in parallel would add to the same rows.
func.func @accumulated(%q: !t, %l: !l) {
  // expected-error@+1 {{adds query gradients in main memory from tasks that run in parallel; on a CPU state query_gradient = "recomputed" in #attn.tiling}}
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : !t, !t, !t)
    tiling(#attn.tiling<block_query = 4, block_key = 8, query_gradient = "accumulated">)
    : !t, !t, !t, !t, !l, !t
  return
}
