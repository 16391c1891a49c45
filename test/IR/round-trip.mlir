// Every clause printed as it is read, and read as it is printed.
// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s
// RUN: attn-opt %s --emit-bytecode | attn-opt | FileCheck %s

// CHECK-LABEL: func @plain
// CHECK: attn.attention %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x128x64xf32>, tensor<2x2x96x64xf32>, tensor<2x2x96x32xf32> -> tensor<2x8x128x32xf32>
func.func @plain(%q: tensor<2x8x128x64xf32>, %k: tensor<2x2x96x64xf32>, %v: tensor<2x2x96x32xf32>) -> tensor<2x8x128x32xf32> {
  %o = attn.attention %q, %k, %v : tensor<2x8x128x64xf32>, tensor<2x2x96x64xf32>, tensor<2x2x96x32xf32> -> tensor<2x8x128x32xf32>
  return %o : tensor<2x8x128x32xf32>
}

// CHECK-LABEL: func @lse
// CHECK: %[[OUTPUT:.+]]:2 = attn.attention {{.*}} -> tensor<1x2x5x3xf32>, tensor<1x2x5xf32>
// CHECK: return %[[OUTPUT]]#0, %[[OUTPUT]]#1
func.func @lse(%q: tensor<1x2x5x4xf16>, %k: tensor<1x2x7x4xf16>, %v: tensor<1x2x7x3xf16>) -> (tensor<1x2x5x3xf32>, tensor<1x2x5xf32>) {
  %o, %l = attn.attention %q, %k, %v : tensor<1x2x5x4xf16>, tensor<1x2x7x4xf16>, tensor<1x2x7x3xf16> -> tensor<1x2x5x3xf32>, tensor<1x2x5xf32>
  return %o, %l : tensor<1x2x5x3xf32>, tensor<1x2x5xf32>
}

// CHECK-LABEL: func @every_operand
// CHECK: attn.attention
// CHECK-SAME: bias(%{{.*}} : tensor<8x1x7xf16>)
// CHECK-SAME: mask(%{{.*}} : tensor<1x1x5x7xi1>)
// CHECK-SAME: kv_lengths(%{{.*}} : tensor<2xi32>)
// CHECK-SAME: segments(%{{.*}}, %{{.*}} : tensor<2x5xi64>, tensor<2x7xi64>)
// CHECK-SAME: sinks(%{{.*}} : tensor<8xf32>)
// CHECK-SAME: query_offset(%{{.*}} : tensor<1xi64>)
// CHECK-SAME: scale(1.250000e-01)
// CHECK-SAME: softcap(2.000000e+01)
// CHECK-SAME: causal window(127, 0)
// CHECK-SAME: : tensor<2x8x5x4xbf16>, tensor<2x2x7x4xbf16>, tensor<2x2x7x4xbf16> -> tensor<2x8x5x4xbf16>
func.func @every_operand(%q: tensor<2x8x5x4xbf16>, %k: tensor<2x2x7x4xbf16>, %v: tensor<2x2x7x4xbf16>,
                         %bias: tensor<8x1x7xf16>, %mask: tensor<1x1x5x7xi1>, %lengths: tensor<2xi32>,
                         %qs: tensor<2x5xi64>, %ks: tensor<2x7xi64>, %sinks: tensor<8xf32>,
                         %offset: tensor<1xi64>) -> tensor<2x8x5x4xbf16> {
  // Read in another order than it is printed in.
  %o = attn.attention %q, %k, %v window(127, 0) causal softcap(20.0) scale(0.125)
    query_offset(%offset : tensor<1xi64>) sinks(%sinks : tensor<8xf32>)
    segments(%qs, %ks : tensor<2x5xi64>, tensor<2x7xi64>) kv_lengths(%lengths : tensor<2xi32>)
    mask(%mask : tensor<1x1x5x7xi1>) bias(%bias : tensor<8x1x7xf16>)
    : tensor<2x8x5x4xbf16>, tensor<2x2x7x4xbf16>, tensor<2x2x7x4xbf16> -> tensor<2x8x5x4xbf16>
  return %o : tensor<2x8x5x4xbf16>
}

// CHECK-LABEL: func @bottom_right
// CHECK: causal bottom_right :
func.func @bottom_right(%q: tensor<1x1x5x4xf32>, %k: tensor<1x1x7x4xf32>) -> tensor<1x1x5x4xf32> {
  %o = attn.attention %q, %k, %k causal bottom_right : tensor<1x1x5x4xf32>, tensor<1x1x7x4xf32>, tensor<1x1x7x4xf32> -> tensor<1x1x5x4xf32>
  return %o : tensor<1x1x5x4xf32>
}

// CHECK-LABEL: func @layouts
// CHECK: layout(bshd)
// CHECK: layout(query = bshd, output = bshd)
// CHECK-NOT: layout
// CHECK: return
func.func @layouts(%s: tensor<1x5x2x4xf32>, %h: tensor<1x2x5x4xf32>) -> (tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>) {
  %0 = attn.attention %s, %s, %s layout(bshd) : tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32> -> tensor<1x5x2x4xf32>
  %1 = attn.attention %s, %h, %h layout(query = bshd, output = bshd) : tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x5x2x4xf32>
  %2 = attn.attention %h, %h, %h layout(bhsd) : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  return %0, %1, %2 : tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>
}

// CHECK-LABEL: func @memrefs
// CHECK: attn.attention {{.*}} outs(%{{.*}}, %{{.*}} : memref<?x8x?x64xf32>, memref<?x8x?xf32>) : memref<?x8x?x64xf32, strided<[?, ?, ?, 1], offset: ?>>, memref<?x?x?x64xf32>, memref<?x?x?x64xf32>{{$}}
func.func @memrefs(%q: memref<?x8x?x64xf32, strided<[?, ?, ?, 1], offset: ?>>, %k: memref<?x?x?x64xf32>, %o: memref<?x8x?x64xf32>, %l: memref<?x8x?xf32>) {
  attn.attention %q, %k, %k outs(%o, %l : memref<?x8x?x64xf32>, memref<?x8x?xf32>) : memref<?x8x?x64xf32, strided<[?, ?, ?, 1], offset: ?>>, memref<?x?x?x64xf32>, memref<?x?x?x64xf32>
  return
}

// CHECK-LABEL: func @destination_style
// CHECK: outs(%{{.*}} : tensor<1x1x5x4xf32>)
func.func @destination_style(%q: tensor<1x1x5x4xf32>, %init: tensor<1x1x5x4xf32>) -> tensor<1x1x5x4xf32> {
  %o = attn.attention %q, %q, %q outs(%init : tensor<1x1x5x4xf32>) : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  return %o : tensor<1x1x5x4xf32>
}

// CHECK-LABEL: func @regions
// CHECK: captures(%{{.*}}, %{{.*}} : tensor<2xf32>, tensor<?xi32>)
// CHECK-SAME: score_mod(%[[SCORE:[^,]+]], %{{[^,]+}}, %[[HEAD:[^,]+]], %{{[^,]+}}, %{{[^,]+}}, %[[SLOPES:[^,]+]], %{{[^,)]+}}) {
// CHECK: %[[SLOPE:.+]] = tensor.extract %[[SLOPES]][%[[HEAD]]]
// CHECK: %[[SUM:.+]] = arith.addf %[[SCORE]], %[[SLOPE]]
// CHECK: attn.yield %[[SUM]] : f32
// CHECK: } mask_mod(%{{[^,]+}}, %{{[^,]+}}, %[[QUERY:[^,]+]], %[[KEY:[^,]+]], %{{[^,]+}}, %[[DOCUMENT:[^,)]+]]) {
// CHECK: attn.yield %{{.+}} : i1
// CHECK: } : tensor
func.func @regions(%q: tensor<1x2x5x4xf32>, %slopes: tensor<2xf32>, %documents: tensor<?xi32>) -> tensor<1x2x5x4xf32> {
  %o = attn.attention %q, %q, %q captures(%slopes, %documents : tensor<2xf32>, tensor<?xi32>)
    score_mod(%s, %b, %h, %i, %j, %slope, %doc) {
      %x = tensor.extract %slope[%h] : tensor<2xf32>
      %y = arith.addf %s, %x : f32
      attn.yield %y : f32
    } mask_mod(%b, %h, %i, %j, %slope, %doc) {
      %di = tensor.extract %doc[%i] : tensor<?xi32>
      %dj = tensor.extract %doc[%j] : tensor<?xi32>
      %same = arith.cmpi eq, %di, %dj : i32
      attn.yield %same : i1
    } : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x2x5x4xf32>
  return %o : tensor<1x2x5x4xf32>
}

// A score of f64 queries is f64; the argument says so.
// CHECK-LABEL: func @f64
// CHECK: score_mod(%[[SCORE:.+]]: f64, %{{.*}}) {
// CHECK: math.tanh %[[SCORE]] : f64
func.func @f64(%q: tensor<1x2x5x4xf64>) -> tensor<1x2x5x4xf64> {
  %o = attn.attention %q, %q, %q score_mod(%s: f64, %b, %h, %i, %j) {
      %t = math.tanh %s : f64
      attn.yield %t : f64
    } : tensor<1x2x5x4xf64>, tensor<1x2x5x4xf64>, tensor<1x2x5x4xf64> -> tensor<1x2x5x4xf64>
  return %o : tensor<1x2x5x4xf64>
}

// CHECK-LABEL: func @zero_sizes
// CHECK: attn.attention {{.*}} scale(1.000000e+00) : tensor<0x0x0x0xf32>, tensor<0x0x0x0xf32>, tensor<0x0x0x0xf32> -> tensor<0x0x0x0xf32>
func.func @zero_sizes(%q: tensor<0x0x0x0xf32>) -> tensor<0x0x0x0xf32> {
  %o = attn.attention %q, %q, %q scale(1.0) : tensor<0x0x0x0xf32>, tensor<0x0x0x0xf32>, tensor<0x0x0x0xf32> -> tensor<0x0x0x0xf32>
  return %o : tensor<0x0x0x0xf32>
}

// Attributes of other dialects are kept.
// CHECK-LABEL: func @discardable
// CHECK: attn.attention {{.*}} {user.name = "layer 3"} :
func.func @discardable(%q: tensor<1x1x5x4xf32>) -> tensor<1x1x5x4xf32> {
  %o = attn.attention %q, %q, %q {user.name = "layer 3"} : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32> -> tensor<1x1x5x4xf32>
  return %o : tensor<1x1x5x4xf32>
}
