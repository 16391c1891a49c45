// Every function ends as arithmetic and intrinsics; nothing of math is left.

// RUN: attn-opt %s --attn-math-to-ptx --split-input-file --verify-diagnostics | FileCheck %s --implicit-check-not=math.

// CHECK-LABEL: @exp2
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%{{.*}})
func.func @exp2(%x: f32) -> f32 {
  %0 = math.exp2 %x : f32
  return %0 : f32
}

// The unit works on numbers, arithmetic on vectors.
// CHECK-LABEL: @approximate_exp
// CHECK: arith.mulf %{{.*}} : vector<2x2xf32>
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK: vector.from_elements
func.func @approximate_exp(%x: vector<2x2xf32>) -> vector<2x2xf32> {
  %0 = math.exp %x fastmath<afn> : vector<2x2xf32>
  return %0 : vector<2x2xf32>
}

// What the product with log2 e loses is put back.
// CHECK-LABEL: @exp
// CHECK: %[[EXPONENT:.+]] = arith.mulf %[[BOUNDED:.+]], %{{.*}}
// CHECK: %[[LOST:.+]] = llvm.call_intrinsic "llvm.fma"(%[[BOUNDED]]
// CHECK: %[[POWER:.+]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[EXPONENT]])
// CHECK: arith.mulf %[[POWER]]
func.func @exp(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// CHECK-LABEL: @tanh
// CHECK: llvm.nvvm.ex2.approx.ftz.f
// CHECK: llvm.nvvm.rcp.approx.ftz.f
// CHECK: arith.select
// CHECK: llvm.call_intrinsic "llvm.tanh"(%{{.*}}) {fastmathFlags = #llvm.fastmath<afn>}
func.func @tanh(%x: f32) -> (f32, f32) {
  %0 = math.tanh %x : f32
  %1 = math.tanh %x fastmath<afn> : f32
  return %0, %1 : f32, f32
}

// CHECK-LABEL: @small_types
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: llvm.nvvm.lg2.approx.f
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: llvm.call_intrinsic "llvm.fabs"(%{{.*}}) : (f16) -> f16
func.func @small_types(%x: bf16, %y: f16) -> (bf16, f16) {
  %0 = math.log2 %x fastmath<afn> : bf16
  %1 = math.absf %y : f16
  return %0, %1 : bf16, f16
}

// CHECK-LABEL: @maxima
// CHECK: llvm.call_intrinsic "llvm.maxnum"(%{{.*}}) : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// CHECK: llvm.call_intrinsic "llvm.minimum"
func.func @maxima(%x: vector<2x4xf32>, %y: vector<2x4xf32>, %z: f16, %w: f16) -> (vector<2x4xf32>, f16) {
  %0 = arith.maxnumf %x, %y : vector<2x4xf32>
  %1 = arith.minimumf %z, %w : f16
  return %0, %1 : vector<2x4xf32>, f16
}

// CHECK-LABEL: @others
// CHECK: llvm.nvvm.rsqrt.approx.f
// CHECK: llvm.sqrt
// CHECK: llvm.floor
func.func @others(%x: f32, %y: f32, %i: i32) -> (f32, f32, i32, i1, i1, i1) {
  %0 = math.rsqrt %x : f32
  %1 = math.sqrt %0 : f32
  %2 = math.floor %1 : f32
  %3 = math.sin %2 : f32
  %4 = math.cos %3 : f32
  %5 = math.erf %4 : f32
  %6 = math.powf %5, %y : f32
  %7 = math.log1p %6 : f32
  %8 = math.expm1 %7 : f32
  %9 = math.sinh %8 : f32
  %10 = math.atan2 %9, %y : f32
  %11 = math.cosh %10 : f32
  %12 = math.tan %11 : f32
  %13 = math.log %12 : f32
  %14 = math.log10 %13 : f32
  %15 = math.copysign %14, %y : f32
  %16 = math.fma %15, %y, %y : f32
  %17 = math.ctpop %i : i32
  %18 = math.fpowi %16, %17 : f32, i32
  %19 = math.isnan %18 : f32
  %20 = math.isinf %18 : f32
  %21 = math.isfinite %18 : f32
  %22 = math.absi %17 : i32
  return %16, %18, %22, %19, %20, %21 : f32, f32, i32, i1, i1, i1
}

// -----

// f64 has no unit: 2^n by its bits and a polynomial, a series for the logarithm.

// CHECK-LABEL: @double
// CHECK-NOT: approx
// CHECK: arith.bitcast %{{.+}} : vector<2xf64> to vector<2xi64>
// CHECK-COUNT-13: llvm.call_intrinsic "llvm.fma"
// CHECK: arith.shli
// CHECK: arith.bitcast %{{.+}} : vector<2xi64> to vector<2xf64>
// CHECK: arith.divf
// CHECK-COUNT-11: llvm.call_intrinsic "llvm.fma"
func.func @double(%x: vector<2xf64>) -> vector<2xf64> {
  %0 = math.exp2 %x : vector<2xf64>
  %1 = math.log2 %0 : vector<2xf64>
  return %1 : vector<2xf64>
}

// The greater of two numbers is an instruction; expanded it is four.

// CHECK-LABEL: @greatest
// CHECK: llvm.call_intrinsic "llvm.maxnum"
func.func @greatest(%x: f32, %y: f32) -> f32 {
  %0 = arith.maxnumf %x, %y : f32
  return %0 : f32
}

// -----

func.func @refused(%x: f64) -> f64 {
  // expected-error @below {{'math.erf' op has no form in PTX on 'f64'; f16, bf16 and f32 have all functions, f64 has exp2, exp, log2, log, tanh and rsqrt}}
  %0 = math.erf %x : f64
  return %0 : f64
}
