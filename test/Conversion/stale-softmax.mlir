// A stale reference: P by the maximum that there is, a vote on what the block
// adds to the sums, and the block again by its own maximum where that calls.

// RUN: sed 's/PRODUCT/amx/' %s | attn-opt - --target=cpu:amx --emit=mapped | FileCheck %s --check-prefixes=CHECK,AMX
// RUN: sed 's/PRODUCT/dot/' %s | attn-opt - --target=cpu:amx --emit=mapped | FileCheck %s --check-prefixes=CHECK,DOT

// CHECK-LABEL: func.func @attention
// CHECK:       omp.parallel
// Keys in reach, and whether they are the first ones: those have no reference.
// CHECK:         scf.for %[[START:.+]] = %[[FIRST:.+]] to %{{.+}} step %c64
// CHECK:           %[[IS_FIRST:.+]] = arith.cmpi eq, %[[START]], %[[FIRST]]
// CHECK:           %[[IS_BAD:.+]] = scf.if %[[IS_FIRST]] -> (i1) {
// CHECK-NEXT:        scf.yield %true
// CHECK:           } else {
// Patches of scores by tiles, of probabilities by rows, two pieces to a store.
// AMX:               llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// AMX:               llvm.call_intrinsic "llvm.x86.tilestored64"
// AMX-COUNT-2:       llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
// AMX:               llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
// Probabilities of a register tile before they are ever stored as scores.
// DOT:               llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// DOT:               llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"
// CHECK-NOT:         arith.cmpf ogt
// CHECK:             scf.for {{.*}} -> (vector<16xi1>) {
// CHECK-NEXT:          %[[OLD:.+]] = vector.load
// CHECK-NEXT:          %[[ADDED:.+]] = vector.load
// CHECK-NEXT:          %[[SUM:.+]] = arith.addf %[[OLD]], %[[ADDED]]
// CHECK:               %[[MOST:.+]] = arith.addf %[[OLD]], %{{.+}} : vector<16xf32>
// CHECK-NEXT:          arith.cmpf ugt, %[[SUM]], %[[MOST]]
// CHECK:             %[[VOTE:.+]] = vector.reduction <or>
// CHECK:             scf.yield %[[VOTE]]
// CHECK:           scf.if %[[IS_BAD]] {
// The maximum, and what it corrects.
// CHECK:             arith.cmpf ogt
// CHECK:             vector.reduction <maxnumf>
// CHECK:           } else {
// The sums are kept.
// CHECK:             scf.for
// CHECK-NEXT:          %[[KEPT:.+]] = vector.load
// CHECK-NEXT:          vector.store %[[KEPT]]
func.func @attention(%q: tensor<1x2x512x64xbf16>, %k: tensor<1x2x512x64xbf16>,
                     %v: tensor<1x2x512x64xbf16>) -> tensor<1x2x512x64xbf16> {
  %o = attn.attention %q, %k, %v
      tiling(#attn.tiling<block_query = 64, block_key = 64, product = "PRODUCT",
        register_rows = 6, register_columns = 64, pack = true, softmax = "stale">)
      : tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>, tensor<1x2x512x64xbf16>
      -> tensor<1x2x512x64xbf16>
  return %o : tensor<1x2x512x64xbf16>
}
