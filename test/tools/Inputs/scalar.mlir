func.func @attention(%q: tensor<1x2x3x16xf32>, %s: f32)
    -> tensor<1x2x3x16xf32> {
  %o = attn.attention %q, %q, %q
    : tensor<1x2x3x16xf32>, tensor<1x2x3x16xf32>, tensor<1x2x3x16xf32>
    -> tensor<1x2x3x16xf32>
  return %o : tensor<1x2x3x16xf32>
}
