//===- InterpreterMemoryTest.cpp - Reads and writes, and each refusal -----===//

#include "InterpreterFixture.h"

using namespace attn;
using namespace mlir;

namespace {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(InterpreterTest, TransferReadPermutesBroadcastsMasksAndPads) {
  std::vector<HostMemRef> arguments = {
      HostMemRef::contiguous(arrayOf({2, 3}, {0, 1, 2, 3, 4, 5})),
      HostMemRef::contiguous(Array({4, 2}, nan())),
      HostMemRef::contiguous(Array({2, 2}, nan())),
      HostMemRef::contiguous(Array({2, 2}, nan()))};
  EXPECT_EQ(run(R"(
    func.func @f(%m: memref<2x3xf32>, %t: memref<4x2xf32>, %b: memref<2x2xf32>,
                 %k: memref<2x2xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %pad = arith.constant 9.0 : f32
      %x = vector.transfer_read %m[%c0, %c1], %pad {in_bounds = [false, true],
          permutation_map = affine_map<(i, j) -> (j, i)>}
        : memref<2x3xf32>, vector<4x2xf32>
      vector.transfer_write %x, %t[%c0, %c0] {in_bounds = [true, true]}
        : vector<4x2xf32>, memref<4x2xf32>
      %y = vector.transfer_read %m[%c1, %c1], %pad {in_bounds = [true, true],
          permutation_map = affine_map<(i, j) -> (0, j)>}
        : memref<2x3xf32>, vector<2x2xf32>
      vector.transfer_write %y, %b[%c0, %c0] {in_bounds = [true, true]}
        : vector<2x2xf32>, memref<2x2xf32>
      // The mask is in the order of the memref: row 0 whole, row 1 not at all.
      %mask = vector.constant_mask [1, 2] : vector<2x2xi1>
      %z = vector.transfer_read %m[%c0, %c0], %pad, %mask {in_bounds = [true, true],
          permutation_map = affine_map<(i, j) -> (j, i)>}
        : memref<2x3xf32>, vector<2x2xf32>
      vector.transfer_write %z, %k[%c0, %c0] {in_bounds = [true, true]}
        : vector<2x2xf32>, memref<2x2xf32>
      return
    })",
                arguments),
            "");
  EXPECT_EQ(arguments[1].elements, (Elements{1, 4, 2, 5, 9, 9, 9, 9}));
  EXPECT_EQ(arguments[2].elements, (Elements{4, 5, 4, 5}));
  EXPECT_EQ(arguments[3].elements, (Elements{0, 9, 1, 9}));
}

TEST_F(InterpreterTest, TransferWriteStaysInside) {
  std::vector<HostMemRef> arguments = {
      HostMemRef::strided(Array({2, 2}, 0.0), {3, 1}, 1)};
  EXPECT_EQ(run(R"(
    func.func @f(%m: memref<2x2xf32, strided<[?, 1], offset: ?>>) {
      %c1 = arith.constant 1 : index
      %x = arith.constant dense<7.0> : vector<4x4xf32>
      vector.transfer_write %x, %m[%c1, %c1]
        : vector<4x4xf32>, memref<2x2xf32, strided<[?, 1], offset: ?>>
      return
    })",
                arguments),
            "");
  EXPECT_EQ(arguments[0].toArray().data, (Elements{0, 0, 0, 7}));
  // Around the elements nothing was touched.
  EXPECT_TRUE(std::isnan(arguments[0].elements[0]));
  EXPECT_TRUE(std::isnan(arguments[0].elements[3]));
}

TEST_F(InterpreterTest, ViewsOfViews) {
  std::vector<HostMemRef> arguments = {
      HostMemRef::contiguous(
          arrayOf({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})),
      HostMemRef::contiguous(Array({5}, nan()))};
  EXPECT_EQ(run(R"(
    func.func @f(%m: memref<2x2x3xf32>, %out: memref<5xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      // Head 1 of each batch: [3 4 5] and [9 10 11].
      %head = memref.subview %m[0, 1, 0] [2, 1, 3] [1, 1, 1]
        : memref<2x2x3xf32> to memref<2x3xf32, strided<[6, 1], offset: 3>>
      %open = memref.cast %head : memref<2x3xf32, strided<[6, 1], offset: 3>>
        to memref<?x?xf32, strided<[?, ?], offset: ?>>
      %x = memref.load %open[%c1, %c2] : memref<?x?xf32, strided<[?, ?], offset: ?>>
      memref.store %x, %out[%c0] : memref<5xf32>
      %turned = memref.transpose %open (i, j) -> (j, i)
        : memref<?x?xf32, strided<[?, ?], offset: ?>>
        to memref<?x?xf32, strided<[?, ?], offset: ?>>
      %y = memref.load %turned[%c2, %c0] : memref<?x?xf32, strided<[?, ?], offset: ?>>
      memref.store %y, %out[%c1] : memref<5xf32>
      %flat = memref.collapse_shape %m [[0, 1, 2]] : memref<2x2x3xf32> into memref<12xf32>
      %z = memref.load %flat[%c4] : memref<12xf32>
      memref.store %z, %out[%c2] : memref<5xf32>
      %base, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %open
        : memref<?x?xf32, strided<[?, ?], offset: ?>> -> memref<f32>, index, index, index, index, index
      %row = memref.reinterpret_cast %base to offset: [%offset], sizes: [%strides#0], strides: [1]
        : memref<f32> to memref<?xf32, strided<[1], offset: ?>>
      %w = memref.load %row[%c4] : memref<?xf32, strided<[1], offset: ?>>
      memref.store %w, %out[%c3] : memref<5xf32>
      %d = memref.dim %open, %c1 : memref<?x?xf32, strided<[?, ?], offset: ?>>
      %n = arith.index_cast %d : index to i32
      %f = arith.sitofp %n : i32 to f32
      memref.store %f, %out[%c4] : memref<5xf32>
      return
    })",
                arguments),
            "");
  EXPECT_EQ(arguments[1].elements, (Elements{11, 5, 4, 7, 3}));
}

TEST_F(InterpreterTest, FreshMemoryIsNaN) {
  EXPECT_TRUE(std::isnan(outputOf(R"(
    %m = memref.alloc() : memref<3xf32>
    %x = memref.load %m[%c0] : memref<3xf32>
    memref.dealloc %m : memref<3xf32>
    memref.store %x, %out[%c0] : memref<1xf32>)",
                                  1)[0]));
}

TEST_F(InterpreterTest, GatherReadsWhereItsMaskSays) {
  std::vector<HostMemRef> arguments = {
      HostMemRef::contiguous(arrayOf({3}, {5, 6, 7})),
      HostMemRef::contiguous(Array({3}, nan()))};
  EXPECT_EQ(run(R"(
    func.func @f(%m: memref<3xf32>, %out: memref<3xf32>) {
      %c0 = arith.constant 0 : index
      %at = arith.constant dense<[2, 99, 0]> : vector<3xindex>
      %mask = arith.constant dense<[true, false, true]> : vector<3xi1>
      %other = arith.constant dense<1.0> : vector<3xf32>
      %x = vector.gather %m[%c0] [%at], %mask, %other
        : memref<3xf32>, vector<3xindex>, vector<3xi1>, vector<3xf32> into vector<3xf32>
      vector.store %x, %out[%c0] : memref<3xf32>, vector<3xf32>
      return
    })",
                arguments),
            "");
  EXPECT_EQ(arguments[1].elements, (Elements{7, 1, 5}));
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST_F(InterpreterTest, OutOfBoundsSaysWhere) {
  EXPECT_EQ(errorOf(R"(
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = memref.load %m[%c1, %c8] : memref<4x8xf32>)"),
            "memref.load reads [1, 8] of a memref of size [4, 8]");
  EXPECT_EQ(errorOf(R"(
    %c6 = arith.constant 6 : index
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f32
    %x = vector.transfer_read %m[%c0, %c6], %pad {in_bounds = [true, true], attn.role = "key"}
      : memref<4x8xf32>, vector<2x4xf32>)"),
            "vector.transfer_read (key) accesses [0, 8] of a memref of size "
            "[4, 8]");
  // A dimension that the map leaves out is not protected by in_bounds.
  EXPECT_EQ(errorOf(R"(
    %c4 = arith.constant 4 : index
    %c0 = arith.constant 0 : index
    %pad = arith.constant 0.0 : f32
    %x = vector.transfer_read %m[%c4, %c0], %pad : memref<4x8xf32>, vector<2xf32>)"),
            "vector.transfer_read accesses [4, 0] of a memref of size [4, 8]");
  EXPECT_EQ(errorOf(R"(
    %c5 = arith.constant 5 : index
    %v = memref.subview %m[%c5, 0] [1, 8] [1, 1]
      : memref<4x8xf32> to memref<1x8xf32, strided<[8, 1], offset: ?>>)"),
            "memref.subview takes size [1, 8] from [5, 0] of a memref of size "
            "[4, 8]");
  EXPECT_EQ(errorOf(R"(
    %c3 = arith.constant 3 : index
    %row = memref.reinterpret_cast %m to offset: [30], sizes: [4], strides: [1]
      : memref<4x8xf32> to memref<4xf32, strided<[1], offset: 30>>
    %x = memref.load %row[%c3] : memref<4xf32, strided<[1], offset: 30>>)"),
            "memref.load reads [3], element 33 of an allocation of 32");
}

TEST_F(InterpreterTest, UseAfterFree) {
  EXPECT_EQ(errorOf(R"(
    %c0 = arith.constant 0 : index
    %a = memref.alloc() : memref<3xf32>
    memref.dealloc %a : memref<3xf32>
    %x = memref.load %a[%c0] : memref<3xf32>)"),
            "memref.load reads [0] of a memref that was deallocated");
}

TEST_F(InterpreterTest, UnknownOpIsNamed) {
  EXPECT_EQ(errorOf(R"(
    %v = arith.constant dense<1.0> : vector<4xf32>
    vector.print %v : vector<4xf32>)"),
            "the interpreter does not know vector.print");
}

TEST_F(InterpreterTest, DivisionByZero) {
  EXPECT_EQ(errorOf(R"(
    %c0 = arith.constant 0 : index
    %x = arith.remui %c0, %c0 : index)"),
            "arith.remui divides by zero");
}

TEST_F(InterpreterTest, ArgumentsMustFit) {
  std::vector<HostMemRef> arguments = {HostMemRef::contiguous(Array({3, 8}))};
  EXPECT_EQ(run("func.func @f(%m: memref<4x8xf32>) { return }", arguments),
            "argument #0 is memref<4x8xf32>, got sizes [3, 8], strides [8, 1], "
            "offset 0");
  EXPECT_EQ(run("func.func @f() { return }", arguments),
            "@f takes 0 arguments, got 1");
}

} // namespace
