// Every operand has its name and the sizes that go with it; integers have the
// range that makes sense.

// RUN: rm -rf %t && mkdir %t
// RUN: attn-opt %s --entry=operands --target=cpu:avx2 --emit=obj -o %t/operands.o
// RUN: FileCheck %s --check-prefix=OPERANDS < %t/operands.o.json
// OPERANDS: "name": "query"
// OPERANDS: "B",
// OPERANDS-NEXT: 4,
// OPERANDS-NEXT: "Sq",
// OPERANDS-NEXT: 16
// OPERANDS: "name": "key"
// OPERANDS: "B",
// OPERANDS-NEXT: 2,
// OPERANDS-NEXT: "Skv",
// OPERANDS: "name": "value"
// OPERANDS: "name": "bias"
// OPERANDS: 4,
// OPERANDS-NEXT: "Sq",
// OPERANDS-NEXT: "Skv"
// OPERANDS: "name": "kv_lengths"
// OPERANDS-NEXT: "type": "i32"
// OPERANDS: "values": [
// OPERANDS-NEXT: "0",
// OPERANDS-NEXT: "Skv"
// OPERANDS: "name": "sinks"
// OPERANDS: "name": "query_offset"
// OPERANDS: "values": [
// OPERANDS-NEXT: "0",
// OPERANDS-NEXT: "max(0, Skv - Sq)"
// OPERANDS: "name": "capture0"
// OPERANDS: "capture0_0"
// OPERANDS: "name": "output"
// OPERANDS: "access": "out"
// OPERANDS: "flops": "2*B*4*(16+16)*clamped_sum(Sq, Skv-Sq+0+1, Skv)"
func.func @operands(%q: tensor<?x4x?x16xf32>, %k: tensor<?x2x?x16xf32>,
                    %v: tensor<?x2x?x16xf32>, %bias: tensor<4x?x?xf32>,
                    %lengths: tensor<?xi32>, %sinks: tensor<4xf32>,
                    %offset: tensor<?xi64>, %table: tensor<?xf32>)
    -> tensor<?x4x?x16xf32> {
  %o = attn.attention %q, %k, %v bias(%bias : tensor<4x?x?xf32>)
    kv_lengths(%lengths : tensor<?xi32>) sinks(%sinks : tensor<4xf32>)
    query_offset(%offset : tensor<?xi64>) causal
    captures(%table : tensor<?xf32>)
    score_mod(%s, %b, %h, %i, %j, %t) {
      %slope = tensor.extract %t[%h] : tensor<?xf32>
      %r = arith.mulf %s, %slope : f32
      attn.yield %r : f32
    }
    : tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>
    -> tensor<?x4x?x16xf32>
  return %o : tensor<?x4x?x16xf32>
}

// One buffer in three parts is one argument, and its size has one name.
// RUN: attn-opt %s --entry=self --target=cpu:avx2 --emit=obj -o %t/self.o
// RUN: FileCheck %s --check-prefix=SELF < %t/self.o.json
// SELF: "name": "query"
// SELF: "Sq"
// SELF-NOT: "name": "key"
// SELF: "name": "output"
// SELF: "flops": "2*1*1*(16+16)*Sq*Sq"
func.func private @self(%x: tensor<1x1x?x16xf32>) -> tensor<1x1x?x16xf32> {
  %o = attn.attention %x, %x, %x
    : tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>
    -> tensor<1x1x?x16xf32>
  return %o : tensor<1x1x?x16xf32>
}

// Destination style: what is written is an output, whatever its place.
// RUN: attn-opt %s --entry=memrefs --target=cpu:avx2 --emit=obj -o %t/memrefs.o
// RUN: FileCheck %s --check-prefix=MEMREFS < %t/memrefs.o.json
// MEMREFS: "name": "lse"
// MEMREFS: "access": "out"
// MEMREFS: "name": "output"
// MEMREFS: "access": "out"
// MEMREFS: "name": "query"
// MEMREFS: "access": "in"
// MEMREFS: "name": "arg3"
// MEMREFS: "access": "inout"
func.func @memrefs(%lse: memref<1x1x8xf32>, %o: memref<1x1x8x16xf32>,
                   %q: memref<1x1x8x16xf32>, %other: memref<4xi32>) {
  attn.attention %q, %q, %q
    outs(%o, %lse : memref<1x1x8x16xf32>, memref<1x1x8xf32>)
    : memref<1x1x8x16xf32>, memref<1x1x8x16xf32>, memref<1x1x8x16xf32>
  return
}

// A result whose size no argument tells cannot be allocated by a caller.
// RUN: not attn-opt %s --entry=sizes --target=cpu:avx2 --emit=obj -o %t/sizes.o 2>&1 | FileCheck %s --check-prefix=SIZES
// SIZES: attn-opt: error: result1 of @sizes has a size that the arguments do not tell; make it static, or take the result's memory as an argument
func.func @sizes(%x: tensor<1x1x8x16xf32>, %n: tensor<1xi64>)
    -> (tensor<1x1x8x16xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n0 = tensor.extract %n[%c0] : tensor<1xi64>
  %size = arith.index_cast %n0 : i64 to index
  %o = attn.attention %x, %x, %x
    : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>
    -> tensor<1x1x8x16xf32>
  %e = tensor.empty(%size) : tensor<?xf32>
  return %o, %e : tensor<1x1x8x16xf32>, tensor<?xf32>
}

// RUN: not attn-opt %s --entry=types --target=cpu:avx2 --emit=obj -o %t/types.o 2>&1 | FileCheck %s --check-prefix=TYPES
// TYPES: attn-opt: error: arg1 of @types holds index; expected f16, bf16, f32, f64, i1, i8, i32 or i64
func.func @types(%x: tensor<1x1x8x16xf32>, %n: tensor<1xindex>)
    -> tensor<1x1x8x16xf32> {
  %o = attn.attention %x, %x, %x
    : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>
    -> tensor<1x1x8x16xf32>
  return %o : tensor<1x1x8x16xf32>
}

// RUN: not attn-opt %s --entry=blocks --target=cpu:avx2 --emit=obj -o %t/blocks.o 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: attn-opt: error: @blocks has several blocks; a kernel is one, with loops and conditions as scf ops
func.func @blocks(%x: tensor<1x1x8x16xf32>, %c: tensor<i1>)
    -> tensor<1x1x8x16xf32> {
  %b = tensor.extract %c[] : tensor<i1>
  cf.cond_br %b, ^left, ^right
^left:
  return %x : tensor<1x1x8x16xf32>
^right:
  %o = attn.attention %x, %x, %x
    : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>
    -> tensor<1x1x8x16xf32>
  return %o : tensor<1x1x8x16xf32>
}

// A 1 that stands for a whole size is not that size.
// RUN: attn-opt %s --entry=ones --target=cpu:avx2 --emit=obj -o %t/ones.o
// RUN: FileCheck %s --check-prefix=ONES < %t/ones.o.json
// ONES: "name": "query"
// ONES: "B",
// ONES-NEXT: "Hq",
// ONES: "name": "key"
// ONES: "B",
// ONES-NEXT: 2,
// ONES: "name": "output"
// ONES: "B",
// ONES-NEXT: "Hq",
func.func @ones(%q: tensor<?x?x8x16xf32>, %k: tensor<?x2x8x16xf32>,
                %bias: tensor<1x8x8xf32>, %offset: tensor<1xi32>)
    -> tensor<?x?x8x16xf32> {
  %o = attn.attention %q, %k, %k bias(%bias : tensor<1x8x8xf32>)
    query_offset(%offset : tensor<1xi32>) causal
    : tensor<?x?x8x16xf32>, tensor<?x2x8x16xf32>, tensor<?x2x8x16xf32>
    -> tensor<?x?x8x16xf32>
  return %o : tensor<?x?x8x16xf32>
}
