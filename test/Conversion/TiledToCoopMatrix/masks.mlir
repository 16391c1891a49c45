// What hides whole keys, and whole blocks.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-coop-matrix | FileCheck %s

// Ids of segments: a subgroup reduces those of a block; a block whose ids do
// not meet those of the rows is not visited, so keys are fetched where one is.

// CHECK-LABEL: gpu.module @segments_kernels
// CHECK:       spirv.GlobalVariable @shared_seen : !spirv.ptr<!spirv.array<2 x i32>, Workgroup>
// CHECK:       scf.for {{.+}} iter_args
// CHECK:         spirv.GroupNonUniformShuffleXor
// CHECK:         %[[MEETS:.+]] = arith.andi
// CHECK:         scf.if %[[MEETS]]
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
//                  The words of the block before are forgotten.
// CHECK:           spirv.mlir.addressof @shared_seen
// CHECK:           spirv.Store
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd
//                  Each thread adds a bit for every key that its rows see.
// CHECK:           arith.shli
// CHECK:           spirv.AtomicOr <Workgroup> <None>
//                  Values of others are zeros.
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:           %[[WORD:.+]] = spirv.Load "Workgroup" %{{.+}} ["NonPrivatePointer"] : i32
// CHECK:           arith.shrui %[[WORD]]
// CHECK:           arith.select %{{.+}}, %{{.+}}, %{{.+}} : vector<4xi32>
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @segments(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>, %ids: memref<1x64xi32>) {
  attn.attention %q, %k, %v segments(%ids, %ids : memref<1x64xi32>, memref<1x64xi32>) target(#target)
    tiling(#attn.tiling<block_query = 32, block_key = 32, groups = 2, product = "coopmat", softmax = "conditional">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}

// -----

// A mask of elements: the workgroup votes whether a block is reached.

// CHECK-LABEL: gpu.module @mask_kernels
// CHECK:       scf.for {{.+}} iter_args
// CHECK:         spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:         spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:         scf.if
// CHECK:           spirv.AtomicOr <Workgroup> <None>
// CHECK:         spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:         %[[VOTE:.+]] = spirv.Load "Workgroup" %{{.+}} ["NonPrivatePointer"] : i32
// CHECK:         arith.cmpi eq, %[[VOTE]]
// CHECK:         scf.if
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @mask(%q: memref<1x1x64x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x64x16xf16>, %m: memref<64x64xi1>) {
  attn.attention %q, %k, %v mask(%m : memref<64x64xi1>) target(#target)
    tiling(#attn.tiling<block_query = 32, block_key = 32, groups = 2, product = "coopmat", softmax = "conditional">)
    outs(%o : memref<1x1x64x16xf16>) : memref<1x1x64x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}
