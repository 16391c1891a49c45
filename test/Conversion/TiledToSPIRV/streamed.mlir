// A tile that is too large for shared memory streams through it: queries and
// keys in chunks of the depth, probabilities and values in parts of the block.
// RUN: attn-opt %s --attn-tile --attn-tiled-to-spirv | FileCheck %s

// 64 threads as 8 rows of 8: each has 8 rows, 8 keys and 8 columns.

// CHECK-LABEL: gpu.func @full(
// CHECK-SAME:    shared_memory = 10240 : i64
// CHECK-DAG:     %[[QUERY:.+]] = memref.alloc() : memref<320xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[BLOCK:.+]] = memref.alloc() : memref<320xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-NOT:     memref.alloc
//              Four quads of a thread's queries and four of its keys wait.
// CHECK:         scf.if
// CHECK-COUNT-8:   vector.load
// CHECK:         scf.for
//                Chunks of the depth.
// CHECK:           scf.for
// CHECK:             gpu.barrier
// CHECK-COUNT-4:     memref.store %{{.+}}, %[[QUERY]]
// CHECK-COUNT-4:     memref.store %{{.+}}, %[[BLOCK]]
// CHECK:             gpu.barrier
// CHECK:             scf.if
// CHECK-COUNT-8:       vector.load
// CHECK:             scf.for
// CHECK:               memref.load %[[QUERY]]
// CHECK:               memref.load %[[BLOCK]]
// CHECK:               math.fma
//                Values of the first part, then the greatest of the rows through
//                the place of the keys.
// CHECK-COUNT-4:   vector.load
// CHECK:           arith.maxnumf
// CHECK:           gpu.barrier
// CHECK-COUNT-2:   memref.store %{{.+}}, %[[BLOCK]]
// CHECK:           gpu.barrier
// CHECK:           memref.load %[[BLOCK]]
//                The first part of four.
// CHECK:           gpu.barrier
// CHECK-COUNT-4:   memref.store %{{.+}}, %[[QUERY]]
// CHECK-COUNT-4:   memref.store %{{.+}}, %[[BLOCK]]
// CHECK:           gpu.barrier
// CHECK-COUNT-4:   vector.load
// CHECK:           scf.for
// CHECK:             memref.load %[[QUERY]]
// CHECK:             memref.load %[[BLOCK]]
// CHECK:             math.fma
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @full(%q: memref<1x1x256x64xf32>, %k: memref<1x1x256x64xf32>, %v: memref<1x1x256x64xf32>, %o: memref<1x1x256x64xf32>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 64, block_key = 64, groups = 2, softmax = "conditional">)
    outs(%o : memref<1x1x256x64xf32>) : memref<1x1x256x64xf32>, memref<1x1x256x64xf32>, memref<1x1x256x64xf32>
  return
}
