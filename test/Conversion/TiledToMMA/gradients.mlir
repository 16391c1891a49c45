// The gradients on warps: kernels in order, which share a workspace of delta and
// reference.
// RUN: attn-opt %s --target=sm_80 --emit=mapped --entry=gradients | FileCheck %s
// RUN: attn-opt %s --target=sm_80 --emit=ptx --entry=gradients -o %t.ptx && FileCheck %s --check-prefix=LAUNCH < %t.ptx.json
// RUN: attn-opt %s --target=sm_80 --emit=mapped --entry=f32 | FileCheck %s --check-prefix=F32
// RUN: attn-opt %s --target=sm_80 --emit=mapped --entry=pairs | FileCheck %s --check-prefix=PAIRS
// RUN: attn-opt %s --target=sm_80 --emit=mapped --entry=ordered | FileCheck %s --check-prefix=ORDERED
// RUN: attn-opt %s --target=sm_80 --emit=mapped --entry=no_rows | FileCheck %s --check-prefix=EMPTY
// RUN: attn-opt %s --target=h200 --emit=mapped --entry=masked | FileCheck %s --check-prefix=MASKED

!t = tensor<2x4x256x128xbf16>
!k = tensor<2x2x384x128xbf16>
!l = tensor<2x4x256xf32>

// CHECK: gpu.module @gradients_kernels attributes {attn.target = #attn.target<name = "sm_80"

// A warp a row; shuffles add up what its lanes have.
// CHECK: gpu.func @gradients_rows
// CHECK-SAME: memref<?xf32>
// CHECK-SAME: grid = "2 * 4 * 8"
// CHECK-SAME: workspace = "4 * 2 * 4 * 256 + 4 * 2 * 4 * 256"
// CHECK: %[[DELTA:.+]] = memref.view
// CHECK: %[[REFERENCE:.+]] = memref.view
// CHECK: nvvm.shfl.sync
// CHECK-COUNT-2: memref.store

// Keys and values stay for the sweeps of all heads of a group.
// CHECK: gpu.func @gradients_keys
// CHECK-SAME: grid = "2 * 2 * 6"
// CHECK-SAME: workgroup = 128
// CHECK: cp.async.cg.shared.global
// CHECK: scf.for
// CHECK: scf.while
// S^T, and P for dV.
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: math.exp2
// CHECK: cvt.rn.bf16x2.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// dP^T, and dX for dK.
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: cvt.rn.bf16x2.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16

// CHECK: gpu.func @gradients_queries
// CHECK-SAME: grid = "2 * 4 * 8"
// CHECK: math.exp2
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NOT: gpu.func

// LAUNCH: "entry": "gradients_rows"
// LAUNCH: "then": [
// LAUNCH: "entry": "gradients_keys"
// LAUNCH: "entry": "gradients_queries"
func.func @gradients(%q: !t, %k: !k, %v: !k, %o: !t, %l: !l, %do: !t) -> (!t, !k, !k) {
  %g:3 = attn.attention_backward %q, %k, %v, %o, %l, %do
    tiling(#attn.tiling<block_query = 32, block_key = 64, groups = 4, stages = 2, product = "mma", query_gradient = "recomputed">)
    : !t, !k, !k, !t, !l, !t -> !t, !k, !k
  return %g#0, %g#1, %g#2 : !t, !k, !k
}

!w = tensor<1x1x64x32xf32>

// Multiply-adds; left sides of a warp cross its lanes through shared memory. Warps
// that share rows have a part of the columns each.
// F32: gpu.func @f32_keys
// F32-SAME: workgroup = 128
// F32: ld.shared.v4.f32
// F32: math.exp2
// F32: st.shared.v2.f32
// F32-NOT: mma.sync
func.func @f32(%q: !w, %l: tensor<1x1x64xf32>) -> (!w, !w, !w) {
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q
    tiling(#attn.tiling<block_query = 32, block_key = 32, groups = 4, product = "fma", query_gradient = "recomputed">)
    : !w, !w, !w, !w, tensor<1x1x64xf32>, !w -> !w, !w, !w
  return %g#0, %g#1, %g#2 : !w, !w, !w
}

!b = tensor<1x1x1x64xf32>
!n = tensor<1x2x64x32xf16>

// All tasks add to the one row of the bias: atomically, after the rows of a warp have
// been summed up.
// PAIRS: gpu.func @pairs_zeros0
// PAIRS: memref.store
// PAIRS: gpu.func @pairs_rows
// PAIRS: gpu.func @pairs_keys
// PAIRS: gpu.func @pairs_queries
// PAIRS-SAME: grid = "1 * 2 * 4"
// PAIRS: nvvm.shfl.sync
// PAIRS: red.global.add.f32
func.func @pairs(%q: !n, %l: tensor<1x2x64xf32>, %b: !b) -> (!n, !n, !n, !b) {
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q bias(%b : !b) gradients(bias)
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 1, product = "mma", query_gradient = "recomputed">)
    : !n, !n, !n, !n, tensor<1x2x64xf32>, !n -> !n, !n, !n, !b
  return %g#0, %g#1, %g#2, %g#3 : !n, !n, !n, !b
}

// Where equal inputs have to give equal bits, one block of threads goes through the
// tasks, and the thread that an element belongs to adds what is for it.
// ORDERED: gpu.func @ordered_queries
// ORDERED-SAME: grid = "1 * 1 * 1"
// ORDERED: st.shared.b64
// ORDERED: nvvm.barrier0
// ORDERED: ld.shared.b64
// ORDERED: arith.remui
// ORDERED: llvm.store
// ORDERED-NOT: red.global
func.func @ordered(%q: !n, %l: tensor<1x2x64xf32>, %b: !b) -> (!n, !n, !n, !b) {
  %g:4 = attn.attention_backward %q, %q, %q, %q, %l, %q bias(%b : !b) gradients(bias) deterministic
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 1, product = "mma", query_gradient = "recomputed">)
    : !n, !n, !n, !n, tensor<1x2x64xf32>, !n -> !n, !n, !n, !b
  return %g#0, %g#1, %g#2, %g#3 : !n, !n, !n, !b
}

!e = tensor<1x2x0x32xf16>

// Without a row the gradients of keys and values are zeros.
// EMPTY: gpu.func @no_rows_zeros0
// EMPTY: gpu.func @no_rows_zeros1
// EMPTY: gpu.func @no_rows_zeros2
// EMPTY-NOT: gpu.func
func.func @no_rows(%q: !e, %k: !n, %l: tensor<1x2x0xf32>) -> (!e, !n, !n) {
  %g:3 = attn.attention_backward %q, %k, %k, %q, %l, %q
    : !e, !n, !n, !e, tensor<1x2x0xf32>, !e -> !e, !n, !n
  return %g#0, %g#1, %g#2 : !e, !n, !n
}

// What wgmma does not take goes to warps. All threads ask whether any pair of a block is
// visible, and clear keys that no row sees before they meet dX.
// MASKED: gpu.func @masked_keys
// MASKED: nvvm.barrier
// MASKED: gpu.func @masked_queries
// MASKED: redux.sync.or.b32
// MASKED: st.shared.v4.b32
func.func @masked(%q: !n, %l: tensor<1x2x64xf32>, %m: tensor<64x64xi1>) -> (!n, !n, !n) {
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q mask(%m : tensor<64x64xi1>)
    : !n, !n, !n, !n, tensor<1x2x64xf32>, !n -> !n, !n, !n
  return %g#0, %g#1, %g#2 : !n, !n, !n
}
