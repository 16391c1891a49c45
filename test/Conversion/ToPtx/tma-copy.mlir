// A kernel as a mapping leaves it, written by hand: each block moves one tile
// of 64 rows through shared memory by TMA. Lowered, assembled and described.

// RUN: attn-opt %s --target=h200 --emit=llvm | FileCheck %s --check-prefix=LLVM
// LLVM: llvm.mlir.global external @__dynamic_shmem__0() {addr_space = 3 : i32, alignment = 1024 : i64}
// LLVM: llvm.func @copy(
// LLVM-SAME: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}
// LLVM-SAME: nvvm.kernel
// LLVM-SAME: nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 128, 1, 1>
// LLVM-NOT: unrealized_conversion_cast

// RUN: attn-opt %s --target=h200 --emit=ptx | FileCheck %s --check-prefix=PTX
// PTX: .version 8.6
// PTX: .target sm_90a
// PTX: .extern .shared .align 1024 .b8 __dynamic_shmem__0[]
// PTX: .visible .entry copy(
// PTX: .param .align 64 .b8 copy_param_22[128]
// PTX: .reqntid 128
// PTX: .minnctapersm 1
// PTX: cp.async.bulk.tensor.4d.shared
// PTX-NOT: .local

// RUN: rm -rf %t && mkdir %t
// RUN: attn-opt %s --target=h200 --emit=ptx -o %t/copy.ptx
// RUN: FileCheck %s --check-prefix=JSON < %t/copy.ptx.json
// JSON: "format": "ptx"
// JSON: "entry": "copy"
// JSON: "target": "h200"
// JSON: "triple": "nvptx64-nvidia-cuda"
// JSON: "arch": "sm_90a"
// JSON: "features": "+ptx86"
// JSON: "abi": "memref-parameters"
// JSON: "name": "arg0"
// JSON: "arg0_dim0"
// JSON: 64
// JSON: "strides"
// JSON: "any"
// JSON: "access": "inout"
// JSON: "tensor_maps"
// JSON: "argument": 0
// JSON: "box": [
// JSON-NEXT: 1
// JSON-NEXT: 1
// JSON-NEXT: 64
// JSON-NEXT: 64
// JSON: "swizzle": 128
// JSON: "argument": 1
// JSON: "grid": [
// JSON-NEXT: "arg0_dim0 * arg0_dim1 * ceildiv(arg0_dim2, 64)"
// JSON: "workgroup": [
// JSON-NEXT: "128"
// JSON: "shared_memory_bytes": "8208"

module {
  gpu.module @attention_kernels {
    gpu.func @copy(%from: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>,
                   %to: memref<?x?x?x64xbf16>, %from_map: !llvm.ptr, %to_map: !llvm.ptr) kernel
        attributes {attn.launch = {
          grid = "arg0_dim0 * arg0_dim1 * ceildiv(arg0_dim2, 64)",
          workgroup = 128 : i64, shared_memory = 8208 : i64,
          tensor_maps = [{argument = 0 : i64, box = [1, 1, 64, 64], swizzle = 128 : i64},
                         {argument = 1 : i64, box = [1, 1, 64, 64], swizzle = 128 : i64}]}} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c64 = arith.constant 64 : index
      %barrier_offset = arith.constant 8192 : index
      %heads = memref.dim %from, %c1 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
      %rows = memref.dim %from, %c2 : memref<?x?x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
      %tiles = arith.ceildivui %rows, %c64 : index
      %block = gpu.block_id x
      %tile = arith.remui %block, %tiles : index
      %row = arith.muli %tile, %c64 : index
      %rest = arith.divui %block, %tiles : index
      %head = arith.remui %rest, %heads : index
      %batch = arith.divui %rest, %heads : index
      %row_i32 = arith.index_cast %row : index to i32
      %head_i32 = arith.index_cast %head : index to i32
      %batch_i32 = arith.index_cast %batch : index to i32
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %bytes = arith.constant 8192 : i32
      %ticks = arith.constant 10000000 : i32

      %memory = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %tile_view = memref.view %memory[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<64x64xbf16, #gpu.address_space<workgroup>>
      %barrier_view = memref.view %memory[%barrier_offset][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<1xi64, #gpu.address_space<workgroup>>
      %tile_index = memref.extract_aligned_pointer_as_index %tile_view : memref<64x64xbf16, #gpu.address_space<workgroup>> -> index
      %tile_i64 = arith.index_cast %tile_index : index to i64
      %tile_pointer = llvm.inttoptr %tile_i64 : i64 to !llvm.ptr<3>
      %barrier_index = memref.extract_aligned_pointer_as_index %barrier_view : memref<1xi64, #gpu.address_space<workgroup>> -> index
      %barrier_i64 = arith.index_cast %barrier_index : index to i64
      %barrier = llvm.inttoptr %barrier_i64 : i64 to !llvm.ptr<3>

      %thread = gpu.thread_id x
      %is_first = arith.cmpi eq, %thread, %c0 : index
      scf.if %is_first {
        nvvm.mbarrier.init %barrier, %one : !llvm.ptr<3>, i32
        nvvm.fence.mbarrier.init
        nvvm.mbarrier.arrive.expect_tx %barrier, %bytes : !llvm.ptr<3>, i32
        nvvm.cp.async.bulk.tensor.shared.cluster.global %tile_pointer, %from_map, %barrier, box[%zero, %row_i32, %head_i32, %batch_i32] {isCTAOnly = true} : !llvm.ptr<3>, !llvm.ptr
      }
      gpu.barrier
      nvvm.mbarrier.try_wait.parity %barrier, %zero, %ticks : !llvm.ptr<3>, i32, i32
      scf.if %is_first {
        nvvm.cp.async.bulk.tensor.global.shared.cta %to_map, %tile_pointer, box[%zero, %row_i32, %head_i32, %batch_i32] : !llvm.ptr, !llvm.ptr<3>
        nvvm.cp.async.bulk.commit.group
        nvvm.cp.async.bulk.wait_group 0
      }
      gpu.return
    }
  }
}
