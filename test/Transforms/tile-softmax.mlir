// The softmax reference: what changes when it is not the running maximum.
// RUN: attn-opt %s --split-input-file --attn-tile | FileCheck %s

// 0.360673755 is log2(e) / sqrt(16), and 22.1807098 eight doublings of that.

// CHECK-LABEL: func @conditional(
// CHECK-DAG:   %[[NO_SUM:.+]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK-DAG:   %[[NO_MAX:.+]] = arith.constant dense<0xFF800000> : vector<4xf32>
// CHECK-DAG:   %[[GROWTH:.+]] = arith.constant dense<22.1807098> : vector<4xf32>
// CHECK-DAG:   %[[FACTOR_ROW:.+]] = arith.constant dense<0.360673755> : vector<4xf32>
// CHECK-DAG:   %[[FALSE:.+]] = arith.constant false
// CHECK:       scf.for {{.*}} iter_args(%[[MAX:.+]] = %[[NO_MAX]], %[[SUM:.+]] = %[[NO_SUM]], %[[ACC:.+]] = %{{.+}})
// CHECK:         %[[SCORES:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:         %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[MAX]] {attn.role = "row_max"} [1]
// CHECK:         %[[CHANGE:.+]] = arith.subf %[[NEW_MAX]], %[[MAX]]
// CHECK:         %[[GREW:.+]] = arith.cmpf ogt, %[[CHANGE]], %[[GROWTH]]
// CHECK:         %[[ANY_GREW:.+]] = vector.multi_reduction <or>, %[[GREW]], %[[FALSE]] {attn.role = "vote"} [0] : vector<4xi1> to i1
// CHECK:         %[[STATE:.+]]:3 = scf.if %[[ANY_GREW]]
// CHECK:           %[[CORRECTION:.+]] = math.exp2 %{{.+}} {attn.role = "correction"} : vector<4xf32>
// CHECK:           %[[NEW_SUM:.+]] = arith.mulf %[[SUM]], %[[CORRECTION]]
// CHECK:           %[[NEW_ACC:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<4x16xf32>
// CHECK:           scf.yield %[[NEW_MAX]], %[[NEW_SUM]], %[[NEW_ACC]]
// CHECK:         } else {
// CHECK-NEXT:      scf.yield %[[MAX]], %[[SUM]], %[[ACC]]
// CHECK:         } {attn.role = "rescale"}
// CHECK:         %[[IS_EMPTY:.+]] = arith.cmpf oeq, %[[STATE]]#0, %[[NO_MAX]]
// CHECK:         %[[REFERENCE:.+]] = arith.select %[[IS_EMPTY]], %[[NO_SUM]], %[[STATE]]#0
// CHECK:         arith.mulf %[[REFERENCE]], %[[FACTOR_ROW]]
// CHECK:         %[[PROBABILITIES:.+]] = math.exp2 %{{.+}} {attn.role = "probabilities"} : vector<4x8xf32>
// CHECK:         %[[SUM_NOW:.+]] = vector.multi_reduction <add>, %[[PROBABILITIES]], %[[STATE]]#1 {attn.role = "row_sum"} [1]
// CHECK:         %[[ROUNDED:.+]] = arith.truncf %[[PROBABILITIES]]
// CHECK:         %[[ACC_NOW:.+]] = vector.contract {{.*}} %[[ROUNDED]], %{{.+}}, %[[STATE]]#2 {attn.role = "accumulator"}
// CHECK:         scf.yield %[[STATE]]#0, %[[SUM_NOW]], %[[ACC_NOW]]
func.func @conditional(%q: memref<1x1x8x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x8x16xf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "conditional">)
    outs(%o : memref<1x1x8x16xf16>) : memref<1x1x8x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}

// -----

// The maximum of a block is asked for only in the branch. Before any key the
// reference is low enough for any score to overflow, and not -inf.

// CHECK-LABEL: func @stale(
// CHECK-DAG:   %[[NO_SUM:.+]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK-DAG:   %[[NO_KEY:.+]] = arith.constant dense<-1.70141173E+38> : vector<4xf32>
// CHECK-DAG:   %[[FACTOR_ROW:.+]] = arith.constant dense<0.360673755> : vector<4xf32>
// CHECK-DAG:   %[[FACTOR:.+]] = arith.constant dense<0.360673755> : vector<4x8xf32>
// CHECK-DAG:   %[[RANGE:.+]] = arith.constant dense<1.07374182E+9> : vector<4xf32>
// CHECK-DAG:   %[[FALSE:.+]] = arith.constant false
// CHECK:       scf.for {{.*}} iter_args(%[[MAX:.+]] = %[[NO_KEY]], %[[SUM:.+]] = %[[NO_SUM]], %[[ACC:.+]] = %{{.+}})
// CHECK:         %[[SCORES:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK-NEXT:    %[[SCALED:.+]] = arith.mulf %[[MAX]], %[[FACTOR_ROW]]
// CHECK-NEXT:    %[[NEGATED:.+]] = arith.negf %[[SCALED]]
// CHECK:         %[[EXPONENTS:.+]] = math.fma %[[SCORES]], %[[FACTOR]],
// CHECK-NEXT:    %[[STALE:.+]] = math.exp2 %[[EXPONENTS]] {attn.role = "probabilities"}
// CHECK-NEXT:    %[[STALE_SUM:.+]] = vector.multi_reduction <add>, %[[STALE]], %[[SUM]] {attn.role = "row_sum"} [1]
// CHECK-NEXT:    %[[MOST:.+]] = arith.addf %[[SUM]], %[[RANGE]]
// CHECK-NEXT:    %[[IS_BAD:.+]] = arith.cmpf ugt, %[[STALE_SUM]], %[[MOST]]
// CHECK-NEXT:    %[[ANY_BAD:.+]] = vector.multi_reduction <or>, %[[IS_BAD]], %[[FALSE]] {attn.role = "vote"} [0] : vector<4xi1> to i1
// CHECK-NEXT:    %[[STATE:.+]]:4 = scf.if %[[ANY_BAD]]
// CHECK:           %[[NEW_MAX:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[MAX]] {attn.role = "row_max"} [1]
// CHECK-NEXT:      %[[NEW_SCALED:.+]] = arith.mulf %[[NEW_MAX]], %[[FACTOR_ROW]]
// CHECK:           %[[EXACT:.+]] = math.exp2 %{{.+}} : vector<4x8xf32>
// CHECK:           %[[CORRECTION:.+]] = math.exp2 %{{.+}} {attn.role = "correction"} : vector<4xf32>
// CHECK:           %[[CORRECTED_SUM:.+]] = arith.mulf %[[SUM]], %[[CORRECTION]]
// CHECK:           %[[CORRECTED_ACC:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<4x16xf32>
// CHECK:           %[[NEW_SUM:.+]] = vector.multi_reduction <add>, %[[EXACT]], %[[CORRECTED_SUM]] [1]
// CHECK:           scf.yield %[[NEW_MAX]], %[[EXACT]], %[[NEW_SUM]], %[[CORRECTED_ACC]]
// CHECK:         } else {
// CHECK-NEXT:      scf.yield %[[MAX]], %[[STALE]], %[[STALE_SUM]], %[[ACC]]
// CHECK:         } {attn.role = "rescale"}
// CHECK:         %[[ROUNDED:.+]] = arith.truncf %[[STATE]]#1
// CHECK:         %[[ACC_NOW:.+]] = vector.contract {{.*}} %[[ROUNDED]], %{{.+}}, %[[STATE]]#3 {attn.role = "accumulator"}
// CHECK:         scf.yield %[[STATE]]#0, %[[STATE]]#2, %[[ACC_NOW]]
func.func @stale(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x16xbf16>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>
  return
}

// -----

// The reference is 30 doublings above the maximum, here 83.177 for a score that
// is multiplied by 0.36: no probability reaches 2 until one has grown by more.
// The sum is that of the probabilities as they meet the values.

// CHECK-LABEL: func @raised(
// CHECK-DAG:   %[[NO_SUM:.+]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK-DAG:   %[[NO_KEY:.+]] = arith.constant dense<-1.70141173E+38> : vector<4xf32>
// CHECK-DAG:   %[[NONE:.+]] = arith.constant dense<0xFF800000> : vector<4xf32>
// CHECK-DAG:   %[[HEADROOM:.+]] = arith.constant dense<83.17{{.*}}> : vector<4xf32>
// CHECK-DAG:   %[[TWO:.+]] = arith.constant dense<2.000000e+00> : vector<4xf32>
// CHECK:       scf.for {{.*}} iter_args(%[[MAX:.+]] = %[[NO_KEY]], %[[SUM:.+]] = %[[NO_SUM]], %[[ACC:.+]] = %{{.+}})
// CHECK:         %[[SCORES:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:         %[[KEPT:.+]] = math.exp2 %{{.+}} {attn.role = "probabilities"}
// CHECK-NEXT:    %[[PEAK:.+]] = vector.multi_reduction <maximumf>, %[[KEPT]], %[[NO_SUM]] {attn.role = "peak"} [1]
// CHECK-NEXT:    %[[IS_BAD:.+]] = arith.cmpf uge, %[[PEAK]], %[[TWO]]
// CHECK-NEXT:    %[[ANY_BAD:.+]] = vector.multi_reduction <or>, %[[IS_BAD]], %{{.+}} {attn.role = "vote"} [0]
// CHECK-NEXT:    %[[STATE:.+]]:4 = scf.if %[[ANY_BAD]]
// CHECK:           %[[GREATEST:.+]] = vector.multi_reduction <maxnumf>, %[[SCORES]], %[[NONE]] {attn.role = "row_max"} [1]
// CHECK-NEXT:      %[[ABOVE:.+]] = arith.addf %[[GREATEST]], %[[HEADROOM]]
// CHECK-NEXT:      %[[NEW_MAX:.+]] = arith.maxnumf %[[MAX]], %[[ABOVE]]
// CHECK:           %[[EXACT:.+]] = math.exp2 %{{.+}} : vector<4x8xf32>
// CHECK:           %[[CORRECTION:.+]] = math.exp2 %{{.+}} {attn.role = "correction"} : vector<4xf32>
// CHECK:           %[[CORRECTED_SUM:.+]] = arith.mulf %[[SUM]], %[[CORRECTION]]
// CHECK:           %[[CORRECTED_ACC:.+]] = arith.mulf %[[ACC]], %{{.+}} : vector<4x16xf32>
// CHECK:           scf.yield %[[NEW_MAX]], %[[EXACT]], %[[CORRECTED_SUM]], %[[CORRECTED_ACC]]
// CHECK:         } else {
// CHECK-NEXT:      scf.yield %[[MAX]], %[[KEPT]], %[[SUM]], %[[ACC]]
// CHECK:         } {attn.role = "rescale"}
// CHECK:         %[[ROUNDED:.+]] = arith.truncf %[[STATE]]#1
// CHECK-NEXT:    %[[WIDE:.+]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT:    %[[NEW_SUM:.+]] = vector.multi_reduction <add>, %[[WIDE]], %[[STATE]]#2 {attn.role = "row_sum"} [1]
// CHECK:         scf.yield %[[STATE]]#0, %[[NEW_SUM]], %{{.+}}
func.func @raised(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x16xbf16>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "raised">)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>
  return
}

// -----

// Where scores stay in registers, what the region multiplies by and adds is taken
// apart: (x / 4 + f) / 2 = 0.125 x + f / 2. Masks are applied to x; the exponent is
// one multiply-add of it and one of f / 2 with the reference. The branch makes the
// scores again.

// CHECK-LABEL: func @apart(
// CHECK-DAG:   %[[HALF:.+]] = arith.constant dense<5.000000e-01> : vector<4x8xf32>
// CHECK-DAG:   %[[HIDDEN:.+]] = arith.constant dense<0xFF800000> : vector<4x8xf32>
// CHECK-DAG:   %[[LOG2E:.+]] = arith.constant dense<1.44269502> : vector<4x8xf32>
// CHECK-DAG:   %[[FACTOR:.+]] = arith.constant dense<1.250000e-01> : vector<4x8xf32>
// CHECK-DAG:   %[[FACTOR_LOG2E:.+]] = arith.constant dense<0.180336878> : vector<4x8xf32>
// CHECK:       scf.for
// CHECK:         %[[PRODUCT:.+]] = vector.contract {{.*}} {attn.role = "scores"}
// CHECK:         %[[POSITION:.+]] = arith.sitofp
// CHECK-NEXT:    %[[TERM:.+]] = arith.mulf %[[POSITION]], %[[HALF]]
// CHECK:         %[[BASE:.+]] = scf.if
// CHECK:           arith.select %{{.+}}, %[[PRODUCT]], %[[HIDDEN]]
// CHECK:         } {attn.role = "masked"}
// CHECK:         %[[REFERENCE:.+]] = vector.broadcast %{{.+}} : vector<4x1xf32> to vector<4x8xf32>
// CHECK-NEXT:    %[[RELATIVE:.+]] = math.fma %[[TERM]], %[[LOG2E]], %[[REFERENCE]]
// CHECK-NEXT:    %[[EXPONENT:.+]] = math.fma %[[BASE]], %[[FACTOR_LOG2E]], %[[RELATIVE]]
// CHECK-NEXT:    math.exp2 %[[EXPONENT]] {attn.role = "probabilities"}
// CHECK-NEXT:    %[[WHOLE:.+]] = math.fma %[[BASE]], %[[FACTOR]], %[[TERM]]
// CHECK-NEXT:    %[[IS_HIDDEN:.+]] = arith.cmpf oeq, %[[BASE]], %[[HIDDEN]]
// CHECK-NEXT:    %[[SCORES:.+]] = arith.select %[[IS_HIDDEN]], %[[HIDDEN]], %[[WHOLE]] {attn.role = "rebuilt"}
// CHECK:         scf.if
// CHECK:           vector.multi_reduction <maxnumf>, %[[SCORES]], %{{.+}} {attn.role = "row_max"}
func.func @apart(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x8x16xbf16>, %v: memref<1x1x8x16xbf16>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v causal score_mod(%s, %b, %h, %i, %j) {
      %half = arith.constant 0.5 : f32
      %ji = arith.subi %j, %i : index
      %d = arith.index_cast %ji : index to i32
      %f = arith.sitofp %d : i32 to f32
      %r = arith.addf %f, %s : f32
      %t = arith.mulf %r, %half : f32
      attn.yield %t : f32
    }
    tiling(#attn.tiling<block_query = 4, block_key = 8, product = "mma", softmax = "stale">)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x8x16xbf16>, memref<1x1x8x16xbf16>
  return
}

// -----

// The range is that of the type that the probabilities meet the values in: 2^15
// for f16, 2^4 for f32.

// CHECK-LABEL: func @stale_f16(
// CHECK:       arith.constant dense<3.276800e+04> : vector<4xf32>
func.func @stale_f16(%q: memref<1x1x8x16xf16>, %k: memref<1x1x64x16xf16>, %v: memref<1x1x64x16xf16>, %o: memref<1x1x8x16xf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o : memref<1x1x8x16xf16>) : memref<1x1x8x16xf16>, memref<1x1x64x16xf16>, memref<1x1x64x16xf16>
  return
}

// CHECK-LABEL: func @stale_f32(
// CHECK:       arith.constant dense<1.600000e+01> : vector<4xf32>
func.func @stale_f32(%q: memref<1x1x8x16xf32>, %k: memref<1x1x64x16xf32>, %v: memref<1x1x64x16xf32>, %o: memref<1x1x8x16xf32>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o : memref<1x1x8x16xf32>) : memref<1x1x8x16xf32>, memref<1x1x64x16xf32>, memref<1x1x64x16xf32>
  return
}

// -----

// A bias may be the lowest finite number: so is the reference before any key.
// A row with such a reference votes for the branch, where the difference comes
// before the multiplication. Without a value dimension the branch yields no
// accumulator.

// CHECK-LABEL: func @stale_bias_without_values(
// CHECK-DAG:   %[[NO_KEY:.+]] = arith.constant dense<-3.40282347E+38> : vector<4xf32>
// CHECK:       scf.for {{.*}} iter_args(%[[MAX:.+]] = %[[NO_KEY]], %[[SUM:.+]] = %{{[^,]+}})
// CHECK:         math.fma %{{.+}}, %{{.+}}, %{{.+}} : vector<4x8xf32>
// CHECK-NEXT:    math.exp2 %{{.+}} {attn.role = "probabilities"}
// CHECK:         %[[FAR:.+]] = arith.cmpf ogt, %{{.+}}, %{{.+}} : vector<4xf32>
// CHECK:         arith.ori %{{.+}}, %[[FAR]] : vector<4xi1>
// CHECK:         scf.if %{{.+}} -> (vector<4xf32>, vector<4x8xf32>, vector<4xf32>)
// CHECK:           arith.subf %{{.+}}, %{{.+}} : vector<4x8xf32>
// CHECK-NEXT:      arith.mulf %{{.+}}, %{{.+}} : vector<4x8xf32>
// CHECK-NEXT:      math.exp2
func.func @stale_bias_without_values(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x0xbf16>, %b: memref<8x64xf32>, %o: memref<1x1x8x0xbf16>, %l: memref<1x1x8xf32>) {
  attn.attention %q, %k, %v bias(%b : memref<8x64xf32>) tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o, %l : memref<1x1x8x0xbf16>, memref<1x1x8xf32>) : memref<1x1x8x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x0xbf16>
  return
}

// -----

// A sink comes after the sweep, and is no reference.

// CHECK-LABEL: func @stale_sinks(
// CHECK-SAME:  %[[SINKS:[^:,]+]]: memref<1xf32>
// CHECK-DAG:   %[[NO_KEY:.+]] = arith.constant dense<-1.70141173E+38> : vector<4xf32>
// CHECK:         scf.for {{.*}} iter_args(%{{.+}} = %[[NO_KEY]],
// CHECK:         memref.load %[[SINKS]]
func.func @stale_sinks(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x64x16xbf16>, %v: memref<1x1x64x16xbf16>, %s: memref<1xf32>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v sinks(%s : memref<1xf32>) tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x64x16xbf16>, memref<1x1x64x16xbf16>
  return
}

// -----

// No keys, no reference.

// CHECK-LABEL: func @no_keys(
// CHECK-NOT:   attn.role = "vote"
// CHECK-NOT:   attn.role = "rescale"
// CHECK:       attn.role = "output"
func.func @no_keys(%q: memref<1x1x8x16xbf16>, %k: memref<1x1x0x16xbf16>, %v: memref<1x1x0x16xbf16>, %o: memref<1x1x8x16xbf16>) {
  attn.attention %q, %k, %v tiling(#attn.tiling<block_query = 4, block_key = 8, softmax = "stale">)
    outs(%o : memref<1x1x8x16xbf16>) : memref<1x1x8x16xbf16>, memref<1x1x0x16xbf16>, memref<1x1x0x16xbf16>
  return
}
