// The gradients as three kernels that share a workspace.
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=gradients | FileCheck %s
// RUN: attn-opt %s --target=h200 --emit=ptx --entry=gradients -o %t.ptx && FileCheck %s --check-prefix=LAUNCH < %t.ptx.json

!t = tensor<2x4x256x128xbf16>
!k = tensor<2x2x384x128xbf16>
!l = tensor<2x4x256xf32>

// CHECK: gpu.module @gradients_kernels attributes {attn.target = #attn.target<name = "h200"

// delta and the reference of each row; zeros.
// CHECK: gpu.func @gradients_rows
// CHECK-SAME: memref<?xf32>
// CHECK-SAME: grid = "2 * 4 * 4"
// CHECK-SAME: workspace = "2 * 4 * 4 * 33280"
// CHECK: st.global.v4.b32
// CHECK: vector.reduction <add>
// CHECK-COUNT-2: st.global.f32

// CHECK: gpu.func @gradients_keys
// CHECK-SAME: grid = "2 * 2 * 3"
// CHECK-SAME: workgroup = 384
// CHECK: nvvm.setmaxregister decrease 24
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster
// CHECK: cp.async.bulk.shared::cluster
// CHECK: nvvm.setmaxregister increase 240
// The scores and their gradients, with keys as rows.
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: math.exp2
// CHECK: wgmma.wait_group.sync.aligned 0;
// dV behind the arithmetic of dS, then dQ and dK.
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-COUNT-4: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}} 1, 1, 1, 0;
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-COUNT-8: red.global.add.v4.f32
// CHECK-COUNT-4: cp.async.bulk.tensor.4d.global.shared::cta

// CHECK: gpu.func @gradients_queries
// CHECK: ld.global.v4.f32
// CHECK: cp.async.bulk.tensor.4d.global.shared::cta

// LAUNCH: "entry": "gradients_rows"
// LAUNCH: "then": [
// LAUNCH: "entry": "gradients_keys"
// LAUNCH: "tensor_maps"
// LAUNCH: "entry": "gradients_queries"
// LAUNCH: "workspace_bytes": "2 * 4 * 4 * 33280"
func.func @gradients(%q: !t, %k: !k, %v: !k, %o: !t, %l: !l, %do: !t) -> (!t, !k, !k) {
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do : !t, !k, !k, !t, !l, !t -> !t, !k, !k
  return %g#0, %g#1, %g#2 : !t, !k, !k
}

// Equal bits: the same sum, but key blocks wait for each other.
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=deterministic | FileCheck %s --check-prefix=ORDER
// ORDER: gpu.func @deterministic_rows
// ORDER-SAME: workspace = "2 * 4 * 4 * 33312 + 48"
// A turn for each of eight warps, and the counter of tasks.
// ORDER-COUNT-3: st.global.v4.b32
// ORDER: st.global.b32
// ORDER: gpu.func @deterministic_keys
// ORDER: atom.global.add.u32
// ORDER: ld.shared.u32
// ORDER: st.relaxed.gpu.global.u32
// ORDER: arith.cmpi sge
// ORDER-NEXT: scf.if
// ORDER: ld.acquire.gpu.global.u32
// ORDER: red.global.add.v4.f32
// What was added last is passed on behind the loop.
// ORDER: st.relaxed.gpu.global.u32
// ORDER: gpu.func @deterministic_queries
// ORDER: ld.global.v4.f32
func.func @deterministic(%q: !t, %k: !k, %v: !k, %o: !t, %l: !l, %do: !t) -> (!t, !k, !k) {
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do deterministic : !t, !k, !k, !t, !l, !t -> !t, !k, !k
  return %g#0, %g#1, %g#2 : !t, !k, !k
}

// No sum in main memory, a sweep of its own for dQ.
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=recomputed | FileCheck %s --check-prefix=SWEEP
// SWEEP: gpu.func @recomputed_rows
// SWEEP-SAME: workspace = "2 * 4 * 4 * 512"
// SWEEP-NOT: st.global.v4.b32
// SWEEP: gpu.func @recomputed_keys
// SWEEP-NOT: stmatrix
// SWEEP-NOT: red.global
// Two query blocks of a head to a block of threads.
// SWEEP: gpu.func @recomputed_queries
// SWEEP-SAME: grid = "2 * 4 * ceildiv(4, 2)"
// SWEEP-COUNT-2: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// SWEEP: cp.async.bulk.tensor.4d.global.shared::cta
func.func @recomputed(%q: !t, %k: !k, %v: !k, %o: !t, %l: !l, %do: !t) -> (!t, !k, !k) {
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do
    tiling(#attn.tiling<block_query = 64, block_key = 128, stages = 2, groups = 2, product = "wgmma", query_gradient = "recomputed">)
    : !t, !k, !k, !t, !l, !t -> !t, !k, !k
  return %g#0, %g#1, %g#2 : !t, !k, !k
}

// Wide heads: two warpgroups share the keys, and P goes from one to the other.
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=wide | FileCheck %s --check-prefix=WIDE
!w = tensor<1x2x128x256xbf16>
!lw = tensor<1x2x128xf32>
// WIDE: gpu.func @wide_keys
// WIDE: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// WIDE: math.exp2
// WIDE-COUNT-8: st.shared.v4.f32
// WIDE: nvvm.barrier.arrive
// WIDE: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// WIDE: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// WIDE-NOT: math.exp2
// WIDE-COUNT-8: ld.shared.v4.f32
// WIDE: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// WIDE: gpu.func @wide_queries
func.func @wide(%q: !w, %l: !lw) -> (!w, !w, !w) {
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q causal : !w, !w, !w, !w, !lw, !w -> !w, !w, !w
  return %g#0, %g#1, %g#2 : !w, !w, !w
}

// A fourth kernel for the sinks.
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=sinks | FileCheck %s --check-prefix=SINKS
!s = tensor<2xf32>
// SINKS: gpu.func @sinks_queries
// SINKS: gpu.func @sinks_sinks
// SINKS-SAME: grid = "2"
// SINKS: math.exp2
// SINKS: ld.global.f32
// SINKS: memref.store
func.func @sinks(%q: !w, %l: !lw, %x: !s) -> (!w, !w, !w, !s) {
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q sinks(%x : !s) gradients(sinks)
    : !w, !w, !w, !w, !lw, !w -> !w, !w, !w, !s
  return %g#0, %g#1, %g#2, %g#3 : !w, !w, !w, !s
}
