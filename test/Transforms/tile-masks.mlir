// Masks act on the range of keys, then on blocks, then on elements.
// RUN: attn-opt %s --split-input-file --attn-tile | FileCheck %s

// A window crops the sweep on both sides; blocks between need no test.

// CHECK-LABEL: func @window(
// CHECK:       scf.forall (%{{.+}}, %{{.+}}, %[[T:.+]]) in (1, 1, 32)
// CHECK:         %[[BLOCK:.+]] = arith.subi %c31, %[[T]]
// CHECK:         %[[FIRST_ROW:.+]] = arith.muli %[[BLOCK]], %c4
// CHECK:         %[[ROW_END:.+]] = arith.addi %[[FIRST_ROW]], %c4
// CHECK:         %[[LEFT_OF_FIRST:.+]] = arith.addi %[[FIRST_ROW]], %c-20
// CHECK:         %[[BEGIN_AT:.+]] = arith.maxsi %[[LEFT_OF_FIRST]], %c0
// CHECK:         %[[REST:.+]] = arith.remui %[[BEGIN_AT]], %c8
// CHECK:         %[[BEGIN:.+]] = arith.subi %[[BEGIN_AT]], %[[REST]]
// CHECK:         %[[INTERIOR_BEGIN:.+]] = arith.addi %[[ROW_END]], %c-21
// CHECK:         %[[RIGHT_OF_LAST:.+]] = arith.addi %[[ROW_END]], %c3
// CHECK:         %[[END:.+]] = arith.minsi %[[RIGHT_OF_LAST]], %c128
// CHECK:         %[[INTERIOR_END:.+]] = arith.addi %[[FIRST_ROW]], %c4
// CHECK:         scf.for %[[KEY:[^ ]+]] = %[[BEGIN]] to %[[END]] step %c8
// CHECK:           %[[IS_LEFT:.+]] = arith.cmpi slt, %[[KEY]], %[[INTERIOR_BEGIN]]
// CHECK:           %[[BLOCK_END:.+]] = arith.addi %[[KEY]], %c8
// CHECK:           %[[IS_RIGHT:.+]] = arith.cmpi sgt, %[[BLOCK_END]], %[[INTERIOR_END]]
// CHECK:           %[[IS_EDGE:.+]] = arith.ori %[[IS_LEFT]], %[[IS_RIGHT]]
// CHECK:           scf.if %[[IS_EDGE]]
// CHECK:             arith.cmpi sge, %{{.+}}, %{{.+}} : vector<4x8xi32>
// CHECK:             arith.cmpi sle, %{{.+}}, %{{.+}} : vector<4x8xi32>
func.func @window(%q: memref<1x1x128x4xf32>, %k: memref<1x1x128x4xf32>, %v: memref<1x1x128x4xf32>, %o: memref<1x1x128x4xf32>) {
  attn.attention %q, %k, %v window(20, 3) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x128x4xf32>) : memref<1x1x128x4xf32>, memref<1x1x128x4xf32>, memref<1x1x128x4xf32>
  return
}

// -----

// On a bottom-right diagonal the last query sees the last key, so the right
// bound crops nothing; the left one crops what no query sees.

// CHECK-LABEL: func @bottom_right(
// CHECK-SAME:  %[[Q:[^:,]+]]: memref<1x1x?x4xf32>, %[[K:[^:,]+]]: memref<1x1x?x4xf32>
// CHECK-DAG:   %[[ROWS:.+]] = memref.dim %[[Q]], %c2
// CHECK-DAG:   %[[KEYS:.+]] = memref.dim %[[K]], %c2
// CHECK:       scf.forall
// CHECK:         %[[DIAGONAL:.+]] = arith.subi %[[KEYS]], %[[ROWS]]
// CHECK:         %[[LEFT_OF_ALL:.+]] = arith.addi %[[DIAGONAL]], %c-20
// CHECK:         %[[NOT_NEGATIVE:.+]] = arith.maxsi %[[LEFT_OF_ALL]], %c0
// CHECK:         %[[FIRST_KEY:.+]] = arith.minsi %[[NOT_NEGATIVE]], %[[KEYS]]
// CHECK:         %[[COUNT:.+]] = arith.subi %[[KEYS]], %[[FIRST_KEY]]
// CHECK:         memref.subview %[[K]][%{{.+}}, %{{.+}}, %[[FIRST_KEY]], 0] [1, 1, %[[COUNT]], 4]
func.func @bottom_right(%q: memref<1x1x?x4xf32>, %k: memref<1x1x?x4xf32>, %v: memref<1x1x?x4xf32>, %o: memref<1x1x?x4xf32>) {
  attn.attention %q, %k, %v causal window(20, -1) bottom_right tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x?x4xf32>) : memref<1x1x?x4xf32>, memref<1x1x?x4xf32>, memref<1x1x?x4xf32>
  return
}

// -----

// Keys and values past a length are outside of the views: never read.

// CHECK-LABEL: func @lengths(
// CHECK-SAME:  %{{[^:,]+}}: memref<2x1x8x4xf32>, %[[K:[^:,]+]]: memref<2x1x16x4xf32>, %[[V:[^:,]+]]: memref<2x1x16x4xf32>, %[[LENGTHS:[^:,]+]]: memref<2xi32>
// CHECK:       scf.forall (%[[B:.+]], %{{.+}}, %{{.+}}) in (2, 1, 2)
// CHECK:         %[[GIVEN:.+]] = memref.load %[[LENGTHS]][%[[B]]]
// CHECK:         %[[LENGTH:.+]] = arith.index_cast %[[GIVEN]] : i32 to index
// CHECK:         %[[NOT_NEGATIVE:.+]] = arith.maxsi %[[LENGTH]], %c0
// CHECK:         %[[COUNT:.+]] = arith.minsi %[[NOT_NEGATIVE]], %c16
// CHECK:         %[[K_VIEW:.+]] = memref.subview %[[K]][%[[B]], %{{.+}}, 0, 0] [1, 1, %[[COUNT]], 4]
// CHECK:         %[[V_VIEW:.+]] = memref.subview %[[V]][%[[B]], %{{.+}}, 0, 0] [1, 1, %[[COUNT]], 4]
// CHECK:         scf.for %[[KEY:[^ ]+]] = %c0 to %[[COUNT]] step %c8
// CHECK:           vector.transfer_read %[[K_VIEW]]{{.*}} in_bounds = [false, true]
// CHECK:           %[[BLOCK_END:.+]] = arith.addi %[[KEY]], %c8
// CHECK:           arith.cmpi sgt, %[[BLOCK_END]], %[[COUNT]]
// CHECK:           vector.transfer_read %[[V_VIEW]]{{.*}} in_bounds = [false, true]
func.func @lengths(%q: memref<2x1x8x4xf32>, %k: memref<2x1x16x4xf32>, %v: memref<2x1x16x4xf32>, %n: memref<2xi32>, %o: memref<2x1x8x4xf32>) {
  attn.attention %q, %k, %v kv_lengths(%n : memref<2xi32>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<2x1x8x4xf32>) : memref<2x1x8x4xf32>, memref<2x1x16x4xf32>, memref<2x1x16x4xf32>
  return
}

// -----

// CHECK-LABEL: func @query_offset(
// CHECK-SAME:  %[[OFFSETS:[^:,]+]]: memref<2xi64>
// CHECK:       scf.forall (%[[B:.+]], %{{.+}}, %{{.+}}) in
// CHECK:         %[[GIVEN:.+]] = memref.load %[[OFFSETS]][%[[B]]]
// CHECK:         %[[DIAGONAL:.+]] = arith.index_cast %[[GIVEN]] : i64 to index
// CHECK:         %[[RIGHT_OF_LAST:.+]] = arith.addi %[[DIAGONAL]], %c8
// CHECK:         %[[WITHIN:.+]] = arith.minsi %[[RIGHT_OF_LAST]], %c16
// CHECK:         %[[COUNT:.+]] = arith.maxsi %[[WITHIN]], %c0
func.func @query_offset(%q: memref<2x1x8x4xf32>, %k: memref<2x1x16x4xf32>, %v: memref<2x1x16x4xf32>, %n: memref<2xi64>, %o: memref<2x1x8x4xf32>) {
  attn.attention %q, %k, %v query_offset(%n : memref<2xi64>) causal tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<2x1x8x4xf32>) : memref<2x1x8x4xf32>, memref<2x1x16x4xf32>, memref<2x1x16x4xf32>
  return
}

// -----

// CHECK-LABEL: func @shared_offset(
// CHECK-SAME:  %[[OFFSETS:[^:,]+]]: memref<1xi64>
// CHECK:         memref.load %[[OFFSETS]][%c0]
func.func @shared_offset(%q: memref<2x1x8x4xf32>, %k: memref<2x1x16x4xf32>, %v: memref<2x1x16x4xf32>, %n: memref<1xi64>, %o: memref<2x1x8x4xf32>) {
  attn.attention %q, %k, %v query_offset(%n : memref<1xi64>) causal tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<2x1x8x4xf32>) : memref<2x1x8x4xf32>, memref<2x1x16x4xf32>, memref<2x1x16x4xf32>
  return
}

// -----

// Segments: blocks whose ids do not meet are skipped, blocks of one id on
// either side are not tested, values that no row of the task sees are not read.

// CHECK-LABEL: func @segments(
// CHECK:       %[[QUERY_IDS:.+]] = vector.transfer_read %{{.+}} : memref<8xi32, strided<[1], offset: ?>>, vector<4xi32>
// CHECK:       %[[QUERY_ID_MIN:.+]] = vector.multi_reduction <minsi>, %[[QUERY_IDS]],
// CHECK:       %[[QUERY_ID_MAX:.+]] = vector.multi_reduction <maxsi>, %[[QUERY_IDS]],
// CHECK:       scf.for
// CHECK-SAME:    iter_args(%[[MAX:.+]] = %{{.+}}, %[[SUM:.+]] = %{{.+}}, %[[ACC:.+]] = %{{.+}})
// CHECK:         %[[KEY_IDS:.+]] = vector.transfer_read %{{.+}} : memref<16xi32, strided<[1], offset: ?>>, vector<8xi32>
// CHECK:         %[[KEY_ID_MIN:.+]] = vector.multi_reduction <minsi>, %[[KEY_IDS]],
// CHECK:         %[[KEY_ID_MAX:.+]] = vector.multi_reduction <maxsi>, %[[KEY_IDS]],
// CHECK:         %[[STARTS_BEFORE:.+]] = arith.cmpi sle, %[[QUERY_ID_MIN]], %[[KEY_ID_MAX]]
// CHECK:         %[[ENDS_AFTER:.+]] = arith.cmpi sle, %[[KEY_ID_MIN]], %[[QUERY_ID_MAX]]
// CHECK:         %[[IS_REACHED:.+]] = arith.andi %[[STARTS_BEFORE]], %[[ENDS_AFTER]]
// CHECK:         scf.if %[[IS_REACHED]]
// CHECK:           %[[ROWS_DIFFER:.+]] = arith.cmpi ne, %[[QUERY_ID_MIN]], %[[QUERY_ID_MAX]]
// CHECK:           %[[KEYS_DIFFER:.+]] = arith.cmpi ne, %[[KEY_ID_MIN]], %[[KEY_ID_MAX]]
// CHECK:           %[[IS_MIXED:.+]] = arith.ori %[[ROWS_DIFFER]], %[[KEYS_DIFFER]]
// CHECK:           %[[MASKED:.+]]:2 = scf.if %[[IS_MIXED]] -> (vector<4x8xf32>, vector<8xi1>)
// CHECK:             %[[VISIBLE:.+]] = arith.cmpi eq, %{{.+}}, %{{.+}} : vector<4x8xi32>
// CHECK:             vector.multi_reduction <or>, %[[VISIBLE]], %{{.+}} {attn.role = "seen"} [0]
// CHECK:           } {attn.role = "masked"}
// CHECK:           %[[SEEN_COLUMN:.+]] = vector.shape_cast %[[MASKED]]#1 : vector<8xi1> to vector<8x1xi1>
// CHECK:           %[[SEEN:.+]] = vector.broadcast %[[SEEN_COLUMN]] : vector<8x1xi1> to vector<8x4xi1>
// CHECK:           vector.transfer_read {{.*}}, %[[SEEN]] {attn.role = "value"
// CHECK:         } else {
// CHECK:           scf.yield %[[MAX]], %[[SUM]], %[[ACC]]
// CHECK:         } {attn.role = "reach"}
func.func @segments(%q: memref<1x1x8x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %qs: memref<1x8xi32>, %ks: memref<1x16xi32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v segments(%qs, %ks : memref<1x8xi32>, memref<1x16xi32>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// A mask is read before the product: a block that it hides whole is skipped.

// CHECK-LABEL: func @mask(
// CHECK-SAME:  %[[MASK:[^:,]+]]: memref<1x2x8x16xi1>
// CHECK:       scf.forall (%{{.+}}, %[[H:.+]], %{{.+}}) in (1, 2, 2)
// CHECK:         %[[MASK_VIEW:.+]] = memref.subview %[[MASK]][0, %[[H]], 0, 0] [1, 1, 8, 16]
// CHECK:         scf.for %[[KEY:[^ ]+]] =
// CHECK:           %[[VISIBLE:.+]] = vector.transfer_read %[[MASK_VIEW]][%{{.+}}, %[[KEY]]], %false
// CHECK:           %[[SEEN:.+]] = vector.multi_reduction <or>, %[[VISIBLE]], %{{.+}} {attn.role = "seen"} [0] : vector<4x8xi1> to vector<8xi1>
// CHECK:           %[[IS_REACHED:.+]] = vector.multi_reduction <or>, %[[SEEN]], %false [0] : vector<8xi1> to i1
// CHECK:           scf.if %[[IS_REACHED]]
// CHECK:             %[[SCORES:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK-NOT:         scf.if
// CHECK:             arith.select %[[VISIBLE]], %[[SCORES]], %{{.+}} {attn.role = "masked"}
// CHECK:             vector.shape_cast %[[SEEN]]
func.func @mask(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %m: memref<1x2x8x16xi1>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v mask(%m : memref<1x2x8x16xi1>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// A padding mask varies with the key only: one row of it is read, and the keys
// that are seen are the mask itself.

// CHECK-LABEL: func @padding_mask(
// CHECK-SAME:  %[[MASK:[^:,]+]]: memref<2x1x1x16xi1>
// CHECK:         %[[MASK_VIEW:.+]] = memref.subview %[[MASK]][%{{.+}}, 0, 0, 0] [1, 1, 1, 16] {{.*}} to memref<16xi1, strided<[1], offset: ?>>
// CHECK:           %[[VISIBLE:.+]] = vector.transfer_read %[[MASK_VIEW]]{{.*}} vector<8xi1>
// CHECK-NOT:       attn.role = "seen"
// CHECK:           vector.multi_reduction <or>, %[[VISIBLE]], %false [0] : vector<8xi1> to i1
// CHECK:             %[[VISIBLE_TILE:.+]] = vector.broadcast %[[VISIBLE]] : vector<8xi1> to vector<4x8xi1>
// CHECK:             arith.select %[[VISIBLE_TILE]],
// CHECK:             vector.shape_cast %[[VISIBLE]]
func.func @padding_mask(%q: memref<2x1x8x4xf32>, %k: memref<2x1x16x4xf32>, %v: memref<2x1x16x4xf32>, %m: memref<2x1x1x16xi1>, %o: memref<2x1x8x4xf32>) {
  attn.attention %q, %k, %v mask(%m : memref<2x1x1x16xi1>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<2x1x8x4xf32>) : memref<2x1x8x4xf32>, memref<2x1x16x4xf32>, memref<2x1x16x4xf32>
  return
}

// -----

// mask_mod joins the other masks; positions stay within the sequence, so that
// the captured document ids are read in range (6 queries in blocks of 4).

// CHECK-LABEL: func @mask_mod(
// CHECK-SAME:  %[[DOCUMENTS:[^:,]+]]: memref<16xi32>
// CHECK-DAG:     %[[LAST_ROW:.+]] = arith.constant dense<5> : vector<4xindex>
// CHECK:         scf.for %[[KEY:[^ ]+]] =
// CHECK:           %[[IN_BAND:.+]] = arith.cmpi sle, %{{.+}} : vector<4x8xi32>
// CHECK:           %[[ROWS:.+]] = arith.addi %{{.+}}, %{{.+}} : vector<4xindex>
// CHECK:           %[[QUERIES:.+]] = arith.minsi %[[ROWS]], %[[LAST_ROW]] : vector<4xindex>
// CHECK:           %[[KEYS:.+]] = arith.addi %{{.+}}, %{{.+}} : vector<8xindex>
// CHECK:           %[[QUERY_DOCUMENTS:.+]] = vector.gather %[[DOCUMENTS]][%c0] [%[[QUERIES]]], {{.*}} into vector<4xi32>
// CHECK:           %[[KEY_DOCUMENTS:.+]] = vector.gather %[[DOCUMENTS]][%c0] [%[[KEYS]]], {{.*}} into vector<8xi32>
// CHECK:           %[[SAME_DOCUMENT:.+]] = arith.cmpi eq, %{{.+}}, %{{.+}} : vector<4x8xi32>
// CHECK:           %[[VISIBLE:.+]] = arith.andi %[[IN_BAND]], %[[SAME_DOCUMENT]]
// CHECK:           vector.multi_reduction <or>, %[[VISIBLE]], %{{.+}} {attn.role = "seen"}
func.func @mask_mod(%q: memref<1x1x6x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %documents: memref<16xi32>, %o: memref<1x1x6x4xf32>) {
  attn.attention %q, %k, %v causal tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x6x4xf32>) captures(%documents : memref<16xi32>)
    mask_mod(%b, %h, %i, %j, %ids) {
      %query_document = memref.load %ids[%i] : memref<16xi32>
      %key_document = memref.load %ids[%j] : memref<16xi32>
      %same = arith.cmpi eq, %query_document, %key_document : i32
      attn.yield %same : i1
    } : memref<1x1x6x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}
