// Query, key and value side by side in one buffer, as a projection leaves them.
func.func @packed(%qkv: tensor<2x?x3x4x16xf32>) -> tensor<2x?x4x16xf32> {
  %c1 = arith.constant 1 : index
  %s = tensor.dim %qkv, %c1 : tensor<2x?x3x4x16xf32>
  %q = tensor.extract_slice %qkv[0, 0, 0, 0, 0] [2, %s, 1, 4, 16] [1, 1, 1, 1, 1]
    : tensor<2x?x3x4x16xf32> to tensor<2x?x4x16xf32>
  %k = tensor.extract_slice %qkv[0, 0, 1, 0, 0] [2, %s, 1, 4, 16] [1, 1, 1, 1, 1]
    : tensor<2x?x3x4x16xf32> to tensor<2x?x4x16xf32>
  %v = tensor.extract_slice %qkv[0, 0, 2, 0, 0] [2, %s, 1, 4, 16] [1, 1, 1, 1, 1]
    : tensor<2x?x3x4x16xf32> to tensor<2x?x4x16xf32>
  %o = attn.attention %q, %k, %v layout(bshd) causal
    : tensor<2x?x4x16xf32>, tensor<2x?x4x16xf32>, tensor<2x?x4x16xf32>
    -> tensor<2x?x4x16xf32>
  return %o : tensor<2x?x4x16xf32>
}
