// RUN: attn-opt %s --attn-tile --cse --attn-tiled-to-hopper --canonicalize --cse | FileCheck %s

// Segments hide whole blocks from a task. A warp of the producer's warpgroup
// finds those that are left, and another looks at their values.

// CHECK-LABEL: gpu.func @documents
// The search keeps registers that the consumers do without.
// CHECK:          nvvm.setmaxregister decrease 40

// The producer copies a block when it has been found, for as long as another
// one of the task follows.
// CHECK:          scf.while
// CHECK:            ld.shared.v4.b32
// CHECK:            nvvm.mbarrier.arrive.expect_tx

// The search: where the table lacks blocks, the ranges of ids of several of
// them, reduced by the warp; then a lane decides on each block, and each that is
// reached goes into the ring with the position of the next.
// CHECK:          nvvm.redux.sync min
// CHECK:          nvvm.redux.sync max
// CHECK:          llvm.store %{{.*}} : i32, !llvm.ptr<3>
// CHECK:          nvvm.bar.warp.sync
// CHECK:          llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK-COUNT-2:  nvvm.vote.sync ballot
// CHECK:          llvm.intr.cttz
// CHECK:          st.shared.v4.b32

// The inspection: a sum of all values times 0 is a NaN where one is not finite.
// CHECK:          fma.rn.bf16x2
// CHECK:          nvvm.vote.sync any

// A consumer learns of a block when it has arrived.
// CHECK:          nvvm.setmaxregister increase 232
// CHECK:          wgmma.mma_async
// CHECK:          ld.shared.v4.b32
func.func @documents(%q: memref<1x2x512x64xbf16>, %k: memref<1x2x512x64xbf16>, %v: memref<1x2x512x64xbf16>,
                     %ids: memref<1x512xi32>, %o: memref<1x2x512x64xbf16>) {
  attn.attention %q, %k, %v causal segments(%ids, %ids : memref<1x512xi32>, memref<1x512xi32>)
    target(#attn.target<name = "mine", family = "cuda", arch = "sm_90a", compute_units = 132>)
    tiling(#attn.tiling<block_query = 128, block_key = 64, stages = 2, query_stages = 2, groups = 2, product = "wgmma", softmax = "stale">)
    outs(%o : memref<1x2x512x64xbf16>)
    : memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>, memref<1x2x512x64xbf16>
  return
}
