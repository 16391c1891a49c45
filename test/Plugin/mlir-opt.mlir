// Debian's own mlir-opt learns the dialect and the passes from the plugin.
// RUN: mlir-opt %s --load-dialect-plugin=%attn_plugin | FileCheck %s --check-prefix=DIALECT
// RUN: mlir-opt %s --load-dialect-plugin=%attn_plugin --load-pass-plugin=%attn_plugin \
// RUN:   --pass-pipeline='builtin.module(func.func(canonicalize,attn-tile))' | FileCheck %s
// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// The upstream libraries are shared with mlir-opt, not linked a second time.
// RUN: llvm-nm --defined-only %attn_plugin | FileCheck %s --check-prefix=SYMBOLS
// SYMBOLS: mlirGetDialectPluginInfo
// SYMBOLS-NOT: {{[TW]}} _ZN4mlir11MLIRContextC{{[12]}}

// DIALECT: attn.attention
// WITHOUT: Dialect `attn' not found

// The window is dropped by the op's canonicalisation, the op by the tiling.
// CHECK-LABEL: func @attention
// CHECK-NOT: attn.attention
// CHECK: scf.forall
func.func @attention(%q: memref<1x2x64x16xf32>, %o: memref<1x2x64x16xf32>) {
  attn.attention %q, %q, %q window(63, 63) tiling(#attn.tiling<block_query = 16, block_key = 32>)
    outs(%o : memref<1x2x64x16xf32>) : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>
  return
}
