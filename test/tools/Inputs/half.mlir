func.func @attention(%q: tensor<1x2x3x16xf16>) -> tensor<1x2x3x16xf16> {
  %o = attn.attention %q, %q, %q
    : tensor<1x2x3x16xf16>, tensor<1x2x3x16xf16>, tensor<1x2x3x16xf16>
    -> tensor<1x2x3x16xf16>
  return %o : tensor<1x2x3x16xf16>
}
