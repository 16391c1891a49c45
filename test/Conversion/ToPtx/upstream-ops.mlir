// What mappings are made of goes down to machine code on every chip, with
// nothing left to resolve: loops that carry tiles, masked and gathered reads,
// reductions, shared memory, shuffles, f16 and bf16, every function.

// RUN: attn-opt %s --target=sm_80 --emit=ptx | FileCheck %s --implicit-check-not=__nv_ --implicit-check-not=.func
// RUN: attn-opt %s --target=sm_90a --emit=ptx | FileCheck %s --implicit-check-not=__nv_ --implicit-check-not=.func
// RUN: attn-opt %s --target=sm_100a --emit=ptx | FileCheck %s --implicit-check-not=__nv_ --implicit-check-not=.func
// CHECK: .visible .entry kernel(
// CHECK-DAG: ex2.approx.ftz.f32
// CHECK-DAG: st.shared.v{{[24]}}
// CHECK-DAG: tanh.approx.f32

module {
  gpu.module @attention_kernels {
    gpu.func @kernel(%in: memref<?x?xbf16, strided<[?, 1], offset: ?>>, %bias: memref<?xf32>,
                     %columns: memref<?xi32>, %out: memref<?x?xf32>) kernel
        attributes {attn.launch = {grid = "ceildiv(arg0_dim0, 32)", workgroup = 32 : i64,
                                   shared_memory = 4096 : i64}} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %zero_bf16 = arith.constant 0.0 : bf16
      %zero = arith.constant 0.0 : f32
      %zeros = arith.constant dense<0.0> : vector<4x8xf32>
      %none = arith.constant dense<0.0> : vector<8xf32>
      %seed = arith.constant dense<0> : vector<8xi32>
      %width = memref.dim %in, %c1 : memref<?x?xbf16, strided<[?, 1], offset: ?>>
      %thread = gpu.thread_id x
      %block = gpu.block_id x
      %row = affine.apply affine_map<(b, t) -> (b * 32 + t)>(%block, %thread)
      %memory = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %tile = memref.view %memory[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<32x8xf32, #gpu.address_space<workgroup>>
      %rows = memref.subview %in[%row, 0] [4, %width] [1, 1]
        : memref<?x?xbf16, strided<[?, 1], offset: ?>> to memref<4x?xbf16, strided<[?, 1], offset: ?>>
      %visible = vector.create_mask %width : vector<8xi1>
      %sum = scf.for %j = %c0 to %width step %c8 iter_args(%acc = %zeros) -> (vector<4x8xf32>) {
        %part = vector.transfer_read %rows[%c0, %j], %zero_bf16 {in_bounds = [true, false]}
          : memref<4x?xbf16, strided<[?, 1], offset: ?>>, vector<4x8xbf16>
        %wide = arith.extf %part : vector<4x8xbf16> to vector<4x8xf32>
        %powers = math.exp2 %wide fastmath<afn> : vector<4x8xf32>
        %next = arith.addf %acc, %powers : vector<4x8xf32>
        scf.yield %next : vector<4x8xf32>
      }
      %row_sum = vector.multi_reduction <add>, %sum, %none [0] : vector<4x8xf32> to vector<8xf32>
      %index = vector.maskedload %columns[%c0], %visible, %seed : memref<?xi32>, vector<8xi1>, vector<8xi32> into vector<8xi32>
      %gathered = vector.gather %bias[%c0] [%index], %visible, %none
        : memref<?xf32>, vector<8xi32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
      %biased = arith.addf %row_sum, %gathered : vector<8xf32>
      vector.store %biased, %tile[%thread, %c0] : memref<32x8xf32, #gpu.address_space<workgroup>>, vector<8xf32>
      gpu.barrier
      %other = vector.load %tile[%c1, %c0] : memref<32x8xf32, #gpu.address_space<workgroup>>, vector<8xf32>
      %mask = arith.constant -1 : i32
      %lane = arith.constant 1 : i32
      %clamp = arith.constant 31 : i32
      %first = vector.extract %other[0] : f32 from vector<8xf32>
      %shuffled = nvvm.shfl.sync bfly %mask, %first, %lane, %clamp : f32 -> f32
      %row_max = vector.reduction <maxnumf>, %other, %shuffled : vector<8xf32> into f32

      %f0 = math.exp %row_max : f32
      %f1 = math.log2 %f0 : f32
      %f2 = math.log %f1 : f32
      %f3 = math.tanh %f2 : f32
      %f4 = math.tanh %f3 fastmath<afn> : f32
      %f5 = math.sin %f4 : f32
      %f6 = math.cos %f5 fastmath<afn> : f32
      %f7 = math.powf %f6, %row_max : f32
      %f8 = math.erf %f7 : f32
      %f9 = math.rsqrt %f8 : f32
      %f10 = math.sqrt %f9 : f32
      %f11 = math.atan2 %f10, %row_max : f32
      %f12 = math.sinh %f11 : f32
      %f13 = math.expm1 %f12 : f32
      %f14 = math.log1p %f13 : f32
      %f15 = math.roundeven %f14 : f32
      %small = arith.truncf %f15 : f32 to f16
      %f16 = math.tanh %small : f16
      %f17 = arith.extf %f16 : f16 to f32
      memref.store %f17, %out[%row, %c0] : memref<?x?xf32>
      gpu.return
    }
  }
}
