// Debian's own mlir-opt learns the dialect and the passes from the plugin.
// RUN: mlir-opt %s --load-dialect-plugin=%attn_plugin | FileCheck %s --check-prefix=DIALECT
// RUN: mlir-opt %s --load-dialect-plugin=%attn_plugin --load-pass-plugin=%attn_plugin \
// RUN:   --pass-pipeline='builtin.module(attn-to-tiled{target=cpu:avx2})' | FileCheck %s
// RUN: mlir-opt %s --load-dialect-plugin=%attn_plugin --load-pass-plugin=%attn_plugin \
// RUN:   --pass-pipeline='builtin.module(attn-to-cpu{target=cpu:avx2})' | FileCheck %s --check-prefix=CPU
// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// The upstream libraries are shared with mlir-opt, not linked a second time.
// RUN: llvm-nm --defined-only %attn_plugin | FileCheck %s --check-prefix=SYMBOLS
// SYMBOLS: mlirGetDialectPluginInfo
// SYMBOLS-NOT: {{[TW]}} _ZN4mlir11MLIRContextC{{[12]}}

// DIALECT: attn.attention
// WITHOUT: Dialect `attn' not found

// CHECK-LABEL: func.func @attention
// CHECK-NOT: attn.attention
// CHECK: scf.forall
// CHECK: attn.role = "tasks"

// CPU: llvm.func @attention
// CPU: omp.parallel
// CPU-NOT: attn.
func.func @attention(%q: tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32> {
  %o = attn.attention %q, %q, %q causal
    : tensor<1x8x512x64xf32>, tensor<1x8x512x64xf32>, tensor<1x8x512x64xf32> -> tensor<1x8x512x64xf32>
  return %o : tensor<1x8x512x64xf32>
}
