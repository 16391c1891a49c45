// The output of the first is the query of the second.
func.func @chain(%q: tensor<1x1x?x16xf32>, %k: tensor<1x1x?x16xf32>,
                 %k2: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %a = attn.attention %q, %k, %k
    : tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>
    -> tensor<1x1x?x16xf32>
  %o = attn.attention %a, %k2, %k2
    : tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>
    -> tensor<1x1x?x16xf32>
  return %o : tensor<1x1x?x16xf32>
}
