// The kernel of a workgroup: query tile, then keys and values of each block
// through one buffer of shared memory.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-spirv | FileCheck %s

// 32 threads as 4 rows of 8: each has 4 rows, 2 keys and 4 columns.

// CHECK-LABEL: gpu.module @causal_kernels
// CHECK:       gpu.func @causal(
// CHECK-SAME:    attn.launch = {grid = "2 * 3 * 4", shared_memory = 6144 : i64, tensor_maps = [], workgroup = 32 : i64}
// CHECK-DAG:     %[[QUERY:.+]] = memref.alloc() : memref<144xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[THREAD:.+]] = gpu.thread_id  x
//              Blocks are counted in rows, since a dimension of a grid is short.
// CHECK:         gpu.block_id  y
// CHECK:         %[[NUMBER:.+]] = arith.addi
// CHECK:         %[[IS_TASK:.+]] = arith.cmpi slt, %[[NUMBER]]
// CHECK:         scf.if %[[IS_TASK]]
//              The query tile is widened on its way.
// CHECK:           scf.for %{{.+}} = %[[THREAD]] to
// CHECK:             %[[QUAD:.+]] = vector.load %{{.+}} : memref<64x32xf16, strided<[32, 1], offset: ?>>, vector<4xf16>
// CHECK:             arith.extf %[[QUAD]] : vector<4xf16> to vector<4xf32>
// CHECK:             memref.store %{{.+}}, %[[QUERY]]
//              Keys of the first block wait in registers.
// CHECK:           scf.if
// CHECK:             vector.load
// CHECK:           scf.for
// CHECK:             gpu.barrier
// CHECK:             memref.store
// CHECK:             gpu.barrier
//                  Values come while the scores are multiplied.
// CHECK:             vector.load
//                  Scores, two quads of depth at a time.
// CHECK:             scf.for
// CHECK:               memref.load %[[QUERY]]
// CHECK:               math.fma
// CHECK:             arith.maxnumf
//                  The greatest of a row across its 8 threads.
// CHECK:             memref.store %{{.+}}, %[[ROWS:.+]][%{{.+}}] : memref<128xf32, #gpu.address_space<workgroup>>
// CHECK:             gpu.barrier
// CHECK:             memref.load %[[ROWS]]
// CHECK-NOT:         vector.load
// CHECK:             memref.store
// CHECK:             math.exp2
//                  A thread's four rows for one key.
// CHECK:             memref.store %{{.+}} : memref<64xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK:             gpu.barrier
//                  Keys of the next block.
// CHECK:             vector.load
// CHECK:             scf.for
// CHECK:               math.fma
// CHECK-NOT:         gpu.barrier
// CHECK:             scf.yield
// CHECK:           vector.store %{{.+}} : memref<64x32xf16, strided<[32, 1], offset: ?>>, vector<4xf16>
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @causal(%q: memref<2x3x64x32xf16>, %k: memref<2x3x64x32xf16>, %v: memref<2x3x64x32xf16>, %o: memref<2x3x64x32xf16>) {
  attn.attention %q, %k, %v causal target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%o : memref<2x3x64x32xf16>) : memref<2x3x64x32xf16>, memref<2x3x64x32xf16>, memref<2x3x64x32xf16>
  return
}

// -----

// A row of 6 elements is a quad and two: those go one by one.

// CHECK-LABEL: gpu.func @odd(
// CHECK:         scf.if
// CHECK:           vector.load {{.+}}, vector<4xf32>
// CHECK:         } else {
// CHECK:           memref.load
// CHECK:           arith.select
// CHECK:         vector.store
// CHECK:         memref.store {{.+}} : memref<?x6xf32
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @odd(%q: memref<1x1x?x6xf32>, %k: memref<1x1x?x6xf32>, %v: memref<1x1x?x6xf32>, %o: memref<1x1x?x6xf32>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%o : memref<1x1x?x6xf32>) : memref<1x1x?x6xf32>, memref<1x1x?x6xf32>, memref<1x1x?x6xf32>
  return
}

// -----

// Task loops with another product are another mapping's.

// CHECK-LABEL: func.func @matrices
// CHECK:         scf.forall
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3">
func.func @matrices(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}
