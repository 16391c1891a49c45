// The same mapped form as a kernel of OpenCL: pointers and scalars as
// arguments, quads by a pointer of another type, work items counted in 64 bits.
// RUN: attn-opt %s --target=opencl --emit=spirv | FileCheck %s

// CHECK:      spirv.module @causal_kernels Physical64 OpenCL requires #spirv.vce<v1.0, [Int64, Kernel, Addresses], []>
// CHECK-NOT:  StorageBuffer
// CHECK-NOT:  PushConstant
// CHECK-DAG:  spirv.GlobalVariable @[[ITEM:.+]] built_in("LocalInvocationId") : !spirv.ptr<vector<3xi64>, Input>
// CHECK-DAG:  spirv.GlobalVariable @{{.+}} : !spirv.ptr<!spirv.array<{{[0-9]+}} x vector<4xf32>>, Workgroup>
// CHECK:      spirv.func @causal(%[[QUERY:[^:]+]]: !spirv.ptr<!spirv.struct<(!spirv.array<536870912 x i32>)>, CrossWorkgroup>,
// CHECK-SAME:   %{{[^:]+}}: i32)
// CHECK-NOT:    spirv.GL.
// CHECK:        spirv.Bitcast {{.+}} to !spirv.ptr<!spirv.struct<(!spirv.array<268435456 x vector<2xi32>>)>, CrossWorkgroup>
// CHECK:        spirv.CL.fma
// CHECK:      spirv.ExecutionMode @causal "ContractionOff"
// CHECK:      spirv.EntryPoint "Kernel" @causal
func.func @causal(%q: memref<1x2x256x64xf16>, %k: memref<1x2x256x64xf16>, %v: memref<1x2x256x64xf16, strided<[?, 16384, 64, 1]>>, %o: memref<1x2x256x64xf16>) {
  attn.attention %q, %k, %v causal outs(%o : memref<1x2x256x64xf16>)
    : memref<1x2x256x64xf16>, memref<1x2x256x64xf16>, memref<1x2x256x64xf16, strided<[?, 16384, 64, 1]>>
  return
}
