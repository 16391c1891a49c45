// The loop nests of the gradients: what they compute, and what they leave out.
// RUN: attn-opt %s --attn-tile --split-input-file --verify-diagnostics | FileCheck %s

!q = memref<1x4x64x16xf32>
!k = memref<1x2x96x8xf32>
!v = memref<1x2x96x16xf32>

// CHECK-LABEL: func @plain
// CHECK: %[[DELTA:.+]] = memref.alloc() : memref<1x4x64xf32>
// CHECK: scf.forall (%{{.+}}, %{{.+}}, %{{.+}}) in (1, 4, 4)
// CHECK:   %[[TERMS:.+]] = arith.mulf %{{.+}}, %{{.+}} : vector<16x16xf32>
// CHECK:   vector.multi_reduction <add>, %[[TERMS]]
// CHECK:   vector.transfer_write {{.*}} {attn.role = "delta"
// CHECK: } {{.*}}attn.role = "delta_tasks"

// Key blocks of the key/value heads; the two query heads of a group, and all
// query blocks, since nothing is hidden.
// CHECK: scf.forall (%{{.+}}, %{{.+}}, %{{.+}}) in (1, 2, 3)
// CHECK:   %[[K:.+]] = vector.transfer_read {{.*}} {attn.role = "key"
// CHECK:   %[[V:.+]] = vector.transfer_read {{.*}} {attn.role = "value"
// CHECK:   scf.for %{{.+}} = %{{.+}} to %{{.+}} step %c1
// CHECK:     scf.for %[[ROW:.+]] = %c0 to %c64 step %c16 iter_args(%[[DK:.+]] = %{{.+}}, %[[DV:.+]] = %{{.+}})
// CHECK:       %[[Q:.+]] = vector.transfer_read {{.*}} {attn.role = "query"
// CHECK:       %[[DO:.+]] = vector.transfer_read {{.*}} {attn.role = "output_gradient"
// CHECK:       %[[S:.+]] = vector.contract {{.*}} %[[Q]], %[[K]], %{{.+}} {attn.role = "scores"}
// CHECK:       %[[P:.+]] = math.exp2 {{.*}}attn.role = "probabilities"
// CHECK:       %[[DP:.+]] = vector.contract {{.*}} %[[DO]], %[[V]], %{{.+}} {attn.role = "probability_gradient"}
// CHECK:       %[[D:.+]] = arith.subf %[[DP]], %{{.+}}
// CHECK:       %[[DS:.+]] = arith.mulf %[[P]], %[[D]] {attn.role = "score_gradient"}
// CHECK:       vector.contract {{.*}} %[[P]], %[[DO]], %[[DV]] {attn.role = "value_gradient"}
// CHECK:       vector.contract {{.*}} %[[DS]], %[[Q]], %[[DK]] {attn.role = "key_gradient"}
// CHECK:     } {attn.role = "sweep"}
// CHECK:   } {attn.role = "group"}
// CHECK:   vector.transfer_write
// CHECK:   vector.transfer_write
// CHECK: } {{.*}}attn.role = "key_tasks"

// CHECK: scf.forall (%{{.+}}, %{{.+}}, %{{.+}}) in (1, 4, 4)
// CHECK:   scf.for {{.*}} = %c0 to %c96 step %c32 iter_args(%[[DQ:.+]] = %{{.+}})
// CHECK:     %[[DS2:.+]] = arith.mulf {{.*}} {attn.role = "score_gradient"}
// CHECK:     vector.contract {{.*}} %[[DS2]], %{{.+}}, %[[DQ]] {attn.role = "query_gradient"}
// CHECK: } {{.*}}attn.role = "query_tasks"
// CHECK-NOT: sink_tasks
// CHECK-NOT: attn.attention_backward
func.func @plain(%q: memref<1x4x64x8xf32>, %k: !k, %v: !v, %o: !q, %l: memref<1x4x64xf32>, %do: !q,
                 %dq: memref<1x4x64x8xf32>, %dk: !k, %dv: !v) {
  attn.attention_backward %q, %k, %v, %o, %l, %do outs(%dq, %dk, %dv : memref<1x4x64x8xf32>, !k, !v)
    tiling(#attn.tiling<block_query = 16, block_key = 32>)
    : memref<1x4x64x8xf32>, !k, !v, !q, memref<1x4x64xf32>, !q
  return
}

// -----

// Under a causal mask a key block starts at the diagonal, and a query block
// ends there.
// CHECK-LABEL: func @causal
// CHECK: attn.role = "delta_tasks"
// CHECK: %[[KEY:.+]] = arith.muli %{{.+}}, %c32
// CHECK: %[[FROM:.+]] = arith.maxsi %[[KEY]], %c0
// CHECK: %[[REST:.+]] = arith.remui %[[FROM]], %c16
// CHECK: %[[BEGIN:.+]] = arith.subi %[[FROM]], %[[REST]]
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %c64 step %c16
// CHECK: attn.role = "key_tasks"
func.func @causal(%q: memref<1x1x64x8xf32>, %l: memref<1x1x64xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x64x8xf32>, memref<1x1x64x8xf32>, memref<1x1x64x8xf32>)
    causal tiling(#attn.tiling<block_query = 16, block_key = 32>)
    : memref<1x1x64x8xf32>, memref<1x1x64x8xf32>, memref<1x1x64x8xf32>, memref<1x1x64x8xf32>, memref<1x1x64xf32>, memref<1x1x64x8xf32>
  return
}

// -----

// A bias for every head and row: tasks in parallel. (The single batch counts as
// broadcast, and is gone through in order.)
// CHECK-LABEL: func @bias_of_its_own
// CHECK: attn.role = "key_tasks"
// CHECK: memref.store %{{.+}}, %[[DB:[a-z0-9]+]][
// CHECK: scf.forall (%{{.+}}, %{{.+}}, %{{.+}}) in (1, 2, 2)
// CHECK:   %[[OLD:.+]] = vector.transfer_read
// CHECK:   arith.addf
// CHECK:   vector.transfer_write
// CHECK: attn.role = "query_tasks"
func.func @bias_of_its_own(%q: memref<1x2x8x4xf32>, %l: memref<1x2x8xf32>, %b1: memref<1x2x8x8xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %b1 : memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x8xf32>)
    bias(%b1 : memref<1x2x8x8xf32>) gradients(bias) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8xf32>, memref<1x2x8x4xf32>
  return
}

// -----

// CHECK-LABEL: func @table
// CHECK: attn.role = "key_tasks"
// CHECK: scf.forall (%{{.+}}, %{{.+}}, %{{.+}}) in (1, 1, 1)
// CHECK:   memref.alloca_scope
// CHECK:     scf.for
// CHECK:       scf.for
// CHECK:         %[[AT:.+]] = memref.load %{{.+}} : memref<4x8xindex>
// CHECK:         %[[OLD:.+]] = memref.load %[[D:.+]][%[[AT]]] : memref<15xf32>
// CHECK:         %[[NEW:.+]] = arith.addf %[[OLD]]
// CHECK:         memref.store %[[NEW]], %[[D]][%[[AT]]]
// CHECK: attn.role = "query_tasks"
func.func @table(%q: memref<1x2x8x4xf32>, %l: memref<1x2x8xf32>, %t: memref<15xf32>, %dt: memref<15xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %dt : memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<15xf32>)
    gradients(captures[0]) tiling(#attn.tiling<block_query = 4, block_key = 8>) captures(%t : memref<15xf32>)
    score_mod(%s, %b, %h, %i, %j, %c) {
      %seven = arith.constant 7 : index
      %d = arith.subi %j, %i : index
      %p = arith.addi %d, %seven : index
      %x = memref.load %c[%p] : memref<15xf32>
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    }
    : memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8x4xf32>, memref<1x2x8xf32>, memref<1x2x8x4xf32>
  return
}

// -----

// Slopes by head: heads in parallel, batches and rows in order.
// CHECK-LABEL: func @slopes
// CHECK: attn.role = "key_tasks"
// CHECK: scf.forall (%{{.+}}, %[[HEAD:.+]], %{{.+}}) in (1, 2, 1)
// CHECK-NOT: memref.alloca_scope
// CHECK: %[[SUM:.+]] = vector.multi_reduction <add>, {{.*}} : vector<4x8xf32> to f32
// CHECK: arith.addf %{{.+}}, %[[SUM]] : f32
// CHECK: attn.role = "query_tasks"
// CHECK: scf.forall (%{{.+}}) in (2)
// CHECK: attn.role = "sink_tasks"
func.func @slopes(%q: memref<3x2x8x4xf32>, %l: memref<3x2x8xf32>, %t: memref<2xf32>, %dt: memref<2xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %dt, %dt : memref<3x2x8x4xf32>, memref<3x2x8x4xf32>, memref<3x2x8x4xf32>, memref<2xf32>, memref<2xf32>)
    sinks(%t : memref<2xf32>) gradients(sinks, captures[0]) tiling(#attn.tiling<block_query = 4, block_key = 8>) captures(%t : memref<2xf32>)
    score_mod(%s, %b, %h, %i, %j, %c) {
      %x = memref.load %c[%h] : memref<2xf32>
      %r = arith.mulf %s, %x : f32
      attn.yield %r : f32
    }
    : memref<3x2x8x4xf32>, memref<3x2x8x4xf32>, memref<3x2x8x4xf32>, memref<3x2x8x4xf32>, memref<3x2x8xf32>, memref<3x2x8x4xf32>
  return
}

// -----

// Without rows there is nothing to add: zeros.
// CHECK-LABEL: func @no_rows
// CHECK-NOT: vector.contract
// CHECK: memref.store
func.func @no_rows(%q: memref<1x1x0x4xf32>, %k: memref<1x1x8x4xf32>, %l: memref<1x1x0xf32>) {
  attn.attention_backward %q, %k, %k, %q, %l, %q outs(%q, %k, %k : memref<1x1x0x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    tiling(#attn.tiling<block_query = 4, block_key = 8>)
    : memref<1x1x0x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x0x4xf32>, memref<1x1x0xf32>, memref<1x1x0x4xf32>
  return
}

// -----

// The query gradient added up by the key tasks, in rows of whole blocks.
// CHECK-LABEL: func @accumulated
// CHECK-DAG: %[[DELTA:.+]] = memref.alloc() : memref<1x1x12xf32>
// CHECK-DAG: %[[REFERENCE:.+]] = memref.alloc() : memref<1x1x12xf32>
// CHECK-DAG: %[[SUM:.+]] = memref.alloc() : memref<1x1x12x4xf32>
// CHECK:   vector.transfer_write {{.*}} {attn.role = "delta", in_bounds = [true]}
// CHECK:   vector.transfer_write {{.*}} {attn.role = "reference", in_bounds = [true]}
// CHECK:   vector.transfer_write {{.*}} {attn.role = "query_sum", in_bounds = [true, true]}
// CHECK: attn.role = "delta_tasks"
// CHECK:   vector.transfer_read {{.*}} {attn.role = "reference", in_bounds = [true]}
// CHECK:   vector.transfer_read {{.*}} {attn.role = "delta", in_bounds = [true]}
// CHECK:   %[[PART:.+]] = vector.contract {{.*}} {attn.role = "query_gradient"}
// CHECK:   %[[OLD:.+]] = vector.transfer_read
// CHECK:   %[[NEW:.+]] = arith.addf %[[OLD]], %[[PART]]
// CHECK:   vector.transfer_write %[[NEW]], {{.*}} {attn.role = "query_sum", in_bounds = [true, true]}
// CHECK: attn.role = "key_tasks"
// CHECK-NOT: scf.for %
// CHECK:   %[[WHOLE:.+]] = vector.transfer_read {{.*}} {attn.role = "query_sum", in_bounds = [true, true]}
// CHECK:   arith.mulf %[[WHOLE]]
// CHECK:   vector.transfer_write {{.*}} {attn.role = "output"
// CHECK: attn.role = "query_tasks"
func.func @accumulated(%q: memref<1x1x10x4xf32>, %k: memref<1x1x8x4xf32>, %l: memref<1x1x10xf32>) {
  attn.attention_backward %q, %k, %k, %q, %l, %q outs(%q, %k, %k : memref<1x1x10x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    tiling(#attn.tiling<block_query = 4, block_key = 8, query_gradient = "accumulated">)
    : memref<1x1x10x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x10x4xf32>, memref<1x1x10xf32>, memref<1x1x10x4xf32>
  return
}

// -----

func.func @unknown_schedule(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>) {
  // expected-error@+1 {{expects query_gradient = "recomputed", "accumulated" or "ordered" in #attn.tiling, got "guessed"}}
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    tiling(#attn.tiling<block_query = 4, block_key = 8, query_gradient = "guessed">)
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @deterministic(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>) {
  // expected-error@+1 {{is deterministic, and query_gradient = "accumulated" adds in any order; state "recomputed" or "ordered" in #attn.tiling}}
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    deterministic tiling(#attn.tiling<block_query = 4, block_key = 8, query_gradient = "accumulated">)
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @accumulated_bias(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>, %b: memref<8x8xf32>) {
  // expected-error@+1 {{wants gradients of a bias or of captures, which the query tasks add up; state query_gradient = "recomputed" in #attn.tiling}}
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q, %b : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<8x8xf32>)
    bias(%b : memref<8x8xf32>) gradients(bias) tiling(#attn.tiling<block_query = 4, block_key = 8, query_gradient = "accumulated">)
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}

// -----

func.func @no_derivative(%q: memref<1x1x8x4xf32>, %l: memref<1x1x8xf32>) {
  attn.attention_backward %q, %q, %q, %q, %l, %q outs(%q, %q, %q : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>)
    tiling(#attn.tiling<block_query = 4, block_key = 8>)
    score_mod(%s, %b, %h, %i, %j) {
      // expected-error@+1 {{'arith.remf' op in score_mod has no derivative}}
      %r = arith.remf %s, %s : f32
      attn.yield %r : f32
    }
    : memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8x4xf32>, memref<1x1x8xf32>, memref<1x1x8x4xf32>
  return
}
