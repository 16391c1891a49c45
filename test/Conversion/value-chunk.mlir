// Values are multiplied in chunks of two thirds of L1, 48 KiB here: 128 keys of
// 64 f32, 64 keys of 128.

// RUN: sed 's/DIM/64/g' %s | attn-opt - --target=cpu:amx --emit=mapped | FileCheck %s --check-prefixes=CHECK,D64
// RUN: sed 's/DIM/128/g' %s | attn-opt - --target=cpu:amx --emit=mapped | FileCheck %s --check-prefixes=CHECK,D128

// CHECK-LABEL: func.func @attention
// CHECK:       omp.parallel
// D64:           scf.for %{{.+}} = %c0 to %{{.+}} step %c128 {
// D64:             scf.for %[[COLUMN:.+]] = %c0 to %c64 step %c64 {
// D128:          scf.for %{{.+}} = %c0 to %{{.+}} step %c64 {
// D128-NEXT:         %c128 =
// D128-NEXT:         scf.for %[[COLUMN:.+]] = %c0 to %c128 step %c64 {
func.func @attention(%q: tensor<1x2x512xDIMxf32>, %k: tensor<1x2x512xDIMxf32>,
                     %v: tensor<1x2x512xDIMxf32>) -> tensor<1x2x512xDIMxf32> {
  %o = attn.attention %q, %k, %v
      : tensor<1x2x512xDIMxf32>, tensor<1x2x512xDIMxf32>, tensor<1x2x512xDIMxf32>
      -> tensor<1x2x512xDIMxf32>
  return %o : tensor<1x2x512xDIMxf32>
}
