// The kernel of a workgroup of subgroups: keys and values of each block through
// shared memory to cooperative matrices, the softmax on a thread's elements.
// RUN: attn-opt %s --split-input-file --attn-tile --attn-tiled-to-coop-matrix --cse --canonicalize | FileCheck %s

// CHECK-LABEL: gpu.module @causal_kernels
// CHECK-DAG:   spirv.GlobalVariable @shared_tiles : !spirv.ptr<!spirv.array<1152 x vector<4xi32>>, Workgroup>
// CHECK-DAG:   spirv.GlobalVariable @shared_rows : !spirv.ptr<!spirv.array<1280 x f32>, Workgroup>
// CHECK-DAG:   spirv.GlobalVariable @argument1_units bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xi32>, stride=16> [0]), Block>, StorageBuffer>
// CHECK-NOT:   _words
// CHECK:       gpu.func @causal(
// CHECK-SAME:    attn.launch = {grid = "2 * 3 * 2", shared_memory = 23552 : i64, subgroup_size = 32 : i64, tensor_maps = [], workgroup = 128 : i64}
//              Which elements of a matrix this thread holds.
// CHECK:         arith.uitofp
// CHECK:         spirv.ControlBarrier <Subgroup>, <Subgroup>
// CHECK:         %[[NUMBERS:.+]] = spirv.KHR.CooperativeMatrixLoad {{.+}} -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK:         %[[PLACE:.+]] = spirv.CompositeExtract %[[NUMBERS]][0 : i32]
// CHECK:         arith.fptoui %[[PLACE]]
//              Two slabs of queries, as left sides.
// CHECK:         spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK-COUNT-8: spirv.KHR.CooperativeMatrixLoad {{.+}}, <RowMajor>, <NonPrivatePointer> : {{.+}} -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
//              Blocks that the mask leaves alone have a loop of their own.
// CHECK:         scf.while
// CHECK:           scf.condition
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
//                Scores of four matrices, each of a depth of four.
// CHECK:           %[[KEYS:.+]] = spirv.KHR.CooperativeMatrixLoad {{.+}}, <ColumnMajor>, <NonPrivatePointer> : {{.+}} -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK-NEXT:      spirv.KHR.CooperativeMatrixMulAdd %{{.+}}, %[[KEYS]],
// CHECK-NEXT:      spirv.KHR.CooperativeMatrixMulAdd %{{.+}}, %[[KEYS]],
// CHECK:           spirv.ControlBarrier <Workgroup>, <Workgroup>
//                A new reference where one element of the subgroup calls for it.
// CHECK-NOT:       arith.cmpi sle
// CHECK:           spirv.GL.FMax
// CHECK:           %[[ANY:.+]] = spirv.GroupNonUniformAny <Subgroup>
// CHECK:           scf.if %[[ANY]]
// CHECK:             spirv.ControlBarrier <Subgroup>, <Subgroup>
// CHECK:             math.exp2
// CHECK:             spirv.FMul %{{.+}}, %{{.+}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK:           %[[P:.+]] = math.exp2 %{{.+}} fastmath<afn> : f32
//                Probabilities become a left side within the thread.
// CHECK:           %[[HALF:.+]] = spirv.FConvert %[[P]] : f32 to f16
// CHECK:           %[[LEFT:.+]] = spirv.CompositeInsert %[[HALF]], %{{.+}}[0 : i32] : f16 into !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK:           spirv.KHR.CooperativeMatrixLoad {{.+}}, <RowMajor>, <NonPrivatePointer> : {{.+}} -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd
//              Masks in blocks on an edge.
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:             arith.cmpi sle
// CHECK:             arith.select
// CHECK:           spirv.GroupNonUniformAny <Subgroup>
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd
//              The output through shared memory, in units.
// CHECK:         spirv.ControlBarrier <Workgroup>, <Workgroup>
// CHECK:         spirv.FConvert %{{.+}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK:         spirv.KHR.CooperativeMatrixStore {{.+}} !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK:         scf.for
// CHECK:           spirv.Store "StorageBuffer" %{{.+}} : vector<4xi32>
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @causal(%q: memref<2x3x256x64xf16>, %k: memref<2x3x256x64xf16>, %v: memref<2x3x256x64xf16>, %o: memref<2x3x256x64xf16>) {
  attn.attention %q, %k, %v causal target(#target)
    tiling(#attn.tiling<block_query = 128, block_key = 64, groups = 4, product = "coopmat", softmax = "conditional">)
    outs(%o : memref<2x3x256x64xf16>) : memref<2x3x256x64xf16>, memref<2x3x256x64xf16>, memref<2x3x256x64xf16>
  return
}

// -----

// A row of 59 elements has no whole units: it is read as words, and zeros fill
// it up to the depth of a matrix.

// CHECK-LABEL: gpu.module @odd_kernels
// CHECK:       spirv.GlobalVariable @argument{{.}}_words bind(0, {{.}}) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NOT:   _units
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "bf16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @odd(%q: memref<1x1x?x59xbf16>, %k: memref<1x1x?x59xbf16>, %v: memref<1x1x?x59xbf16>, %o: memref<1x1x?x59xbf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat">)
    outs(%o : memref<1x1x?x59xbf16>) : memref<1x1x?x59xbf16>, memref<1x1x?x59xbf16>, memref<1x1x?x59xbf16>
  return
}

// -----

// The target says where elements lie: a constant chooses a body in which a
// thread knows its two rows of a matrix, and lanes of a row exchange what they
// hold. The other body is that of an unknown layout.

// CHECK-LABEL: gpu.module @known_kernels
// CHECK:       spirv.SpecConstant @layout_is_known spec_id(0) = false
// CHECK:       gpu.func @known(
// CHECK-SAME:    layout_check = "known_layout"
// CHECK:         %[[KNOWN:.+]] = spirv.mlir.referenceof @layout_is_known : i1
// CHECK:         scf.if %[[KNOWN]]
// CHECK-NOT:       arith.uitofp
// CHECK:           scf.for
// CHECK:             spirv.GroupNonUniformAny <Subgroup>
// CHECK:             scf.if {{.+}} -> (f32, f32, f32, f32, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
// CHECK-NOT:           spirv.Store
// CHECK:               %[[ONE:.+]] = spirv.GroupNonUniformShuffleXor <Subgroup> %[[PART:.+]], %{{.+}} : f32, i32
// CHECK:               %[[PAIR:.+]] = spirv.GL.FMax %[[PART]], %[[ONE]]
// CHECK:               %[[TWO:.+]] = spirv.GroupNonUniformShuffleXor <Subgroup> %[[PAIR]], %{{.+}} : f32, i32
// CHECK:               spirv.GL.FMax %[[PAIR]], %[[TWO]]
// CHECK:         } else {
// CHECK:           arith.uitofp
// CHECK:           scf.if {{.+}} -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
//              The question to the device: an accumulator and a left side are made
//              of numbers, stored, and read as words.
// CHECK:       gpu.func @known_layout(%[[ANSWER:.+]]: memref<32xi32>) kernel
// CHECK:         spirv.KHR.CooperativeMatrixStore {{.+}} !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK:         spirv.KHR.CooperativeMatrixStore {{.+}} !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK:         spirv.Load "Workgroup" %{{.+}} ["NonPrivatePointer"] : vector<4xi32>
// CHECK:         memref.store %{{.+}}, %[[ANSWER]]
#target = #attn.target<name = "vulkan-coopmat", family = "vulkan", arch = "vulkan1.3", capabilities = ["matrix_layout_shared"], matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], matrix_layout = [1, 8, 128, 2, 4, 16, 32, 64], subgroup_size = 32>
func.func @known(%q: memref<1x1x256x16xf16>, %k: memref<1x1x256x16xf16>, %v: memref<1x1x256x16xf16>, %o: memref<1x1x256x16xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat", softmax = "conditional">)
    outs(%o : memref<1x1x256x16xf16>) : memref<1x1x256x16xf16>, memref<1x1x256x16xf16>, memref<1x1x256x16xf16>
  return
}

// -----

// Left sides lie otherwise than accumulators: probabilities become one through
// the memory that rows are reduced in.

// CHECK-LABEL: gpu.module @apart_kernels
// CHECK:       gpu.func @apart(
// CHECK:         scf.for
// CHECK:           %[[HALVES:.+]] = spirv.FConvert %{{.+}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK:           spirv.ControlBarrier <Subgroup>, <Subgroup>
// CHECK:           spirv.KHR.CooperativeMatrixStore %{{.+}}, %[[HALVES]]
// CHECK:           spirv.ControlBarrier <Subgroup>, <Subgroup>
// CHECK:           %[[LEFT:.+]] = spirv.KHR.CooperativeMatrixLoad {{.+}} -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK:           spirv.KHR.CooperativeMatrixMulAdd %[[LEFT]],
#target = #attn.target<name = "amd", family = "vulkan", arch = "vulkan1.3", matrix_units = [["coopmat", "f16", 16, 16, 16, 1]], subgroup_size = 32>
func.func @apart(%q: memref<1x1x256x16xf16>, %k: memref<1x1x256x16xf16>, %v: memref<1x1x256x16xf16>, %o: memref<1x1x256x16xf16>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16, product = "coopmat", softmax = "conditional">)
    outs(%o : memref<1x1x256x16xf16>) : memref<1x1x256x16xf16>, memref<1x1x256x16xf16>, memref<1x1x256x16xf16>
  return
}

// -----

// Another product is somebody else's.

// CHECK-LABEL: func.func @lanes
// CHECK:         scf.forall
#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
func.func @lanes(%q: memref<1x1x64x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x64x16xf32>) {
  attn.attention %q, %k, %v target(#target)
    tiling(#attn.tiling<block_query = 16, block_key = 16>)
    outs(%o : memref<1x1x64x16xf32>) : memref<1x1x64x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}
