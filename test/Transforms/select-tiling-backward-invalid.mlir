// Gradients that no unit of a chip multiplies.
// RUN: not attn-opt %s --attn-select-tiling=target=vulkan 2>&1 | FileCheck %s
// CHECK: error: cannot tile 'attn.attention_backward': gradients of f64 need the unit fma f64, and target 'vulkan' has fma f32; choose a target that has it, such as cpu
func.func @double(%q: tensor<1x2x64x32xf64>, %l: tensor<1x2x64xf64>)
    -> (tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>) {
  %g:3 = attn.attention_backward %q, %q, %q, %q, %l, %q
    : tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64xf64>, tensor<1x2x64x32xf64>
    -> tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>
  return %g#0, %g#1, %g#2 : tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>, tensor<1x2x64x32xf64>
}
