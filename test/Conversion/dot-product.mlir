// A dot product takes pairs: two elements of a key, two keys of a column.

// RUN: attn-opt %s --target=cpu:avx512-bf16 --emit=mapped | FileCheck %s --check-prefixes=CHECK,X86
// RUN: attn-opt %s --target=cpu:neon-bf16 --emit=mapped | FileCheck %s --check-prefixes=CHECK,ARM
// RUN: attn-opt %s --target=cpu:neon-bf16 --emit=asm | FileCheck %s --check-prefix=ARM-ASM

// CHECK-LABEL: func.func @attention
// Keys by panels of steps of pairs; values by steps of two keys.
// X86-DAG:     memref.alloc({{.*}}) {alignment = 64 : i64} : memref<?x{{[0-9]+}}x32x{{[0-9]+}}xbf16>
// X86-DAG:     memref.alloc({{.*}}) {alignment = 64 : i64} : memref<?x{{[0-9]+}}x96xbf16>
// CHECK:       omp.parallel
// X86:           llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"({{.*}}) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
// X86:           arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
// X86:           llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// ARM:           llvm.call_intrinsic "llvm.aarch64.neon.bfdot.v4f32.v8bf16"({{.*}}) : (vector<4xf32>, vector<8xbf16>, vector<8xbf16>) -> vector<4xf32>
// ARM-ASM:     bfdot v{{[0-9]+}}.4s
func.func @attention(%q: tensor<1x2x512x63xbf16>, %k: tensor<1x2x512x63xbf16>,
                     %v: tensor<1x2x512x40xbf16>) -> tensor<1x2x512x40xbf16> {
  %o = attn.attention %q, %k, %v
      : tensor<1x2x512x63xbf16>, tensor<1x2x512x63xbf16>, tensor<1x2x512x40xbf16>
      -> tensor<1x2x512x40xbf16>
  return %o : tensor<1x2x512x40xbf16>
}
