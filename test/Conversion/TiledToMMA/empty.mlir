// Without a batch nothing is launched, and there is a kernel to say so.
// RUN: attn-opt %s --target=sm_80 --emit=mapped | FileCheck %s
// RUN: attn-opt %s --target=sm_80 --emit=ptx -o %t.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH < %t.ptx.json

// CHECK: gpu.func @f(
// CHECK-SAME: attn.launch = {grid = "0", shared_memory = 0 : i64, workgroup = 32 : i64}
// CHECK-NEXT: gpu.return
// LAUNCH: "0"
func.func @f(%q: memref<0x4x?x64xbf16>, %k: memref<0x4x?x64xbf16>, %v: memref<0x4x?x64xbf16>, %o: memref<0x4x?x64xbf16>) {
  attn.attention %q, %k, %v outs(%o : memref<0x4x?x64xbf16>) : memref<0x4x?x64xbf16>, memref<0x4x?x64xbf16>, memref<0x4x?x64xbf16>
  return
}
