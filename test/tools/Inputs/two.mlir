func.func @first(%q: tensor<1x1x8x16xf32>) -> tensor<1x1x8x16xf32> {
  %o = attn.attention %q, %q, %q
    : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>
    -> tensor<1x1x8x16xf32>
  return %o : tensor<1x1x8x16xf32>
}
func.func @second(%q: tensor<1x1x8x16xf32>) -> tensor<1x1x8x16xf32> {
  %o = attn.attention %q, %q, %q scale(2.0)
    : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>
    -> tensor<1x1x8x16xf32>
  return %o : tensor<1x1x8x16xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
