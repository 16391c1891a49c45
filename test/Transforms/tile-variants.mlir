// From the product to the scores: scale, softcap, score_mod, bias, sinks; and
// sizes of zero.
// RUN: attn-opt %s --split-input-file --attn-tile | FileCheck %s

// A positive scale is part of the exponent: 1.44269502 is log2(e).

// CHECK-LABEL: func @scale(
// CHECK-DAG:   %[[FACTOR:.+]] = arith.constant dense<2.885390e+00> : vector<4x8xf32>
// CHECK:       %[[SCORES:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK-NEXT:  vector.multi_reduction <maxnumf>, %[[SCORES]],
// CHECK:       math.fma %[[SCORES]], %[[FACTOR]],
func.func @scale(%q: memref<1x1x8x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v scale(2.0) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// Under a negative scale the greatest product is not the greatest score.

// CHECK-LABEL: func @negative_scale(
// CHECK-DAG:   %[[SCALE:.+]] = arith.constant dense<-2.000000e+00> : vector<4x8xf32>
// CHECK-DAG:   %[[LOG2_E:.+]] = arith.constant dense<1.44269502> : vector<4x8xf32>
// CHECK:       %[[PRODUCT:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:       %[[SCORES:.+]] = arith.mulf %[[PRODUCT]], %[[SCALE]]
// CHECK:       vector.multi_reduction <maxnumf>, %[[SCORES]],
// CHECK:       math.fma %[[SCORES]], %[[LOG2_E]],
func.func @negative_scale(%q: memref<1x1x8x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v scale(-2.0) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// scale / softcap in front of the tanh, softcap * log2(e) in the exponent.

// CHECK-LABEL: func @softcap(
// CHECK-DAG:   %[[SCALE_OVER_CAP:.+]] = arith.constant dense<2.500000e-02> : vector<4x8xf32>
// CHECK-DAG:   %[[CAP_LOG2_E:.+]] = arith.constant dense<2.885390e+01> : vector<4x8xf32>
// CHECK:       %[[PRODUCT:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:       %[[SCALED:.+]] = arith.mulf %[[PRODUCT]], %[[SCALE_OVER_CAP]]
// CHECK:       %[[CAPPED:.+]] = math.tanh %[[SCALED]]
// CHECK:       math.fma %[[CAPPED]], %[[CAP_LOG2_E]],
func.func @softcap(%q: memref<1x1x8x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v softcap(20.0) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// ALiBi: the slope depends on the head and is one load; the distance of row
// and column is a tile.

// CHECK-LABEL: func @alibi(
// CHECK-SAME:  %[[SLOPES:[^:,]+]]: memref<2xf32>
// CHECK:       scf.forall (%{{.+}}, %[[H:.+]], %{{.+}}) in
// CHECK:         %[[PRODUCT:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:         %[[SCALED:.+]] = arith.mulf %[[PRODUCT]],
// CHECK:         %[[QUERIES:.+]] = arith.addi %{{.+}} : vector<4xindex>
// CHECK:         %[[KEYS:.+]] = arith.addi %{{.+}} : vector<8xindex>
// CHECK:         %[[SLOPE:.+]] = memref.load %[[SLOPES]][%[[H]]]
// CHECK:         %[[DISTANCE:.+]] = arith.subi %{{.+}}, %{{.+}} : vector<4x8xindex>
// CHECK:         %[[SLOPE_TILE:.+]] = vector.broadcast %[[SLOPE]] : f32 to vector<4x8xf32>
// CHECK:         %[[TERM:.+]] = arith.mulf %[[SLOPE_TILE]], %{{.+}} : vector<4x8xf32>
// CHECK:         %[[SCORES:.+]] = arith.addf %[[SCALED]], %[[TERM]]
// CHECK:         vector.multi_reduction <maxnumf>, %[[SCORES]],
func.func @alibi(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %slopes: memref<2xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) captures(%slopes : memref<2xf32>)
    score_mod(%s, %b, %h, %i, %j, %sl) {
      %slope = memref.load %sl[%h] : memref<2xf32>
      %ji = arith.subi %j, %i : index
      %d = arith.index_cast %ji : index to i32
      %f = arith.sitofp %d : i32 to f32
      %term = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %term : f32
      attn.yield %r : f32
    } : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// A table read at (row, column): gathered from the memref as one row.

// CHECK-LABEL: func @table(
// CHECK-SAME:  %[[TABLE:[^:,]+]]: memref<2x8x16xf32>
// CHECK:         %[[BASE:.+]], %{{.+}}, %{{.+}}:3, %{{.+}}:3 = memref.extract_strided_metadata %[[TABLE]]
// CHECK:         %[[ROW:.+]] = memref.reinterpret_cast %[[BASE]] to offset: [0], sizes: [256], strides: [1]
// CHECK:         vector.gather %[[ROW]][%c0] [%{{.+}}], {{.*}} : {{.*}}, vector<4x8xindex>, vector<4x8xi1>, vector<4x8xf32> into vector<4x8xf32>
func.func @table(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %table: memref<2x8x16xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) captures(%table : memref<2x8x16xf32>)
    score_mod(%s, %b, %h, %i, %j, %t) {
      %term = memref.load %t[%h, %i, %j] : memref<2x8x16xf32>
      %r = arith.addf %s, %term : f32
      attn.yield %r : f32
    } : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// A table of distances under a causal mask: i - j is at most 7, and negative for
// hidden pairs only. They read element 0 and divide by 1.

// CHECK-LABEL: func @distances(
// CHECK-SAME:  %{{.+}}, %[[TABLE:[^:,]+]]: memref<8xf32>
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant dense<0> : vector<4x8xindex>
// CHECK-DAG:     %[[ONE:.+]] = arith.constant dense<1> : vector<4x8xindex>
// CHECK:         %[[DISTANCE:.+]] = arith.subi %{{.+}}, %{{.+}} : vector<4x8xindex>
// CHECK-NOT:     arith.minsi
// CHECK:         %[[WITHIN:.+]] = arith.maxsi %[[DISTANCE]], %[[ZERO]]
// CHECK:         vector.gather %[[TABLE]][%c0] [%[[WITHIN]]]
// CHECK:         %[[NEXT:.+]] = arith.addi %[[DISTANCE]], %{{.+}}
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpi eq, %[[NEXT]], %[[ZERO]]
// CHECK:         %[[DIVISOR:.+]] = arith.select %[[IS_ZERO]], %[[ONE]], %[[NEXT]]
// CHECK:         arith.divsi %{{.+}}, %[[DIVISOR]]
func.func @distances(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %table: memref<8xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v causal tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) captures(%table : memref<8xf32>)
    score_mod(%s, %b, %h, %i, %j, %t) {
      %distance = arith.subi %i, %j : index
      %term = memref.load %t[%distance] : memref<8xf32>
      %one = arith.constant 1 : index
      %next = arith.addi %distance, %one : index
      %quotient = arith.divsi %i, %next : index
      %number = arith.index_cast %quotient : index to i32
      %factor = arith.sitofp %number : i32 to f32
      %x = arith.addf %s, %term : f32
      %r = arith.mulf %x, %factor : f32
      attn.yield %r : f32
    } : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// Indices that the region itself keeps in range, and divisors that are not 0, are
// left alone. Of a dynamic size, or an index that was read, nothing is known. A
// table without elements is not read.

// CHECK-LABEL: func @ranges(
// CHECK-SAME:  %[[IDS:[^:,]+]]: memref<16xindex>, %[[TABLE:[^:,]+]]: memref<4xf32>, %[[OPEN:[^:,]+]]: memref<?xf32>
// CHECK:         arith.remui
// CHECK-NOT:     arith.maxsi
// CHECK:         vector.gather %[[TABLE]]
// CHECK:         %[[ID:.+]] = vector.gather %[[IDS]]
// CHECK:         %[[SIZE:.+]] = memref.dim %[[OPEN]]
// CHECK:         %[[LAST:.+]] = arith.addi %[[SIZE]], %c-1
// CHECK:         %[[LASTS:.+]] = vector.broadcast %[[LAST]]
// CHECK:         %[[BELOW:.+]] = arith.minsi %[[ID]], %[[LASTS]] : vector<8xindex>
// CHECK:         %[[WITHIN:.+]] = arith.maxsi %[[BELOW]], %{{.+}} : vector<8xindex>
// CHECK:         vector.gather %[[OPEN]][%c0] [%[[WITHIN]]]
// CHECK-NOT:     memref<0xf32>
func.func @ranges(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %ids: memref<16xindex>, %table: memref<4xf32>, %open: memref<?xf32>, %none: memref<0xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v causal tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) captures(%ids, %table, %open, %none : memref<16xindex>, memref<4xf32>, memref<?xf32>, memref<0xf32>)
    score_mod(%s, %b, %h, %i, %j, %x, %t, %y, %z) {
      %four = arith.constant 4 : index
      %rest = arith.remui %j, %four : index
      %a = memref.load %t[%rest] : memref<4xf32>
      %id = memref.load %x[%j] : memref<16xindex>
      %c = memref.load %y[%id] : memref<?xf32>
      %d = memref.load %z[%i] : memref<0xf32>
      %ac = arith.addf %a, %c : f32
      %acd = arith.addf %ac, %d : f32
      %r = arith.addf %s, %acd : f32
      attn.yield %r : f32
    } : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// A bias joins after the scale, widened to the accumulator's type. The
// dimension of heads is absent, that of rows broadcasts. A bias may be the
// lowest finite number: the maximum is subtracted before log2(e) multiplies.

// CHECK-LABEL: func @bias(
// CHECK-SAME:  %[[BIAS:[^:,]+]]: memref<1x16xf16>
// CHECK:       %[[VIEW:.+]] = memref.subview %[[BIAS]][0, 0] [1, 16] [1, 1]
// CHECK:       scf.for %[[KEY:[^ ]+]] =
// CHECK:         %[[PRODUCT:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:         %[[SCALED:.+]] = arith.mulf %[[PRODUCT]],
// CHECK:         %[[ROW:.+]] = vector.transfer_read %[[VIEW]][%[[KEY]]], %{{.+}} : memref<16xf16, {{.*}}>, vector<8xf16>
// CHECK:         %[[WIDE:.+]] = arith.extf %[[ROW]] : vector<8xf16> to vector<8xf32>
// CHECK:         %[[TILE:.+]] = vector.broadcast %[[WIDE]] : vector<8xf32> to vector<4x8xf32>
// CHECK:         %[[SCORES:.+]] = arith.addf %[[SCALED]], %[[TILE]]
// CHECK:         %[[CHANGE:.+]] = arith.subf %[[SCORES]], %{{.+}} : vector<4x8xf32>
// CHECK:         %[[EXPONENTS:.+]] = arith.mulf %[[CHANGE]], %{{.+}} : vector<4x8xf32>
// CHECK:         math.exp2 %[[EXPONENTS]] {attn.role = "probabilities"}
func.func @bias(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %bias: memref<1x16xf16>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v bias(%bias : memref<1x16xf16>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// A sink is a key with the sink's score and no value, and comes after the sweep.
// It is compared with the reference as the probabilities saw it: rounded after
// the multiplication by 0.5 log2 e.

// CHECK-LABEL: func @sinks(
// CHECK-SAME:  %[[SINKS:[^:,]+]]: memref<2xf32>
// CHECK-DAG:   %[[C:.+]] = arith.constant dense<0.72134{{.*}}> : vector<4xf32>
// CHECK-DAG:   %[[LOG2E:.+]] = arith.constant dense<1.44269502> : vector<4xf32>
// CHECK-DAG:   %[[REST:.+]] = arith.constant dense<1.925{{.*}}E-8> : vector<4xf32>
// CHECK-DAG:   %[[NONE:.+]] = arith.constant dense<0xFF800000> : vector<4xf32>
// CHECK-DAG:   %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK:       scf.forall (%{{.+}}, %[[H:.+]], %{{.+}}) in
// CHECK:         %[[SWEEP:.+]]:3 = scf.for {{.*}} iter_args(%{{.+}} = %[[NONE]], %{{.+}} = %[[ZERO]],
// CHECK:         %[[SINK:.+]] = memref.load %[[SINKS]][%[[H]]]
// CHECK:         %[[ROWS:.+]] = vector.broadcast %[[SINK]] : f32 to vector<4xf32>
// CHECK:         %[[SCALED:.+]] = arith.mulf %[[ROWS]], %[[LOG2E]]
// CHECK:         %[[TAIL:.+]] = math.fma %[[ROWS]], %[[REST]],
// CHECK:         %[[REFERENCE:.+]] = arith.mulf %[[SWEEP]]#0, %[[C]]
// CHECK:         %[[DISTANCE:.+]] = arith.subf %[[REFERENCE]], %[[SCALED]]
// CHECK:         %[[ABOVE:.+]] = arith.subf %[[DISTANCE]],
// CHECK:         arith.select %{{.+}}, %{{.+}}, %[[ABOVE]]
// CHECK:         %[[OF_KEYS:.+]] = math.exp2
// CHECK:         math.exp2
// CHECK:         %[[SUM:.+]] = math.fma %[[SWEEP]]#1, %[[OF_KEYS]], %{{.+}}
// CHECK:         arith.mulf %[[SWEEP]]#2,
// CHECK:         arith.divf %{{.+}}, %[[SUM]]
func.func @sinks(%q: memref<1x2x8x4xf32>, %k: memref<1x2x16x4xf32>, %v: memref<1x2x16x4xf32>, %sinks: memref<2xf32>, %o: memref<1x2x8x4xf32>) {
  attn.attention %q, %k, %v sinks(%sinks : memref<2xf32>) tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x2x8x4xf32>) : memref<1x2x8x4xf32>, memref<1x2x16x4xf32>, memref<1x2x16x4xf32>
  return
}

// -----

// Without a head dimension every score is 0: neither query nor key is read.

// CHECK-LABEL: func @no_head_dimension(
// CHECK-NOT:   attn.role = "query"
// CHECK-NOT:   attn.role = "scores"
// CHECK:       vector.multi_reduction <maxnumf>, %{{.+}}, %{{.+}} {attn.role = "row_max"}
// CHECK:       attn.role = "accumulator"
func.func @no_head_dimension(%q: memref<1x1x8x0xf32>, %k: memref<1x1x16x0xf32>, %v: memref<1x1x16x4xf32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x0xf32>, memref<1x1x16x0xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// Without a value dimension only the lse is left to compute.

// CHECK-LABEL: func @no_value_dimension(
// CHECK:       scf.for {{.*}} -> (vector<4xf32>, vector<4xf32>)
// CHECK-NOT:   attn.role = "accumulator"
// CHECK-NOT:   attn.role = "output"
// CHECK:       attn.role = "lse"
func.func @no_value_dimension(%q: memref<1x1x8x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x0xf32>, %o: memref<1x1x8x0xf32>, %l: memref<1x1x8xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o, %l : memref<1x1x8x0xf32>, memref<1x1x8xf32>) : memref<1x1x8x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x0xf32>
  return
}

// -----

// No keys: the output is 0, and there is nothing to sweep.

// CHECK-LABEL: func @no_keys(
// CHECK:       scf.forall
// CHECK-NOT:   scf.for %
// CHECK:       vector.transfer_write {{.*}} {attn.role = "output"
func.func @no_keys(%q: memref<1x1x8x4xf32>, %k: memref<1x1x0x4xf32>, %v: memref<1x1x0x4xf32>, %o: memref<1x1x8x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x8x4xf32>) : memref<1x1x8x4xf32>, memref<1x1x0x4xf32>, memref<1x1x0x4xf32>
  return
}

// -----

// No queries: nothing to do.

// CHECK-LABEL: func @no_queries(
// CHECK-NEXT:  return
func.func @no_queries(%q: memref<1x1x0x4xf32>, %k: memref<1x1x16x4xf32>, %v: memref<1x1x16x4xf32>, %o: memref<1x1x0x4xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8>)
    outs(%o : memref<1x1x0x4xf32>) : memref<1x1x0x4xf32>, memref<1x1x16x4xf32>, memref<1x1x16x4xf32>
  return
}

// -----

// A function without attention is left alone.

// CHECK-LABEL: func @no_attention(
// CHECK-NEXT:  return %{{.+}} : f32
func.func @no_attention(%x: f32) -> f32 {
  return %x : f32
}
