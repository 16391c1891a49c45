// Each stage is what its name says, and --emit leaves mlir-opt's ways alone.

// RUN: attn-opt %s --emit=input | FileCheck %s --check-prefix=INPUT
// INPUT: linalg.transpose
// INPUT: attn.attention

// RUN: attn-opt %s --emit=attn | FileCheck %s --check-prefix=ATTN
// ATTN-NOT: linalg.transpose
// ATTN: attn.attention {{.*}} layout(query = bshd)

// RUN: attn-opt %s --target=cpu:avx2 --emit=configured | FileCheck %s --check-prefix=CONFIGURED
// CONFIGURED: attn.attention {{.*}} target(#attn.target<name = "cpu:avx2"
// CONFIGURED-SAME: tiling(#attn.tiling<block_query

// RUN: attn-opt %s --target=cpu:avx2 --emit=tiled | FileCheck %s --check-prefix=TILED
// TILED-LABEL: func.func @attention
// TILED-SAME: %[[OUTPUT:[a-z0-9]+]]: memref<1x2x64x16xf32>) {
// TILED-NOT: attn.attention
// TILED: scf.forall
// TILED: attn.role = "tasks"

// RUN: attn-opt %s --target=h200 --emit=tiled | FileCheck %s --check-prefix=TILED

// RUN: attn-opt %s --target=cpu:avx2 --emit=mapped | FileCheck %s --check-prefix=MAPPED
// MAPPED-NOT: attn.role = "tasks"
// MAPPED: omp.

// RUN: attn-opt %s --target=cpu:avx2 --emit=llvm | FileCheck %s --check-prefix=LLVM
// LLVM: llvm.func @_mlir_ciface_attention
// LLVM-NOT: builtin.unrealized_conversion_cast

// RUN: attn-opt %s --target=cpu:avx2 --emit=asm | FileCheck %s --check-prefix=AVX2
// AVX2-DAG: .globl _mlir_ciface_attention
// AVX2-DAG: vfmadd{{.*}}%ymm

// RUN: attn-opt %s --target=cpu:avx2 --emit=asm | FileCheck %s --check-prefix=NARROW
// NARROW-NOT: %zmm

// RUN: attn-opt %s --target=cpu:neon --emit=asm | FileCheck %s --check-prefix=NEON
// NEON: fmla v{{[0-9]+}}.4s

// Short of code a module is lowered whole, unless an entry is named.
// RUN: attn-opt %S/Inputs/two.mlir --target=cpu:avx2 --emit=tiled | FileCheck %s --check-prefix=WHOLE
// WHOLE: func.func @first
// WHOLE: attn.role = "tasks"
// WHOLE: func.func @second
// WHOLE: attn.role = "tasks"
// WHOLE: func.func @other
// RUN: attn-opt %S/Inputs/two.mlir --entry=second --target=cpu:avx2 --emit=tiled | FileCheck %s --check-prefix=PART
// PART-NOT: @first
// PART: func.func @second
// PART-NOT: @other

// The pipelines are the same road.
// RUN: attn-opt %s --attn-to-tiled=target=cpu:avx2 | FileCheck %s --check-prefix=TILED
// RUN: attn-opt %s --attn-to-cpu=target=cpu:avx2 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: llvm.func @attention

func.func @attention(%q: tensor<1x64x2x16xf32>, %k: tensor<1x2x64x16xf32>,
                     %v: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %empty = tensor.empty() : tensor<1x2x64x16xf32>
  %swapped = linalg.transpose ins(%q : tensor<1x64x2x16xf32>)
    outs(%empty : tensor<1x2x64x16xf32>) permutation = [0, 2, 1, 3]
  %o = attn.attention %swapped, %k, %v causal
    : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>
    -> tensor<1x2x64x16xf32>
  return %o : tensor<1x2x64x16xf32>
}
