// Task loops of gradients become OpenMP loops with their blocks outermost, fills
// become loops of one thread, and exponentials polynomials. Tasks that add to the
// gradient of a bias or capture stay as they are, the others become register tiles.
// RUN: attn-opt %s --attn-tile --attn-gradients-to-cpu | FileCheck %s

// CHECK-LABEL: func @gradients
// CHECK: memref.alloc() : memref<2x3x16xf32>
// CHECK: omp.parallel
// CHECK: omp.wsloop schedule(dynamic
// CHECK: omp.loop_nest (%[[TASK:.+]]) : index
// CHECK: %[[HEAD:.+]] = arith.remui %[[TASK]], %c3
// CHECK: %[[REST:.+]] = arith.divui %[[TASK]], %c3
// CHECK: %[[BATCH:.+]] = arith.remui %[[REST]], %c2
// CHECK: %[[BLOCK:.+]] = arith.divui %[[REST]], %c2
// CHECK: omp.parallel
// CHECK-NOT: math.exp2
// CHECK-NOT: attn.role = "key_gradient"
// CHECK: vector.fma
// CHECK: scf.for
// CHECK: memref.store
// CHECK: omp.parallel
// CHECK: attn.role = "query_gradient"
// CHECK-NOT: scf.forall
func.func @gradients(%q: memref<2x3x16x8xf32>, %l: memref<2x3x16xf32>, %b: memref<16xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %b : memref<2x3x16x8xf32>, memref<2x3x16x8xf32>, memref<2x3x16x8xf32>, memref<16xf32>)
    bias(%b : memref<16xf32>) gradients(bias) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : memref<2x3x16x8xf32>, memref<2x3x16x8xf32>, memref<2x3x16x8xf32>, memref<2x3x16x8xf32>, memref<2x3x16xf32>, memref<2x3x16x8xf32>
  return
}

// The scratch of a block lies in the frame of its thread.
// CHECK-LABEL: func @scratch
// CHECK: omp.parallel
// CHECK-COUNT-2: memref.alloca() : memref<4x8x{{f32|index}}>
// CHECK: omp.wsloop
// CHECK-NOT: memref.alloca
func.func @scratch(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>, %t: memref<15xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %t : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<15xf32>)
    gradients(captures[0]) tiling(#attn.tiling<block_query = 4, block_key = 8>) captures(%t : memref<15xf32>)
    score_mod(%s, %b, %h, %i, %j, %c) {
      %seven = arith.constant 7 : index
      %d = arith.subi %j, %i : index
      %p = arith.addi %d, %seven : index
      %x = memref.load %c[%p] : memref<15xf32>
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    }
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}

// Key tasks: V and K are turned, P is the product Q K^T until its elements are made,
// with the tests of the edge and without; dV and dK add up in scratch, over the rows
// that there are. The derivative of the softcap takes the scores again, so they stay.
// CHECK-LABEL: func @register_tiles
// CHECK:       omp.parallel
// CHECK:       omp.parallel
// CHECK-DAG:     %[[QUERY:.+]] = memref.alloca() {{.*}} : memref<4x4xf32>
// CHECK-DAG:     %[[TURNED:.+]] = memref.alloca() {{.*}} : memref<4x8xf32>
// CHECK-DAG:     %[[SUMS:.+]] = memref.alloca() {{.*}} : memref<8x4xf32>
// CHECK:         vector.transpose {{.*}} : vector<4x4xf32> to vector<4x4xf32>
// CHECK:         scf.for {{.*}} iter_args
// CHECK-COUNT-8:   vector.fma
// CHECK:         scf.if
// CHECK:           arith.cmpi sle
// CHECK:         } else {
// CHECK-NOT:       arith.cmpi
// CHECK:         }
// CHECK:         %[[ROWS:.+]] = arith.minsi %{{.+}}, %c4 : index
// CHECK:         scf.for {{.*}} iter_args
// CHECK-COUNT-4:   vector.fma
// CHECK:         scf.for %{{.+}} = %{{.+}} to %[[ROWS]] step %c1 iter_args
// CHECK:         vector.fma
// CHECK:       omp.parallel
// CHECK-NOT:   vector.contract
func.func @register_tiles(%q: memref<1x1x10x4xf32>, %l: memref<1x1x10xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x10x4xf32>, memref<1x1x10x4xf32>, memref<1x1x10x4xf32>)
    causal softcap(3.0) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : memref<1x1x10x4xf32>, memref<1x1x10x4xf32>, memref<1x1x10x4xf32>, memref<1x1x10x4xf32>, memref<1x1x10xf32>, memref<1x1x10x4xf32>
  return
}

// Where key tasks add to dQ in memory, a thread takes the blocks of a head in order.
// CHECK-LABEL: func @accumulated
// CHECK:       %[[SUM:.+]] = memref.alloc() : memref<1x2x16x4xf32>
// CHECK:       omp.parallel
// CHECK:       omp.parallel
// CHECK:         omp.loop_nest (%{{.+}}) : index = (%c0) to (%c2)
// CHECK:           scf.for %{{.+}} = %c0 to %c2 step %c1
// CHECK:             memref.subview %[[SUM]]
// CHECK:             %[[OLD:.+]] = vector.transfer_read
// CHECK:             %[[NEW:.+]] = arith.addf %[[OLD]],
// CHECK:             vector.store %[[NEW]],
// CHECK:       omp.parallel
// CHECK-NOT:   vector.contract
func.func @accumulated(%q: memref<1x2x16x4xf32>, %l: memref<1x2x16xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x2x16x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>)
    tiling(#attn.tiling<block_query = 8, block_key = 8, query_gradient = "accumulated">)
    : memref<1x2x16x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16xf32>, memref<1x2x16x4xf32>
  return
}

// A mask in memory has a byte for each element, not a bit.
// CHECK-LABEL: func @boolean_mask
// CHECK-NOT:   vector<4xi1>, memref
// CHECK:       vector.transfer_read {{.*}} : memref<8xi8, {{.*}}>, vector<4xi8>
// CHECK-NEXT:  arith.cmpi ne, %{{.+}}, %{{.+}} : vector<4xi8>
func.func @boolean_mask(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>, %m: memref<8x1xi1>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    mask(%m : memref<8x1xi1>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}
