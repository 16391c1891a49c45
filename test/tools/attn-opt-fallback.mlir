// Where only a launch knows whether TMA takes the operands, an artifact holds a
// second kernel.

// RUN: attn-opt %s --target=h200 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=JSON < %t.ptx.json
// RUN: attn-opt %s --target=h200 --emit=configured > %t.configured.mlir
// RUN: attn-opt %t.configured.mlir --target=h200 --emit=ptx -o %t.again.ptx
// RUN: diff %t.ptx %t.again.ptx
// RUN: attn-opt %s --target=h200 --emit=mapped > %t.mapped.mlir
// RUN: FileCheck %s --check-prefix=MAPPED < %t.mapped.mlir
// RUN: attn-opt %t.mapped.mlir --target=h200 --emit=ptx -o %t.mapped.ptx
// RUN: FileCheck %s --check-prefix=MAPPED-JSON < %t.mapped.ptx.json

// CHECK-DAG: .entry attention(
// CHECK-DAG: .entry attention_fallback(
// CHECK-DAG: wgmma.mma_async
// CHECK-DAG: mma.sync

// JSON: "name": "attention"
// JSON: "entry": "attention"
// JSON: "tensor_maps"
// JSON: "otherwise": [
// JSON-NEXT: {
// JSON-NEXT: "entry": "attention_fallback"
// JSON-NOT: "tensor_maps"
// JSON: "workspace_bytes": "0"

// MAPPED-COUNT-1: gpu.module @attention_kernels
// MAPPED-NOT: gpu.module
// MAPPED-DAG: gpu.func @attention(
// MAPPED-DAG: gpu.func @attention_fallback({{.*}}attn.fallback = @attention

// MAPPED-JSON: "entry": "attention"
// MAPPED-JSON: "entry": "attention_fallback"

!open = memref<2x8x?x64xbf16, strided<[?, ?, ?, 1], offset: ?>>

func.func @attention(%q: !open, %k: !open, %v: !open, %o: !open) {
  attn.attention %q, %k, %v outs(%o : !open) : !open, !open, !open
  return
}
