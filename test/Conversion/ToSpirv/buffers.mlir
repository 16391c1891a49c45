// How arguments become buffers, and what the types leave open scalars.
// RUN: attn-opt %s --split-input-file --attn-mapped-to-spirv | FileCheck %s

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// Sizes, strides and the offset, argument by argument, as push
// constants. The kernel's own name is its entry point's.

// CHECK-LABEL: spirv.module @scalars_kernels Logical GLSL450
// CHECK-DAG:     spirv.GlobalVariable @arg0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-DAG:     spirv.GlobalVariable @arg1 bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-DAG:     spirv.GlobalVariable @scalars_ : !spirv.ptr<!spirv.struct<(!spirv.array<3 x i32, stride=4> [0])>, PushConstant>
// CHECK:         spirv.func @scalars() "None"
// CHECK-SAME:      spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [32, 1, 1]>
gpu.module @scalars_kernels attributes {attn.target = #target} {
  gpu.func @scalars(%a: memref<?x4xf32, strided<[?, 1], offset: ?>>, %o: memref<8xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 32 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %zero = arith.constant 0 : index
    %x = memref.load %a[%i, %zero] : memref<?x4xf32, strided<[?, 1], offset: ?>>
    memref.store %x, %o[%i] : memref<8xf32>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// More than 128 bytes of scalars are a buffer behind those of the arguments.

// CHECK-LABEL: spirv.module @many_kernels
// CHECK:         spirv.GlobalVariable @scalars bind(0, 4) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
gpu.module @many_kernels attributes {attn.target = #target} {
  gpu.func @many(%a: memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>, %b: memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>,
                 %c: memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>, %o: memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 32 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i, %i, %i, %i] : memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>
    memref.store %x, %o[%i, %i, %i, %i] : memref<?x?x?x?xf32, strided<[?, ?, ?, ?], offset: ?>>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// Half a word: read by a shift, rounded to nearest, written by atomics that
// leave the other half alone.

// CHECK-LABEL: spirv.func @halves
// CHECK:         spirv.Load "StorageBuffer" %{{.+}} : i32
// CHECK:         spirv.ShiftRightLogical
// CHECK:         spirv.GL.UnpackHalf2x16
// CHECK:         spirv.FAdd {{.+}}no_contraction
// CHECK-NOT:     spirv.GL.PackHalf2x16
// CHECK:         spirv.AtomicAnd <Device> <None>
// CHECK:         spirv.AtomicOr <Device> <None>
gpu.module @halves_kernels attributes {attn.target = #target} {
  gpu.func @halves(%a: memref<8xf16>, %o: memref<8xbf16>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<8xf16>
    %w = arith.extf %x : f16 to f32
    %s = arith.addf %w, %w : f32
    %r = arith.truncf %s : f32 to bf16
    memref.store %r, %o[%i] : memref<8xbf16>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// Pairs fill whole words: no atomics where the first index is even.

// CHECK-LABEL: spirv.func @pairs
// CHECK-NOT:     spirv.Atomic
// CHECK:         spirv.Store "StorageBuffer"
// CHECK-NOT:     spirv.Atomic
gpu.module @pairs_kernels attributes {attn.target = #target} {
  gpu.func @pairs(%a: memref<16xf16>, %o: memref<16xf16>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 4 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %four = arith.constant 4 : index
    %at = arith.muli %i, %four : index
    %x = vector.load %a[%at] : memref<16xf16>, vector<4xf16>
    vector.store %x, %o[%at] : memref<16xf16>, vector<4xf16>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// A quad of an input that begins at a multiple of four comes by one load.

// CHECK-LABEL: spirv.module @quads_kernels
// CHECK:         spirv.GlobalVariable @quads0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xi32>, stride=8> [0])>, StorageBuffer>
// CHECK:         spirv.Load "StorageBuffer" %{{.+}} : vector<2xi32>
gpu.module @quads_kernels attributes {attn.target = #target} {
  gpu.func @quads(%a: memref<16xbf16>, %o: memref<4xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 4 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %four = arith.constant 4 : index
    %at = arith.muli %i, %four : index
    %x = vector.load %a[%at] : memref<16xbf16>, vector<4xbf16>
    %first = vector.extract %x[0] : bf16 from vector<4xbf16>
    %w = arith.extf %first : bf16 to f32
    memref.store %w, %o[%i] : memref<4xf32>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// Bytes, and numbers of 64 bits without Int64: two words.

// CHECK-LABEL: spirv.func @integers
// CHECK-SAME:    workgroup_size
// CHECK-NOT:     i8
// CHECK-NOT:     i64
// CHECK:         spirv.BitwiseAnd
// CHECK:         spirv.INotEqual
// CHECK:         spirv.CompositeConstruct %{{.+}}, %{{.+}} : (i32, i32) -> vector<2xi32>
// CHECK-NOT:     i64
gpu.module @integers_kernels attributes {attn.target = #target} {
  gpu.func @integers(%a: memref<8xi1>, %b: memref<8xi64>, %o: memref<8xi32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<8xi1>
    %y = memref.load %b[%i] : memref<8xi64>
    %zero = arith.constant 0 : i64
    %s = arith.select %x, %y, %zero : i64
    %r = arith.trunci %s : i64 to i32
    memref.store %r, %o[%i] : memref<8xi32>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">

// An f64 is read as the nearest f32 where the device has no other.

// CHECK-LABEL: spirv.func @doubles
// CHECK-NOT:     f64
// CHECK:         spirv.Bitcast %{{.+}} : i32 to f32
// CHECK-NOT:     f64
gpu.module @doubles_kernels attributes {attn.target = #target} {
  gpu.func @doubles(%a: memref<8xf64>, %o: memref<8xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<8xf64>
    %r = arith.truncf %x : f64 to f32
    memref.store %r, %o[%i] : memref<8xf32>
    gpu.return
  }
}
