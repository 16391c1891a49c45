// A kernel for each task loop of the gradients, in one module and with one workspace.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-gradients-to-spirv | FileCheck %s

// 32 threads as 4 groups of 8: each has 2 rows and 2 keys of 8 x 16, and parts of the
// accumulators of its own.

// CHECK-LABEL: gpu.module @plain_kernels
// CHECK:       gpu.func @plain_rows(
// CHECK-SAME:    %[[ROWS_SPACE:[^:]+]]: memref<?xf32>) kernel attributes {attn.launch = {grid = "2 * 4 * 4"
// CHECK-SAME:    workgroup = 32 : i64, workspace = "4 * 2 * 4 * 32"}}
// CHECK:         %[[DELTA:.+]] = memref.reinterpret_cast %[[ROWS_SPACE]] to offset: [0], sizes: [2, 4, 32], strides: [128, 32, 1]
//                Each thread adds the terms of its columns, then those of a row meet.
// CHECK:         scf.for
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         memref.store %{{.+}} : memref<{{.+}}xf32, #gpu.address_space<workgroup>>
// CHECK:         gpu.barrier
// CHECK:         memref.store %{{.+}} : memref<32xf32, strided<[1], offset: ?>>

// CHECK:       gpu.func @plain_keys(
// CHECK-SAME:    attn.launch = {grid = "2 * 2 * 2"
// CHECK-SAME:    workgroup = 32 : i64, workspace = "4 * 2 * 4 * 32"}}
//                A step of rows and of keys: 4 quads each, 5 from row to row.
// CHECK-DAG:     %[[LEFT:.+]] = memref.alloc() : memref<40xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[RIGHT:.+]] = memref.alloc() : memref<80xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[P:.+]] = memref.alloc() : memref<64xvector<2xf32>, #gpu.address_space<workgroup>>
//                Heads of the group, then their rows.
// CHECK:         scf.for
// CHECK:           scf.for
//                    Q K^T and dO V^T, in chunks.
// CHECK:             scf.for
// CHECK:               gpu.barrier
// CHECK:               memref.store %{{.+}}, %[[LEFT]]
// CHECK:               memref.store %{{.+}}, %[[RIGHT]]
// CHECK:               gpu.barrier
// CHECK:               scf.if
// CHECK:                 vector.load
// CHECK:               scf.for
// CHECK:                 memref.load %[[LEFT]]
// CHECK:                 math.fma
// CHECK:             scf.for
// CHECK:               scf.for
// CHECK:                 math.fma
// CHECK:             math.exp2
//                    P, and then dX, to shared memory; dV and dK.
// CHECK:             gpu.barrier
// CHECK:             memref.store %{{.+}}, %[[P]]
// CHECK:             scf.for
// CHECK:               gpu.barrier
// CHECK:               memref.store %{{.+}}, %[[RIGHT]]
// CHECK:               gpu.barrier
// CHECK:               scf.for
// CHECK:                 memref.load %[[P]]
// CHECK:                 math.fma
// CHECK:             gpu.barrier
// CHECK:             memref.store %{{.+}}, %[[P]]
// CHECK:             scf.for
// CHECK:               scf.for
// CHECK:                 math.fma
// CHECK:             scf.yield
// CHECK:         vector.store %{{.+}} : memref<32x16xf32, strided<[16, 1], offset: ?>>, vector<4xf32>
// CHECK:         vector.store %{{.+}} : memref<32x16xf32, strided<[16, 1], offset: ?>>, vector<4xf32>

// CHECK:       gpu.func @plain_queries(
// CHECK-SAME:    attn.launch = {grid = "2 * 4 * 4"
// CHECK:         scf.for
// CHECK:           math.exp2
// CHECK:           gpu.barrier
// CHECK:           scf.for
// CHECK:             math.fma
// CHECK:         vector.store %{{.+}} : memref<32x16xf32, strided<[16, 1], offset: ?>>, vector<4xf32>
// CHECK-NOT:   func.func
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @plain(%q: memref<2x4x32x16xf32>, %k: memref<2x2x32x16xf32>, %o: memref<2x4x32x16xf32>, %l: memref<2x4x32xf32>, %dq: memref<2x4x32x16xf32>, %dk: memref<2x2x32x16xf32>, %dv: memref<2x2x32x16xf32>) {
  attn.attention_backward %q, %k, %k, %o, %l, %o target(#target)
    tiling(#attn.tiling<block_query = 8, block_key = 16>)
    outs(%dq, %dk, %dv : memref<2x4x32x16xf32>, memref<2x2x32x16xf32>, memref<2x2x32x16xf32>)
    : memref<2x4x32x16xf32>, memref<2x2x32x16xf32>, memref<2x2x32x16xf32>, memref<2x4x32x16xf32>, memref<2x4x32xf32>, memref<2x4x32x16xf32>
  return
}

// -----

// Pairs add to a bias: terms and the numbers of their elements go to shared memory, and an
// element is one thread's.

// CHECK-LABEL: gpu.module @bias_kernels
// CHECK:       gpu.func @bias_rows(
// CHECK:       gpu.func @bias_keys(
//                A mask is asked whether it shows anything.
// CHECK:         memref.atomic_rmw ori
// CHECK:       gpu.func @bias_zeros0(
// CHECK-SAME:    attn.launch = {grid = "ceildiv(2 * 1 * 32, 32)"
// CHECK:         memref.store %{{.+}} : memref<2x1x32xf32>
//              Parallel over heads; batches and rows one after the other.
// CHECK:       gpu.func @bias_queries(
// CHECK-SAME:    attn.launch = {grid = "1 * 2 * 1"
// CHECK-DAG:     %[[TERMS:.+]] = memref.alloc() : memref<128xf32, #gpu.address_space<workgroup>>
// CHECK-DAG:     %[[PLACES:.+]] = memref.alloc() : memref<128xi32, #gpu.address_space<workgroup>>
// CHECK:         memref.store %{{.+}}, %[[TERMS]]
// CHECK:         memref.store %{{.+}}, %[[PLACES]]
// CHECK:         gpu.barrier
// CHECK:         scf.for
// CHECK:           %[[PLACE:.+]] = memref.load %[[PLACES]]
// CHECK:           arith.remui %[[PLACE]]
// CHECK:           scf.if
// CHECK:             memref.load %[[TERMS]]
// CHECK:             %[[OLD:.+]] = memref.load %{{.+}} : memref<32xf32, strided<[1], offset: ?>>
// CHECK:             arith.addf %[[OLD]]
//              Keys that no row sees are zeros where they are multiplied again.
// CHECK:         gpu.barrier
// CHECK:         memref.load %{{.+}} : memref<65xi32, #gpu.address_space<workgroup>>
// CHECK:       gpu.func @bias_sinks(
// CHECK-SAME:    attn.launch = {grid = "2"
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1", max_workgroup_threads = 128, scratch_bytes = 16384>
func.func @bias(%q: memref<1x2x32x16xf32>, %l: memref<1x2x32xf32>, %b: memref<2x1x32xf32>, %m: memref<32x32xi1>, %s: memref<2xf32>, %dq: memref<1x2x32x16xf32>, %dk: memref<1x2x32x16xf32>, %dv: memref<1x2x32x16xf32>, %db: memref<2x1x32xf32>, %ds: memref<2xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 8, block_key = 16>)
    outs(%dq, %dk, %dv, %db, %ds : memref<1x2x32x16xf32>, memref<1x2x32x16xf32>, memref<1x2x32x16xf32>, memref<2x1x32xf32>, memref<2xf32>)
    gradients(bias, sinks) bias(%b : memref<2x1x32xf32>) mask(%m : memref<32x32xi1>) sinks(%s : memref<2xf32>)
    : memref<1x2x32x16xf32>, memref<1x2x32x16xf32>, memref<1x2x32x16xf32>, memref<1x2x32x16xf32>, memref<1x2x32xf32>, memref<1x2x32x16xf32>
  return
}

// -----

// Other products are left alone.

// CHECK-LABEL: func.func @other
// CHECK:         scf.forall
#target = #attn.target<name = "h200", family = "cuda", arch = "sm_90a">
func.func @other(%q: memref<1x2x64x64xbf16>, %l: memref<1x2x64xf32>, %dq: memref<1x2x64x64xbf16>, %dk: memref<1x2x64x64xbf16>, %dv: memref<1x2x64x64xbf16>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q target(#target)
    tiling(#attn.tiling<block_query = 64, block_key = 128, groups = 2, product = "wgmma", query_gradient = "recomputed">)
    outs(%dq, %dk, %dv : memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>)
    : memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64x64xbf16>, memref<1x2x64xf32>, memref<1x2x64x64xbf16>
  return
}
