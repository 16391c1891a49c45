// A call that the driver would not find is a line here, not a failure there.

// RUN: not attn-opt %s --target=h200 --emit=ptx 2>&1 | FileCheck %s
// RUN: not attn-opt %s --target=h200 --emit=ptx 2>&1 | count 1
// CHECK: attn-opt: error: the kernel calls '__nv_fmodf', which nothing defines on a GPU; keep to arith and math of f16, bf16 and f32

gpu.module @attention_kernels {
  gpu.func @kernel(%out: memref<4xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 32 : i64, shared_memory = 0 : i64}} {
    %c0 = arith.constant 0 : index
    %x = memref.load %out[%c0] : memref<4xf32>
    %y = arith.remf %x, %x : f32
    memref.store %y, %out[%c0] : memref<4xf32>
    gpu.return
  }
}
