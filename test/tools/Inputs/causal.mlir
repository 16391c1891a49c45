// Two query heads on one key/value head, f32, lengths open.
func.func @attention(%q: tensor<1x2x?x16xf32>, %k: tensor<1x1x?x16xf32>,
                     %v: tensor<1x1x?x16xf32>)
    -> (tensor<1x2x?x16xf32>, tensor<1x2x?xf32>) {
  %o, %lse = attn.attention %q, %k, %v causal
    : tensor<1x2x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>
    -> tensor<1x2x?x16xf32>, tensor<1x2x?xf32>
  return %o, %lse : tensor<1x2x?x16xf32>, tensor<1x2x?xf32>
}
