// RUN: attn-opt %s --split-input-file --attn-mapped-to-spirv --verify-diagnostics

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
gpu.module @doubles_kernels attributes {attn.target = #target} {
  gpu.func @doubles(%a: memref<8xf64>, %o: memref<8xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<8xf64>
    // expected-error @+1 {{computes in f64, which 'vulkan' has not; round to f32 first}}
    %y = arith.addf %x, %x : f64
    %r = arith.truncf %y : f64 to f32
    memref.store %r, %o[%i] : memref<8xf32>
    gpu.return
  }
}

// -----

// expected-error @+1 {{expects attn.target, as attn-tiled-to-spirv leaves it}}
gpu.module @target_kernels {
  gpu.func @target() kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
gpu.module @scalar_kernels attributes {attn.target = #target} {
  // expected-error @+1 {{expects memrefs as arguments, got 'i32'}}
  gpu.func @scalar(%a: i32) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
gpu.module @view_kernels attributes {attn.target = #target} {
  gpu.func @view(%a: memref<8xf32>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    // expected-error @+1 {{has no meaning in a SPIR-V kernel; expected loads and stores}}
    %v = memref.subview %a[1][4][1] : memref<8xf32> to memref<4xf32, strided<[1], offset: 1>>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
gpu.module @bytes_kernels attributes {attn.target = #target} {
  gpu.func @bytes(%a: memref<8xi8>) kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    %i = gpu.thread_id x
    %zero = arith.constant 0 : i8
    // expected-error @+1 {{cannot store 'i8' on a Vulkan device; expected f16, bf16, f32, f64 or i32}}
    memref.store %zero, %a[%i] : memref<8xi8>
    gpu.return
  }
}

// -----

#target = #attn.target<name = "vulkan", family = "vulkan", arch = "vulkan1.1">
gpu.module @private_kernels attributes {attn.target = #target} {
  gpu.func @private() kernel
      attributes {attn.launch = {grid = "1", workgroup = 8 : i64, shared_memory = 0 : i64}} {
    // expected-error @+1 {{expected workgroup memory of one fixed size}}
    %a = memref.alloc() : memref<8xf32>
    gpu.return
  }
}
