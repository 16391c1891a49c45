// RUN: attn-opt %s --attn-tile --cse --attn-tiled-to-hopper --canonicalize --cse | FileCheck %s

// A region that multiplies positions: a thread computes the term, with the
// reference subtracted, at its first column of a block, once for each of its two
// rows, and how much it grows from column to column. Each pair of columns is one
// multiply-add of the two, and one of the product. Keys behind the last one are not
// clamped: nothing is read by position.

// CHECK-LABEL: gpu.func @alibi
// CHECK-NOT:     arith.sitofp {{.*}} : vector<2xi32>
// The first block goes by its maximum; then:
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         "wgmma.wait_group.sync.aligned 1;"
// CHECK:         %[[FIRST:.*]] = arith.sitofp %{{.*}} : vector<1xi32> to vector<1xf32>
// CHECK:         %[[TERM:.*]] = arith.mulf %{{.*}}, %[[FIRST]] fastmath<contract> : vector<1xf32>
// CHECK:         %[[RELATIVE:.*]] = math.fma %[[TERM]], %{{.*}}, %{{.*}} : vector<1xf32>
// CHECK:         %[[START:.*]] = vector.extract %[[RELATIVE]][0]
// CHECK:         %[[STARTS:.*]] = vector.broadcast %[[START]] : f32 to vector<2xf32>
// CHECK:         %[[PAIR:.*]] = math.fma %{{.*}}, %{{.*}}, %[[STARTS]] : vector<2xf32>
// CHECK:         %[[EXPONENTS:.*]] = math.fma %{{.*}}, %{{.*}}, %[[PAIR]] : vector<2xf32>
// CHECK:         math.exp2 %[[EXPONENTS]] : vector<2xf32>
func.func @alibi(%q: memref<1x2x128x64xbf16>, %k: memref<1x2x100x64xbf16>, %v: memref<1x2x100x64xbf16>,
                 %slopes: memref<2xf32>, %o: memref<1x2x128x64xbf16>) {
  attn.attention %q, %k, %v captures(%slopes : memref<2xf32>)
    score_mod(%s, %b, %h, %i, %j, %sl) {
      %slope = memref.load %sl[%h] : memref<2xf32>
      %ji = arith.subi %j, %i : index
      %d = arith.index_cast %ji : index to i32
      %f = arith.sitofp %d : i32 to f32
      %bias = arith.mulf %slope, %f : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32
    }
    target(#attn.target<name = "mine", family = "cuda", arch = "sm_90a", compute_units = 132>)
    tiling(#attn.tiling<block_query = 128, block_key = 32, stages = 2, query_stages = 2, groups = 2, product = "wgmma", softmax = "stale">)
    outs(%o : memref<1x2x128x64xbf16>)
    : memref<1x2x128x64xbf16>, memref<1x2x100x64xbf16>, memref<1x2x100x64xbf16>
  return
}
