// Functions as arithmetic: what Vulkan promises of its own is too little.
// RUN: attn-opt %s --split-input-file --attn-math-to-spirv --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @exp2
// CHECK-DAG:     %[[SHIFT:.+]] = arith.constant 0x4B400000 : f32
// CHECK:         arith.addf %{{.+}}, %[[SHIFT]] : f32
// CHECK-COUNT-6: math.fma
// CHECK:         arith.shli
// CHECK:         arith.bitcast %{{.+}} : i32 to f32
// CHECK-NOT:     math.exp2
func.func @exp2(%x: f32) -> f32 {
  %y = math.exp2 %x : f32
  return %y : f32
}

// -----

// CHECK-LABEL: func.func @tanh
// CHECK:         math.fma
// CHECK:         math.copysign
// CHECK-NOT:     math.tanh
func.func @tanh(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  return %y : f32
}

// -----

// What is exact stays.

// CHECK-LABEL: func.func @exact
// CHECK:         math.absf
// CHECK:         math.floor
func.func @exact(%x: f32) -> f32 {
  %y = math.absf %x : f32
  %z = math.floor %y : f32
  return %z : f32
}

// -----

func.func @double(%x: f64) -> f64 {
  // expected-error @+1 {{has no form in SPIR-V on 'f64'}}
  %y = math.erf %x : f64
  return %y : f64
}
