// What hides whole keys, and whole blocks.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-spirv | FileCheck %s

// Ids of segments: every thread reduces those of a block; a block whose ids do
// not meet those of the rows is not visited. All of that is uniform, so that
// barriers may stand within.

// CHECK-LABEL: gpu.func @segments(
// CHECK-DAG:     %[[SEEN:.+]] = memref.alloc() : memref<129xi32, #gpu.address_space<workgroup>>
// CHECK:         scf.for {{.+}} iter_args
// CHECK:         arith.minsi
// CHECK:         arith.maxsi
// CHECK:         %[[MEETS:.+]] = arith.andi
// CHECK:         scf.if %[[MEETS]]
// CHECK:           gpu.barrier
//                Each row of threads notes which keys its rows see; values of
//                others are left out of the copy.
// CHECK:           memref.store %{{.+}}, %[[SEEN]]
// CHECK:           gpu.barrier
// CHECK:           memref.load %[[SEEN]]
// CHECK:           vector.load
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @segments(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>, %ids: memref<1x64xi32>) {
  attn.attention %q, %k, %v segments(%ids, %ids : memref<1x64xi32>, memref<1x64xi32>) target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

// A mask of elements: the workgroup votes whether a block is reached.

// CHECK-LABEL: gpu.func @mask(
// CHECK:         %[[VOTE:.+]] = memref.alloc() : memref<129xi32, #gpu.address_space<workgroup>>
// CHECK:         scf.for
// CHECK:           gpu.barrier
// CHECK:           memref.store %{{.+}}, %[[VOTE]]
// CHECK:           gpu.barrier
// CHECK:           memref.atomic_rmw ori %{{.+}}, %[[VOTE]]
// CHECK:           gpu.barrier
// CHECK:           memref.load %[[VOTE]]
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @mask(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>, %m: memref<64x64xi1>) {
  attn.attention %q, %k, %v mask(%m : memref<64x64xi1>) target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}
