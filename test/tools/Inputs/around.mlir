// Ops around the attention: twice the sum of two attentions' outputs.
#id = affine_map<(b, h, s, d) -> (b, h, s, d)>
func.func @around(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>)
    -> tensor<1x2x?x16xf32> {
  %a = attn.attention %q, %k, %k
    : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>
    -> tensor<1x2x?x16xf32>
  %b = attn.attention %a, %k, %k causal
    : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>
    -> tensor<1x2x?x16xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a : tensor<1x2x?x16xf32>) outs(%b : tensor<1x2x?x16xf32>) {
  ^body(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    %t = arith.addf %s, %s : f32
    linalg.yield %t : f32
  } -> tensor<1x2x?x16xf32>
  return %sum : tensor<1x2x?x16xf32>
}
