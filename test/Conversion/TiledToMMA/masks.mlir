// Masks that hide whole blocks, and keys that no row of a task sees.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-mma | FileCheck %s

// The lanes of a warp stride over the ids of a block, and a search finds the
// next block that has an id of the rows. Values of keys that nobody sees are
// cleared in shared memory before they are multiplied.

// CHECK-LABEL: gpu.func @segments(
// CHECK:         nvvm.redux.sync min
// CHECK:         nvvm.redux.sync max
//              The first block that is reached.
// CHECK:         scf.while
// CHECK:           arith.cmpi sle
// CHECK:           scf.condition
// CHECK:         cp.async.commit_group
//              The sweep.
// CHECK:         scf.while
// CHECK:           mma.sync
// CHECK:           redux.sync.or.b32
// CHECK:           st.shared.b32
// CHECK:           nvvm.barrier0
// CHECK:           ld.shared.b32
// CHECK:           st.shared.v4.b32
// CHECK:           nvvm.barrier0
// CHECK:           ldmatrix.sync.aligned.m8n8.x4.trans
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @segments(%q: memref<1x1x64x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x16xbf16>, %o: memref<1x1x64x16xbf16>, %qs: memref<1x64xi32>, %ks: memref<1x64xi32>) {
  attn.attention %q, %k, %v segments(%qs, %ks : memref<1x64xi32>, memref<1x64xi32>) target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "mma">)
    outs(%o : memref<1x1x64x16xbf16>) : memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>
  return
}

// -----

// A mask of elements is asked by all threads together.

// CHECK-LABEL: gpu.func @elements(
// CHECK:         scf.while
// CHECK:           nvvm.barrier #nvvm.reduction<or>
// CHECK:           scf.condition
#target = #attn.target<name = "sm_80", family = "cuda", arch = "sm_80">
func.func @elements(%q: memref<1x1x64x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x16xbf16>, %o: memref<1x1x64x16xbf16>, %m: memref<64x64xi1>) {
  attn.attention %q, %k, %v mask(%m : memref<64x64xi1>) target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "mma">)
    outs(%o : memref<1x1x64x16xbf16>) : memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>
  return
}
