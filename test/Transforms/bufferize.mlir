// Tensors to memrefs, and from there to out parameters without a copy.
// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" | FileCheck %s
// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   --buffer-results-to-out-params="hoist-static-allocs hoist-dynamic-allocs modify-public-functions" \
// RUN:   | FileCheck %s --check-prefix=OUT

// CHECK-LABEL: func @allocated(
// CHECK-SAME:  %[[Q:.+]]: memref<1x8x128x64xf32>, %[[K:.+]]: memref<1x2x128x64xf32>, %[[V:.+]]: memref<1x2x128x64xf32>)
// CHECK:       %[[OUTPUT:.+]] = memref.alloc() {{.*}}: memref<1x8x128x64xf32>
// CHECK:       attn.attention %[[Q]], %[[K]], %[[V]] scale(5.000000e-01) causal tiling(#attn.tiling<block_query = 64, block_key = 128>) outs(%[[OUTPUT]] : memref<1x8x128x64xf32>) {tag = 1 : i64}
// CHECK:       return %[[OUTPUT]]
// OUT-LABEL:   func @allocated(
// OUT-SAME:    %[[OUTPUT:[^:,]+]]: memref<1x8x128x64xf32>) {
// OUT-NOT:     memref.alloc
// OUT-NOT:     memref.copy
// OUT:         attn.attention {{.*}} outs(%[[OUTPUT]] : memref<1x8x128x64xf32>)
func.func @allocated(%q: tensor<1x8x128x64xf32>, %k: tensor<1x2x128x64xf32>, %v: tensor<1x2x128x64xf32>) -> tensor<1x8x128x64xf32> {
  %o = attn.attention %q, %k, %v causal scale(0.5) tiling(#attn.tiling<block_query = 64, block_key = 128>) {tag = 1}
    : tensor<1x8x128x64xf32>, tensor<1x2x128x64xf32>, tensor<1x2x128x64xf32> -> tensor<1x8x128x64xf32>
  return %o : tensor<1x8x128x64xf32>
}

// Sizes of the results come from the operands; the output is [B, S, H, Dv].

// CHECK-LABEL: func @dynamic(
// CHECK-SAME:  %[[Q:.+]]: memref<?x?x?x64xf16>, %[[K:.+]]: memref<?x?x?x64xf16>, %[[V:.+]]: memref<?x?x?x?xf16>)
// CHECK-DAG:   %[[BATCH:.+]] = memref.dim %[[Q]], %c0
// CHECK-DAG:   %[[HEADS:.+]] = memref.dim %[[Q]], %c1
// CHECK-DAG:   %[[LENGTH:.+]] = memref.dim %[[Q]], %c2
// CHECK-DAG:   %[[VALUE_DIM:.+]] = memref.dim %[[V]], %c3
// CHECK-DAG:   %[[OUTPUT:.+]] = memref.alloc(%[[BATCH]], %[[LENGTH]], %[[HEADS]], %[[VALUE_DIM]])
// CHECK-DAG:   %[[LSE:.+]] = memref.alloc(%[[BATCH]], %[[HEADS]], %[[LENGTH]])
// CHECK:       attn.attention {{.*}} outs(%[[OUTPUT]], %[[LSE]] : memref<?x?x?x?xf16>, memref<?x?x?xf32>)
// OUT-LABEL:   func @dynamic(
// OUT-SAME:    %[[OUTPUT:[^:,]+]]: memref<?x?x?x?xf16>, %[[LSE:[^:,]+]]: memref<?x?x?xf32>) {
// OUT-NOT:     memref.alloc
// OUT-NOT:     memref.copy
// OUT:         attn.attention {{.*}} outs(%[[OUTPUT]], %[[LSE]] :
func.func @dynamic(%q: tensor<?x?x?x64xf16>, %k: tensor<?x?x?x64xf16>, %v: tensor<?x?x?x?xf16>) -> (tensor<?x?x?x?xf16>, tensor<?x?x?xf32>) {
  %o, %l = attn.attention %q, %k, %v layout(output = bshd)
    : tensor<?x?x?x64xf16>, tensor<?x?x?x64xf16>, tensor<?x?x?x?xf16> -> tensor<?x?x?x?xf16>, tensor<?x?x?xf32>
  return %o, %l : tensor<?x?x?x?xf16>, tensor<?x?x?xf32>
}

// A destination is written in place.

// CHECK-LABEL: func @destination(
// CHECK-SAME:  %[[D:[^:,]+]]: memref<1x1x8x4xf32>)
// CHECK-NOT:   memref.alloc
// CHECK-NOT:   memref.copy
// CHECK:       attn.attention {{.*}} outs(%[[D]] : memref<1x1x8x4xf32>)
// CHECK-NEXT:  return %[[D]]
func.func @destination(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x8x4xf32>, %v: tensor<1x1x8x4xf32>, %d: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  %o = attn.attention %q, %k, %v outs(%d : tensor<1x1x8x4xf32>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32> -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}

// Keys are read until the last row is done: they are no place for the output.

// CHECK-LABEL: func @read_and_written(
// CHECK-SAME:  %[[Q:.+]]: memref<1x1x8x4xf32>, %[[K:.+]]: memref<1x1x8x4xf32>, %[[V:.+]]: memref<1x1x8x4xf32>)
// CHECK:       %[[OUTPUT:.+]] = memref.alloc()
// CHECK:       attn.attention %[[Q]], %[[K]], %[[V]] outs(%[[OUTPUT]] :
func.func @read_and_written(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x8x4xf32>, %v: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  %o = attn.attention %q, %k, %v outs(%k : tensor<1x1x8x4xf32>)
    : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32> -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}

// Captures, a scalar among them, are memrefs in both regions.

// CHECK-LABEL: func @captures(
// CHECK-SAME:  %[[SLOPES:[^:,]+]]: memref<2xf32>, %[[LIMIT:[^:,]+]]: memref<index>)
// CHECK:       attn.attention {{.*}} captures(%[[SLOPES]], %[[LIMIT]] : memref<2xf32>, memref<index>)
// CHECK-SAME:    score_mod(%{{.+}}, %{{.+}}, %[[H:.+]], %{{.+}}, %{{.+}}, %[[SLOPES_ARG:.+]], %{{.+}}) {
// CHECK:         memref.load %[[SLOPES_ARG]][%[[H]]] : memref<2xf32>
// CHECK:       mask_mod(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %[[LIMIT_ARG:.+]]) {
// CHECK:         memref.load %[[LIMIT_ARG]][] : memref<index>
func.func @captures(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %slopes: tensor<2xf32>, %limit: tensor<index>) -> tensor<1x2x8x4xf32> {
  %o = attn.attention %q, %k, %v captures(%slopes, %limit : tensor<2xf32>, tensor<index>)
    score_mod(%s, %b, %h, %i, %j, %sl, %li) {
      %slope = tensor.extract %sl[%h] : tensor<2xf32>
      %r = arith.addf %s, %slope : f32
      attn.yield %r : f32
    }
    mask_mod(%b, %h, %i, %j, %sl, %li) {
      %l = tensor.extract %li[] : tensor<index>
      %r = arith.cmpi ult, %j, %l : index
      attn.yield %r : i1
    } : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x8x4xf32>
  return %o : tensor<1x2x8x4xf32>
}

// A slice of rows is a view; a slice with a step in the innermost dimension
// is copied, since kernels read rows with a unit stride.

// CHECK-LABEL: func @slices(
// CHECK:       %[[ROWS:.+]] = memref.subview %{{.+}}[0, 0, 4, 0] [1, 1, 8, 4] [1, 1, 1, 1]
// CHECK:       %[[STEPPED:.+]] = memref.subview %{{.+}}[0, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 2]
// CHECK:       %[[PACKED:.+]] = memref.alloc() {{.*}}: memref<1x1x8x4xf32>
// CHECK:       memref.copy %[[STEPPED]], %[[PACKED]]
// CHECK:       attn.attention %[[ROWS]], %[[PACKED]],
func.func @slices(%x: tensor<1x1x16x4xf32>, %y: tensor<1x1x8x8xf32>, %v: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  %q = tensor.extract_slice %x[0, 0, 4, 0] [1, 1, 8, 4] [1, 1, 1, 1] : tensor<1x1x16x4xf32> to tensor<1x1x8x4xf32>
  %k = tensor.extract_slice %y[0, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 2] : tensor<1x1x8x8xf32> to tensor<1x1x8x4xf32>
  %o = attn.attention %q, %k, %v : tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32> -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}
