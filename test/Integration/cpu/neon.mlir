// Kernels for another machine, run by an emulator.

// REQUIRES: qemu-aarch64
// DEFINE: %{element} = float
// DEFINE: %{bound} = 1e-6
// DEFINE: %{target} = cpu:neon
// DEFINE: %{build} = attn-opt %t.mlir --target=%{target} --emit=obj -o %t.o && \
// DEFINE:   %clang_aarch64 -DELEMENT=%{element} -DBOUND=%{bound} -DSCALE=0.25 \
// DEFINE:     %S/Inputs/neon-main.c %t.o -o %t.exe

// RUN: cp %s %t.mlir
// RUN: %{build}
// RUN: qemu-aarch64 %t.exe | FileCheck %s

// REDEFINE: %{element} = _Float16
// REDEFINE: %{bound} = 1e-3
// RUN: sed 's/x24xf32/x24xf16/g' %s > %t.mlir
// RUN: %{build}
// RUN: qemu-aarch64 %t.exe | FileCheck %s

// REDEFINE: %{element} = __bf16
// REDEFINE: %{bound} = 1e-2
// RUN: sed 's/x24xf32/x24xbf16/g' %s > %t.mlir
// RUN: %{build}
// RUN: qemu-aarch64 %t.exe | FileCheck %s

// REDEFINE: %{target} = cpu:neon-bf16
// RUN: %{build}
// RUN: qemu-aarch64 -cpu max %t.exe | FileCheck %s

// CHECK: agrees
func.func @attention(%q: tensor<1x2x37x24xf32>, %k: tensor<1x2x50x24xf32>,
                     %v: tensor<1x2x50x24xf32>)
    -> (tensor<1x2x37x24xf32>, tensor<1x2x37xf32>) {
  %o, %lse = attn.attention %q, %k, %v scale(0.25) causal
    : tensor<1x2x37x24xf32>, tensor<1x2x50x24xf32>, tensor<1x2x50x24xf32>
    -> tensor<1x2x37x24xf32>, tensor<1x2x37xf32>
  return %o, %lse : tensor<1x2x37x24xf32>, tensor<1x2x37xf32>
}
