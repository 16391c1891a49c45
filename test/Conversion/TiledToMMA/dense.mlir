// The kernel of a block of warps: query tile first, then the key/value blocks
// through stages of shared memory.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-mma | FileCheck %s

// With two stages the copies run a block ahead, and one barrier a block is
// enough.

// CHECK-LABEL: gpu.module @causal_kernels
// CHECK:       gpu.func @causal(
// CHECK-SAME:    attn.launch = {grid = "2 * 3 * 4", shared_memory = 36896 : i64, tensor_maps = [], workgroup = 128 : i64}
//              The longest tasks come first: query blocks are outermost.
// CHECK:         %[[NUMBER:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:         %[[HEADS:.+]] = arith.muli %{{.+}}, %{{.+}} : i32
// CHECK:         arith.divui %[[NUMBER]], %[[HEADS]] : i32
// CHECK:         cp.async.cg.shared.global
// CHECK:         cp.async.commit_group
// CHECK:         scf.while
// CHECK:           arith.cmpi slt
// CHECK:         } do {
// CHECK:           cp.async.wait_group 0
// CHECK:           nvvm.barrier0
// CHECK:           cp.async.cg.shared.global
// CHECK:           cp.async.cg.shared.global
// CHECK:           cp.async.commit_group
// CHECK:           ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK:           mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK:           math.exp2
// CHECK:           cvt.rn.bf16x2.f32
// CHECK:           ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK:           mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT:       nvvm.barrier0
// CHECK:           scf.yield
//              What a thread holds goes out in pairs.
// CHECK:         llvm.store %{{.+}} {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @causal(%q: memref<2x3x256x64xbf16>, %k: memref<2x3x256x64xbf16>, %v: memref<2x3x256x64xbf16>, %o: memref<2x3x256x64xbf16>) {
  attn.attention %q, %k, %v causal target(#target)
    tiling(#attn.tiling<block_query = 64, block_key = 48, stages = 2, groups = 4, product = "mma", softmax = "conditional">)
    outs(%o : memref<2x3x256x64xbf16>) : memref<2x3x256x64xbf16>, memref<2x3x256x64xbf16>, memref<2x3x256x64xbf16>
  return
}

// -----

// A row of 59 elements has no aligned unit: elements go one by one, and zeros
// fill the row up to the depth of the instruction.

// CHECK-LABEL: gpu.func @odd(
// CHECK-NOT:     cp.async.c{{[ag]}}
// CHECK:         arith.constant 59 : i32
// CHECK:         llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr<1> -> i16
// CHECK:         st.shared.b16
// CHECK-NOT:     cp.async.c{{[ag]}}
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @odd(%q: memref<1x1x?x59xf16>, %k: memref<1x1x?x59xf16>, %v: memref<1x1x?x59xf16>, %o: memref<1x1x?x59xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "mma">)
    outs(%o : memref<1x1x?x59xf16>) : memref<1x1x?x59xf16>, memref<1x1x?x59xf16>, memref<1x1x?x59xf16>
  return
}

// -----

// f32 is multiplied as f32; the probabilities of a warp cross its lanes through
// shared memory. With one stage values are copied beside the scores.

// CHECK-LABEL: gpu.func @f32(
// CHECK:         cp.async.wait_group 0
// CHECK:         nvvm.barrier0
// CHECK:         cp.async.cg.shared.global
// CHECK:         scf.for
// CHECK:           ld.shared.v4.f32
// CHECK:           llvm.intr.fma(%{{.+}}, %{{.+}}, %{{.+}}) : (f32, f32, f32) -> f32
// CHECK-NOT:     cvt.rn
// CHECK:         cp.async.wait_group 0
// CHECK:         nvvm.barrier0
// CHECK:         st.shared.v2.f32
// CHECK:         nvvm.bar.warp.sync
// CHECK:         ld.shared.v2.f32
// CHECK-NOT:     mma.sync
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @f32(%q: memref<1x1x64x32xf32>, %k: memref<1x1x64x32xf32>, %v: memref<1x1x64x32xf32>, %o: memref<1x1x64x32xf32>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 8, product = "fma">)
    outs(%o : memref<1x1x64x32xf32>) : memref<1x1x64x32xf32>, memref<1x1x64x32xf32>, memref<1x1x64x32xf32>
  return
}

// -----

// Two warps share 16 rows and split the accumulator's columns: each adds its
// own 64 of 128.

// CHECK-LABEL: gpu.func @split(
// CHECK:         %[[PART:.+]] = arith.remui %{{.+}}, %c2_i32
// CHECK:         arith.muli %[[PART]], %c128_i32
// CHECK:         ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, [$4+96];
// CHECK-NOT:     ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, [$4+128];
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @split(%q: memref<1x1x64x128xf16>, %k: memref<1x1x64x128xf16>, %v: memref<1x1x64x128xf16>, %o: memref<1x1x64x128xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, groups = 2, product = "mma">)
    outs(%o : memref<1x1x64x128xf16>) : memref<1x1x64x128xf16>, memref<1x1x64x128xf16>, memref<1x1x64x128xf16>
  return
}

// -----

// Another product is another mapping's.

// CHECK-LABEL: func.func @warpgroups(
// CHECK:         scf.forall
#target = #attn.target<name = "sm_90a", family = "cuda", arch = "sm_90a">
func.func @warpgroups(%q: memref<1x1x64x64xf16>, %k: memref<1x1x64x64xf16>, %v: memref<1x1x64x64xf16>, %o: memref<1x1x64x64xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 64, block_key = 64, product = "wgmma">)
    outs(%o : memref<1x1x64x64xf16>) : memref<1x1x64x64xf16>, memref<1x1x64x64xf16>, memref<1x1x64x64xf16>
  return
}
