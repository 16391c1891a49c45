// RUN: attn-opt %s --attn-tile --cse --attn-tiled-to-hopper --cse | FileCheck %s

// One producer warpgroup and two consumers; the order of what a block does.

// The function becomes a kernel, with a tensor map each for query, key, value
// and output behind its own arguments.
// CHECK:      gpu.module @causal_kernels
// CHECK:        llvm.mlir.global external @shared_tiles() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-NOT:    func.func
// CHECK:        gpu.func @causal(%{{.*}}: memref<2x4x1024x64xbf16>, %{{.*}}: memref<2x2x?x64xbf16>, %{{.*}}: memref<2x2x?x64xbf16>, %{{.*}}: memref<2x4x1024x64xbf16>, %{{.*}}: memref<2x4x1024xf32>,
// CHECK-SAME:     %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) kernel
// CHECK-SAME:     attn.launch = {grid = "min(132, 2 * 4 * 8)", shared_memory = 58368 : i64, tensor_maps = [
// CHECK-SAME:       {argument = 0 : i64, box = [1, 1, 128, 64], swizzle = 128 : i64},
// CHECK-SAME:       {argument = 1 : i64, box = [1, 1, 32, 64], swizzle = 128 : i64},
// CHECK-SAME:       {argument = 2 : i64, box = [1, 1, 32, 64], swizzle = 128 : i64},
// CHECK-SAME:       {argument = 3 : i64, box = [1, 1, 128, 64], swizzle = 128 : i64}], workgroup = 384 : i64}

// Two query stages that one thread empties, three stages each of keys and
// values that every warp of the consumers does, and the query stages once more,
// which those warps fill with the output.
// CHECK-COUNT-4:  nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK-COUNT-3:  nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK-COUNT-3:  nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK-COUNT-3:  nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK-COUNT-3:  nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK-COUNT-2:  nvvm.mbarrier.init %{{.*}}, %c8_i32
// CHECK-COUNT-2:  nvvm.mbarrier.init %{{.*}}, %c1_i32
// CHECK-NOT:      nvvm.mbarrier.init
// CHECK:          nvvm.fence.mbarrier.init
// CHECK:          nvvm.barrier0

// The producer: the query of a task, then its key and value blocks in turn.
// CHECK:          scf.if
// CHECK:            nvvm.setmaxregister decrease 24
// CHECK:            %{{.*}} = scf.for
// CHECK:              nvvm.mbarrier.try_wait.parity
// CHECK:              nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c16384_i32
// CHECK:              "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK:              scf.for
// CHECK-COUNT-2:        nvvm.mbarrier.arrive.expect_tx %{{.*}}, %c4096_i32

// Another thread copies each task's output when it is in shared memory, and
// then lets the query stage go.
// CHECK:          scf.if
// CHECK:            scf.for
// CHECK:              nvvm.mbarrier.try_wait.parity
// CHECK:              "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group
// CHECK:              nvvm.cp.async.bulk.wait_group 0 {read}
// CHECK:              mbarrier.arrive
// CHECK:          } else {

// A consumer starts with the first block of its first task.
// CHECK:            nvvm.setmaxregister increase 240
// CHECK:            nvvm.barrier.arrive
// CHECK:            nvvm.wgmma.fence.aligned
// CHECK:            wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16
// CHECK:            nvvm.wgmma.commit.group.sync.aligned
// CHECK:            "wgmma.wait_group.sync.aligned 0;"
// CHECK:            cvt.rn.bf16x2.f32

// Then, for each task and block: its turn, Q K of the block and P V of the one
// before it, the next one's turn, the softmax when the scores are there.
// CHECK:            scf.for
// CHECK:              scf.for
// CHECK:                nvvm.mbarrier.try_wait.parity
// CHECK:                nvvm.barrier id
// CHECK:                wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, a, b, p, 1, 1, 0, 0;
// CHECK:                nvvm.wgmma.commit.group.sync.aligned
// CHECK:                nvvm.mbarrier.try_wait.parity
// CHECK:                nvvm.wgmma.fence.aligned
// CHECK:                wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, b, p, 1, 1, 1;
// CHECK:                nvvm.wgmma.commit.group.sync.aligned
// CHECK:                nvvm.barrier.arrive
// CHECK:                "wgmma.wait_group.sync.aligned 1;"
// CHECK:                mbarrier.arrive
// CHECK:                "wgmma.wait_group.sync.aligned 0;"
// The stale reference: the warp votes, and in the branch takes the maximum.
// CHECK:                nvvm.vote.sync any
// CHECK:                scf.if
// CHECK:                  nvvm.shfl.sync bfly

// The results: lse from the registers, the output by way of shared memory.
// CHECK:              memref.store
// CHECK:              st.shared.b32
// CHECK:              nvvm.fence.proxy
// CHECK:              mbarrier.arrive
func.func @causal(%q: memref<2x4x1024x64xbf16>, %k: memref<2x2x?x64xbf16>, %v: memref<2x2x?x64xbf16>,
                  %o: memref<2x4x1024x64xbf16>, %lse: memref<2x4x1024xf32>) {
  attn.attention %q, %k, %v causal
    target(#attn.target<name = "mine", family = "cuda", arch = "sm_90a", compute_units = 132>)
    tiling(#attn.tiling<block_query = 128, block_key = 32, stages = 3, query_stages = 2, groups = 2, product = "wgmma", softmax = "stale">)
    outs(%o, %lse : memref<2x4x1024x64xbf16>, memref<2x4x1024xf32>)
    : memref<2x4x1024x64xbf16>, memref<2x2x?x64xbf16>, memref<2x2x?x64xbf16>
  return
}
