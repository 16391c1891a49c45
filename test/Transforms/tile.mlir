// The online-softmax loop nest, without masks but the causal one.
// RUN: attn-opt %s --split-input-file --attn-tile | FileCheck %s

// The nest as the essay of lib/Transforms/Tile.cpp draws it. 0.180336878 is
// log2(e) / sqrt(64): the scale is left to the exponent.

// CHECK-DAG:  #[[ROWS_OF_LHS:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:  #[[ROWS_OF_RHS:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:  #[[RESULT:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG:  #[[COLUMNS_OF_RHS:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-LABEL: func @causal(
// CHECK-SAME:  %[[Q:.+]]: memref<1x8x4096x64xf32>, %[[K:.+]]: memref<1x2x4096x64xf32>, %[[V:.+]]: memref<1x2x4096x64xf32>, %[[O:.+]]: memref<1x8x4096x64xf32>)
// CHECK-DAG:  %[[C_0:.+]] = arith.constant 0 : index
// CHECK-DAG:  %[[C_1:.+]] = arith.constant 1 : index
// CHECK-DAG:  %[[C_4:.+]] = arith.constant 4 : index
// CHECK-DAG:  %[[BR:.+]] = arith.constant 64 : index
// CHECK-DAG:  %[[BC:.+]] = arith.constant 128 : index
// CHECK-DAG:  %[[LAST_BLOCK:.+]] = arith.constant 63 : index
// CHECK-DAG:  %[[LENGTH:.+]] = arith.constant 4096 : index
// CHECK-DAG:  %[[NO_SUM:.+]] = arith.constant dense<0.000000e+00> : vector<64xf32>
// CHECK-DAG:  %[[NO_MAX:.+]] = arith.constant dense<0xFF800000> : vector<64xf32>
// CHECK-DAG:  %[[NO_ACC:.+]] = arith.constant dense<0.000000e+00> : vector<64x64xf32>
// CHECK-DAG:  %[[FACTOR_ROW:.+]] = arith.constant dense<0.180336878> : vector<64xf32>
// CHECK-DAG:  %[[FACTOR:.+]] = arith.constant dense<0.180336878> : vector<64x128xf32>
// CHECK-DAG:  %[[HIDDEN:.+]] = arith.constant dense<0xFF800000> : vector<64x128xf32>
// CHECK-DAG:  %[[ONES:.+]] = arith.constant dense<1.000000e+00> : vector<64xf32>
// CHECK:      scf.forall (%[[B:.+]], %[[H:.+]], %[[T:.+]]) in (1, 8, 64) {
// The longest rows first.
// CHECK:        %[[BLOCK:.+]] = arith.subi %[[LAST_BLOCK]], %[[T]]
// CHECK:        %[[FIRST_ROW:.+]] = arith.muli %[[BLOCK]], %[[BR]]
// CHECK:        %[[ROW_END:.+]] = arith.addi %[[FIRST_ROW]], %[[BR]]
// CHECK:        %[[KV_HEAD:.+]] = arith.divui %[[H]], %[[C_4]] {attn.role = "kv_head"}
// CHECK:        %[[Q_VIEW:.+]] = memref.subview %[[Q]][%[[B]], %[[H]], 0, 0] [1, 1, 4096, 64] [1, 1, 1, 1]
// CHECK-SAME:     to memref<4096x64xf32, strided<[64, 1], offset: ?>>
// CHECK:        %[[Q_TILE:.+]] = vector.transfer_read %[[Q_VIEW]][%[[FIRST_ROW]], %[[C_0]]], {{.*}} {attn.role = "query", in_bounds = [true, true]}
// CHECK:        %[[K_VIEW:.+]] = memref.subview %[[K]][%[[B]], %[[KV_HEAD]], 0, 0]
// CHECK:        %[[V_VIEW:.+]] = memref.subview %[[V]][%[[B]], %[[KV_HEAD]], 0, 0]
// Blocks past the diagonal of the last row are not visited.
// CHECK:        %[[SWEEP_END:.+]] = arith.minsi %[[ROW_END]], %[[LENGTH]]
// CHECK:        %[[INTERIOR_END:.+]] = arith.addi %[[FIRST_ROW]], %[[C_1]]
// CHECK:        %[[SUMS:.+]]:3 = scf.for %[[KEY:[^ ]+]] = %[[C_0]] to %[[SWEEP_END]] step %[[BC]]
// CHECK-SAME:     iter_args(%[[MAX:.+]] = %[[NO_MAX]], %[[SUM:.+]] = %[[NO_SUM]], %[[ACC:.+]] = %[[NO_ACC]])
// CHECK:          %[[K_TILE:.+]] = vector.transfer_read %[[K_VIEW]][%[[KEY]], %[[C_0]]], {{.*}} {attn.role = "key", in_bounds = [true, true]}
// CHECK:          %[[SCORES:.+]] = vector.contract {indexing_maps = [#[[ROWS_OF_LHS]], #[[ROWS_OF_RHS]], #[[RESULT]]]
// CHECK-SAME:       %[[Q_TILE]], %[[K_TILE]], %{{.+}} {attn.role = "scores"}
// CHECK:          %[[BLOCK_END:.+]] = arith.addi %[[KEY]], %[[BC]]
// CHECK:          %[[IS_EDGE:.+]] = arith.cmpi sgt, %[[BLOCK_END]], %[[INTERIOR_END]]
// CHECK:          %[[MASKED:.+]] = scf.if %[[IS_EDGE]]
// CHECK:            %[[COLUMN:.+]] = arith.index_cast %{{.+}} : vector<128xindex> to vector<128xi32>
// CHECK:            %[[ROW:.+]] = arith.index_cast %{{.+}} : vector<64xindex> to vector<64xi32>
// CHECK:            %[[SHIFT:.+]] = arith.subi %[[FIRST_ROW]], %[[KEY]]
// CHECK:            %[[BOUND:.+]] = arith.index_cast %{{.+}} {attn.role = "right_bound"} : index to i32
// CHECK:            %[[BOUND_ROW:.+]] = vector.broadcast %[[BOUND]]
// CHECK:            %[[LAST_COLUMN:.+]] = arith.addi %[[ROW]], %[[BOUND_ROW]] : vector<64xi32>
// CHECK:            %[[VISIBLE:.+]] = arith.cmpi sle, %{{.+}}, %{{.+}} : vector<64x128xi32>
// CHECK:            %[[TESTED:.+]] = arith.select %[[VISIBLE]], %[[SCORES]], %[[HIDDEN]]
// CHECK:            scf.yield %[[TESTED]]
// CHECK:          } else {
// CHECK:            scf.yield %[[SCORES]]
// CHECK:          } {attn.role = "masked"}
// CHECK:          %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[MASKED]], %[[MAX]] {attn.role = "row_max"} [1]
// CHECK:          %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[NEW_MAX]], %[[NO_MAX]]
// CHECK:          %[[REFERENCE:.+]] = arith.select %[[IS_EMPTY]], %[[NO_SUM]], %[[NEW_MAX]]
// CHECK:          %[[SCALED_REFERENCE:.+]] = arith.mulf %[[REFERENCE]], %[[FACTOR_ROW]]
// CHECK:          %[[SCALED_MAX:.+]] = arith.mulf %[[MAX]], %[[FACTOR_ROW]]
// CHECK:          %[[CHANGE:.+]] = arith.subf %[[SCALED_MAX]], %[[SCALED_REFERENCE]]
// CHECK:          %[[CORRECTION:.+]] = math.exp2 %[[CHANGE]] {attn.role = "correction"}
// CHECK:          %[[CORRECTED_SUM:.+]] = arith.mulf %[[SUM]], %[[CORRECTION]]
// CHECK:          %[[CORRECTED_ACC:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<64x64xf32>
// CHECK:          %[[NEGATED:.+]] = arith.negf %[[SCALED_REFERENCE]]
// CHECK:          %[[NEGATED_COLUMN:.+]] = vector.shape_cast %[[NEGATED]] : vector<64xf32> to vector<64x1xf32>
// CHECK:          %[[NEGATED_TILE:.+]] = vector.broadcast %[[NEGATED_COLUMN]]
// CHECK:          %[[EXPONENTS:.+]] = math.fma %[[MASKED]], %[[FACTOR]], %[[NEGATED_TILE]]
// CHECK:          %[[PROBABILITIES:.+]] = math.exp2 %[[EXPONENTS]] {attn.role = "probabilities"}
// CHECK:          %[[NEW_SUM:.+]] = vector.multi_reduction <add>, %[[PROBABILITIES]], %[[CORRECTED_SUM]] {attn.role = "row_sum"} [1]
// CHECK:          %[[V_TILE:.+]] = vector.transfer_read %[[V_VIEW]][%[[KEY]], %[[C_0]]], {{.*}} {attn.role = "value", in_bounds = [true, true]}
// CHECK:          %[[NEW_ACC:.+]] = vector.contract {indexing_maps = [#[[ROWS_OF_LHS]], #[[COLUMNS_OF_RHS]], #[[RESULT]]]
// CHECK-SAME:       %[[PROBABILITIES]], %[[V_TILE]], %[[CORRECTED_ACC]] {attn.role = "accumulator"}
// CHECK:          scf.yield %[[NEW_MAX]], %[[NEW_SUM]], %[[NEW_ACC]]
// CHECK:        } {attn.role = "sweep"}
// CHECK:        %[[O_VIEW:.+]] = memref.subview %[[O]][%[[B]], %[[H]], 0, 0]
// CHECK:        %[[INVERSE:.+]] = arith.divf %[[ONES]], %[[SUMS]]#1
// CHECK:        %[[SAW_NOTHING:.+]] = arith.cmpf oeq, %[[SUMS]]#1, %[[NO_SUM]]
// CHECK:        %[[WEIGHT:.+]] = arith.select %[[SAW_NOTHING]], %[[NO_SUM]], %[[INVERSE]]
// CHECK:        %[[OUTPUT:.+]] = arith.mulf %[[SUMS]]#2, %{{.+}} : vector<64x64xf32>
// CHECK:        vector.transfer_write %[[OUTPUT]], %[[O_VIEW]][%[[FIRST_ROW]], %[[C_0]]] {attn.role = "output", in_bounds = [true, true]}
// CHECK:      } {attn.role = "tasks", attn.tiling = #attn.tiling<block_query = 64, block_key = 128>}
func.func @causal(%q: memref<1x8x4096x64xf32>, %k: memref<1x2x4096x64xf32>, %v: memref<1x2x4096x64xf32>, %o: memref<1x8x4096x64xf32>) {
  attn.attention %q, %k, %v causal tiling(#attn.tiling<block_query = 64, block_key = 128>)
    outs(%o : memref<1x8x4096x64xf32>)
    : memref<1x8x4096x64xf32>, memref<1x2x4096x64xf32>, memref<1x2x4096x64xf32>
  return
}

// -----

// Nothing to test, nothing to skip, nothing to divide: no scf.if, the head as
// it is. The target rides on the tasks.

// CHECK-LABEL: func @whole_blocks(
// CHECK-NOT:   scf.if
// CHECK-NOT:   arith.divui
// CHECK:       scf.forall (%{{.+}}, %[[H:.+]], %[[T:.+]]) in (2, 3, 2)
// CHECK:         %[[FIRST_ROW:.+]] = arith.muli %[[T]],
// CHECK:         memref.subview %{{.+}}[%{{.+}}, %[[H]], 0, 0] [1, 1, 16, 4]
// CHECK-NOT:     arith.select %{{.+}} : vector<4x8xi1>
// CHECK:       } {attn.role = "tasks", attn.target = #attn.target<name = "cpu:test">, attn.tiling = #attn.tiling<block_query = 4, block_key = 8>}
func.func @whole_blocks(%q: memref<2x3x8x4xf32>, %k: memref<2x3x16x4xf32>, %v: memref<2x3x16x4xf32>, %o: memref<2x3x8x4xf32>) {
  attn.attention %q, %k, %v target(#attn.target<name = "cpu:test">) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<2x3x8x4xf32>) : memref<2x3x8x4xf32>, memref<2x3x16x4xf32>, memref<2x3x16x4xf32>
  return
}

// -----

// Every size that may be dynamic is. The number of query blocks is rounded up,
// reads and writes may pass the end, the last block of keys is tested.

// CHECK-LABEL: func @dynamic(
// CHECK-SAME:  %[[Q:.+]]: memref<?x?x?x64xf32>, %[[K:.+]]: memref<?x?x?x64xf32>, %[[V:.+]]: memref<?x?x?x32xf32>, %{{.+}}, %[[L:.+]]: memref<?x?x?xf32>)
// CHECK-DAG:   %[[LN_2:.+]] = arith.constant dense<0.693147182> : vector<64xf32>
// CHECK-DAG:   %[[BATCHES:.+]] = memref.dim %[[Q]], %c0
// CHECK-DAG:   %[[HEADS:.+]] = memref.dim %[[Q]], %c1
// CHECK-DAG:   %[[KV_HEADS:.+]] = memref.dim %[[K]], %c1
// CHECK-DAG:   %[[ROWS:.+]] = memref.dim %[[Q]], %c2
// CHECK-DAG:   %[[KEYS:.+]] = memref.dim %[[K]], %c2
// CHECK:       %[[PADDED_ROWS:.+]] = arith.addi %[[ROWS]], %c63
// CHECK:       %[[BLOCKS:.+]] = arith.divui %[[PADDED_ROWS]], %c64
// CHECK:       scf.forall (%[[B:.+]], %[[H:.+]], %[[T:.+]]) in (%[[BATCHES]], %[[HEADS]], %[[BLOCKS]])
// CHECK:         %[[FIRST_ROW:.+]] = arith.muli %[[T]], %c64
// CHECK:         %[[GROUP:.+]] = arith.divui %[[HEADS]], %[[KV_HEADS]]
// CHECK:         %[[KV_HEAD:.+]] = arith.divui %[[H]], %[[GROUP]] {attn.role = "kv_head"}
// CHECK:         vector.transfer_read {{.*}} {attn.role = "query", in_bounds = [false, true]}
// CHECK:         memref.subview %[[K]][%[[B]], %[[KV_HEAD]], 0, 0] [1, 1, %[[KEYS]], 64] [1, 1, 1, 1]
// CHECK:         memref.subview %[[V]][%[[B]], %[[KV_HEAD]], 0, 0] [1, 1, %[[KEYS]], 32] [1, 1, 1, 1]
// CHECK:         %[[SUMS:.+]]:3 = scf.for %[[KEY:[^ ]+]] = %c0 to %[[KEYS]] step %c128
// CHECK:           vector.transfer_read {{.*}} {attn.role = "key", in_bounds = [false, true]}
// CHECK:           %[[BLOCK_END:.+]] = arith.addi %[[KEY]], %c128
// CHECK:           %[[IS_EDGE:.+]] = arith.cmpi sgt, %[[BLOCK_END]], %[[KEYS]]
// CHECK:           scf.if %[[IS_EDGE]]
// CHECK:             %[[REST:.+]] = arith.subi %[[KEYS]], %[[KEY]]
// CHECK:             %[[IS_KEY:.+]] = arith.cmpi slt, %{{.+}}, %{{.+}} : vector<128xi32>
// CHECK:             vector.broadcast %[[IS_KEY]] : vector<128xi1> to vector<64x128xi1>
// CHECK:           vector.transfer_read {{.*}} {attn.role = "value", in_bounds = [false, true]}
// CHECK:         vector.transfer_write {{.*}} {attn.role = "output", in_bounds = [false, true]}
// CHECK:         %[[LSE_VIEW:.+]] = memref.subview %[[L]][%[[B]], %[[H]], 0] [1, 1, %[[ROWS]]]
// CHECK:         %[[LOG2:.+]] = math.log2 %[[SUMS]]#1
// CHECK-DAG:     %[[SCALED_MAX:.+]] = arith.mulf %[[SUMS]]#0,
// CHECK-DAG:     %[[LN:.+]] = arith.mulf %[[LOG2]], %[[LN_2]]
// CHECK:         %[[NATURAL:.+]] = arith.addf %[[SCALED_MAX]], %[[LN]]
// CHECK:         %[[LSE:.+]] = arith.select %{{.+}}, %{{.+}}, %[[NATURAL]]
// CHECK:         vector.transfer_write %[[LSE]], %[[LSE_VIEW]][%[[FIRST_ROW]]] {attn.role = "lse"}
func.func @dynamic(%q: memref<?x?x?x64xf32>, %k: memref<?x?x?x64xf32>, %v: memref<?x?x?x32xf32>, %o: memref<?x?x?x32xf32>, %l: memref<?x?x?xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 64, block_key = 128>)
    outs(%o, %l : memref<?x?x?x32xf32>, memref<?x?x?xf32>)
    : memref<?x?x?x64xf32>, memref<?x?x?x64xf32>, memref<?x?x?x32xf32>
  return
}

// -----

// Products of bf16 add up in f32; the probabilities are rounded to bf16 for
// the second product only.

// CHECK-LABEL: func @bf16(
// CHECK:       vector.contract {{.*}} {attn.role = "scores"} : vector<4x16xbf16>, vector<8x16xbf16> into vector<4x8xf32>
// CHECK:       %[[PROBABILITIES:.+]] = math.exp2 %{{.+}} {attn.role = "probabilities"} : vector<4x8xf32>
// CHECK:       vector.multi_reduction <add>, %[[PROBABILITIES]],
// CHECK:       %[[ROUNDED:.+]] = arith.truncf %[[PROBABILITIES]] : vector<4x8xf32> to vector<4x8xbf16>
// CHECK:       vector.contract {{.*}} %[[ROUNDED]], {{.*}} {attn.role = "accumulator"} : vector<4x8xbf16>, vector<8x16xbf16> into vector<4x16xf32>
// CHECK:       arith.truncf %{{.+}} : vector<4x16xf32> to vector<4x16xbf16>
func.func @bf16(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x8x16xbf16>, %v: memref<1x1x8x16xbf16>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x8x16xbf16>, memref<1x1x8x16xbf16>
  return
}

// -----

// The accumulator's type is the output's: no conversion at the end.

// CHECK-LABEL: func @f16_to_f32(
// CHECK:       } {attn.role = "sweep"}
// CHECK-NOT:   arith.truncf
// CHECK-NOT:   arith.extf
// CHECK:       vector.transfer_write %{{.+}} : vector<4x4xf32>
func.func @f16_to_f32(%q: memref<1x1x8x4xf16>, %k: memref<1x1x8x4xf16>, %v: memref<1x1x8x4xf16>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf16>, memref<1x1x8x4xf16>, memref<1x1x8x4xf16>
  return
}

// -----

// CHECK-LABEL: func @f64(
// CHECK:       vector.contract {{.*}} {attn.role = "scores"} : vector<4x4xf64>, vector<8x4xf64> into vector<4x8xf64>
// CHECK:       vector.transfer_write %{{.+}} {attn.role = "lse", in_bounds = [true]} : vector<4xf64>
func.func @f64(%q: memref<1x1x8x4xf64>, %k: memref<1x1x8x4xf64>, %v: memref<1x1x8x4xf64>, %o: memref<1x1x8x4xf64>, %l: memref<1x1x8xf64>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o, %l : memref<1x1x8x4xf64>, memref<1x1x8xf64>) : memref<1x1x8x4xf64>, memref<1x1x8x4xf64>, memref<1x1x8x4xf64>
  return
}

// -----

// Each operand in its own layout and with its own strides: a view, no copy.

// CHECK-LABEL: func @layouts(
// CHECK-SAME:  %[[Q:.+]]: memref<1x8x2x4xf32>, %[[K:.+]]: memref<1x2x8x4xf32, strided<[?, ?, ?, 1], offset: ?>>, %[[V:.+]]: memref<1x8x2x4xf32>,
// CHECK:       scf.forall (%[[B:.+]], %[[H:.+]], %{{.+}}) in
// CHECK:       memref.subview %[[Q]][%[[B]], 0, %[[H]], 0] [1, 8, 1, 4] [1, 1, 1, 1]
// CHECK-SAME:    to memref<8x4xf32, strided<[8, 1], offset: ?>>
// CHECK:       memref.subview %[[K]][%[[B]], %[[H]], 0, 0] [1, 1, 8, 4] [1, 1, 1, 1]
// CHECK-SAME:    to memref<8x4xf32, strided<[?, 1], offset: ?>>
// CHECK:       memref.subview %[[V]][%[[B]], 0, %[[H]], 0] [1, 8, 1, 4] [1, 1, 1, 1]
func.func @layouts(%q: memref<1x8x2x4xf32>, %k: memref<1x2x8x4xf32, strided<[?, ?, ?, 1], offset: ?>>, %v: memref<1x8x2x4xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v layout(query = bshd, value = bshd) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) : memref<1x8x2x4xf32>, memref<1x2x8x4xf32, strided<[?, ?, ?, 1], offset: ?>>, memref<1x8x2x4xf32>
  return
}
