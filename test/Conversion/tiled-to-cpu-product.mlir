// RUN: not attn-opt %s --target=cpu:avx512 --emit=mapped 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: sed 's/bf16/f32/g' %s | not attn-opt - --target=cpu:avx512-bf16 --emit=mapped 2>&1 | FileCheck %s --check-prefix=TYPE

// UNIT: expects a product that 'cpu:avx512' has for 'bf16', got "dot"; state product = "fma" in the tiling
// TYPE: expects a product that 'cpu:avx512-bf16' has for 'f32', got "dot"; state product = "fma" in the tiling
func.func @attention(%q: tensor<1x2x64x32xbf16>, %k: tensor<1x2x64x32xbf16>,
                     %v: tensor<1x2x64x32xbf16>) -> tensor<1x2x64x32xbf16> {
  %o = attn.attention %q, %k, %v
      tiling(#attn.tiling<block_query = 16, block_key = 32, product = "dot">)
      : tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>, tensor<1x2x64x32xbf16>
      -> tensor<1x2x64x32xbf16>
  return %o : tensor<1x2x64x32xbf16>
}
