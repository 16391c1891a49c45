// Long enough that the products decide the time: 8 heads of 64 over 2048
// positions, all pairs and the causal half of them.
func.func @full(%query: tensor<1x8x2048x64xf32>, %key: tensor<1x8x2048x64xf32>,
                %value: tensor<1x8x2048x64xf32>) -> tensor<1x8x2048x64xf32> {
  %output = attn.attention %query, %key, %value
    : tensor<1x8x2048x64xf32>, tensor<1x8x2048x64xf32>, tensor<1x8x2048x64xf32> -> tensor<1x8x2048x64xf32>
  return %output : tensor<1x8x2048x64xf32>
}

func.func @causal(%query: tensor<1x8x2048x64xf32>, %key: tensor<1x8x2048x64xf32>,
                  %value: tensor<1x8x2048x64xf32>) -> tensor<1x8x2048x64xf32> {
  %output = attn.attention %query, %key, %value causal
    : tensor<1x8x2048x64xf32>, tensor<1x8x2048x64xf32>, tensor<1x8x2048x64xf32> -> tensor<1x8x2048x64xf32>
  return %output : tensor<1x8x2048x64xf32>
}
