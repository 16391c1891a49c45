// A layer of a sentence encoder: 12 heads of 32 over 141 word pieces, every
// position sees every other. test/data holds inputs of the real model.
func.func @minilm(%query: tensor<1x12x141x32xf32>, %key: tensor<1x12x141x32xf32>,
                  %value: tensor<1x12x141x32xf32>) -> tensor<1x12x141x32xf32> {
  %output = attn.attention %query, %key, %value
    : tensor<1x12x141x32xf32>, tensor<1x12x141x32xf32>, tensor<1x12x141x32xf32> -> tensor<1x12x141x32xf32>
  return %output : tensor<1x12x141x32xf32>
}
