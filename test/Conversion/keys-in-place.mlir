// A few rows multiply keys and values as they lie: a sum across the lanes for
// each score, no workspace.

// RUN: attn-opt %s --target=cpu:avx512 --emit=mapped | FileCheck %s

// CHECK-LABEL: func.func @decode
// CHECK-NOT:   memref.alloc(
// CHECK:       omp.parallel
// CHECK:         %[[SUMS:.+]]:4 = scf.for %{{.+}} = %{{.+}} to %c128 step %c16 iter_args
// CHECK:           vector.fma
// CHECK:         vector.reduction <add>, %[[SUMS]]#0 fastmath<reassoc>
// CHECK-NOT:   memref.alloc(
func.func @decode(%q: tensor<1x2x1x128xbf16>, %k: tensor<1x2x512x128xbf16>,
                  %v: tensor<1x2x512x64xbf16>) -> tensor<1x2x1x64xbf16> {
  %o = attn.attention %q, %k, %v
      : tensor<1x2x1x128xbf16>, tensor<1x2x512x128xbf16>, tensor<1x2x512x64xbf16>
      -> tensor<1x2x1x64xbf16>
  return %o : tensor<1x2x1x64xbf16>
}
