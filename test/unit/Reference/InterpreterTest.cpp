//===- InterpreterTest.cpp - Each group of ops ----------------------------===//

#include "InterpreterFixture.h"

using namespace attn;
using namespace mlir;

namespace {

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

TEST_F(InterpreterTest, LoopsCarryValues) {
  EXPECT_EQ(outputOf(R"(
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c10 = arith.constant 10 : index
    %one = arith.constant 1.0 : f32
    %two = arith.constant 2.0 : f32
    %a, %b = scf.for %i = %c1 to %c10 step %c3 iter_args(%x = %one, %y = %two)
        -> (f32, f32) {
      %sum = arith.addf %x, %y : f32
      scf.yield %y, %sum : f32, f32
    }
    memref.store %a, %out[%c0] : memref<2xf32>
    memref.store %b, %out[%c1] : memref<2xf32>)",
                     2),
            (Elements{5, 8}));
}

TEST_F(InterpreterTest, WhileRunsUntilItsCondition) {
  EXPECT_EQ(outputOf(R"(
    %one = arith.constant 1 : i32
    %limit = arith.constant 100 : i32
    %r = scf.while (%x = %one) : (i32) -> i32 {
      %goes = arith.cmpi slt, %x, %limit : i32
      scf.condition(%goes) %x : i32
    } do {
    ^bb0(%x: i32):
      %y = arith.addi %x, %x : i32
      scf.yield %y : i32
    }
    memref.store %r, %out[%c0] : memref<1xi32>)",
                     1, "i32"),
            Elements{128});
}

TEST_F(InterpreterTest, ParallelLoopsRunInEitherOrder) {
  llvm::StringRef text = R"(
    func.func @f(%out: memref<6xf32>, %last: memref<1xf32>) {
      %c0 = arith.constant 0 : index
      scf.forall (%i, %j) = (0, 1) to (2, 4) step (1, 1) {
        %c3 = arith.constant 3 : index
        %row = arith.muli %i, %c3 : index
        %c1 = arith.constant 1 : index
        %column = arith.subi %j, %c1 : index
        %at = arith.addi %row, %column : index
        %n = arith.index_cast %at : index to i32
        %x = arith.sitofp %n : i32 to f32
        memref.store %x, %out[%at] : memref<6xf32>
        memref.store %x, %last[%c0] : memref<1xf32>
      }
      return
    })";
  for (bool reverse : {false, true}) {
    std::vector<HostMemRef> arguments = {
        HostMemRef::contiguous(Array({6}, nan())),
        HostMemRef::contiguous(Array({1}, nan()))};
    EXPECT_EQ(run(text, arguments, {reverse}), "");
    EXPECT_EQ(arguments[0].elements, (Elements{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(arguments[1].elements[0], reverse ? 0 : 5);
  }
}

TEST_F(InterpreterTest, ParallelReduces) {
  EXPECT_EQ(outputOf(R"(
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %zero = arith.constant 0 : i64
    %sum = scf.parallel (%i) = (%c0) to (%c5) step (%c1) init (%zero) -> i64 {
      %x = arith.index_cast %i : index to i64
      scf.reduce(%x : i64) {
      ^bb0(%a: i64, %b: i64):
        %s = arith.addi %a, %b : i64
        scf.reduce.return %s : i64
      }
    }
    memref.store %sum, %out[%c0] : memref<1xi64>)",
                     1, "i64"),
            Elements{10});
}

TEST_F(InterpreterTest, CallsFunctionsOfTheModule) {
  std::vector<HostMemRef> arguments = {HostMemRef::contiguous(Array({1}, 1.0))};
  EXPECT_EQ(run(R"(
    func.func @f(%m: memref<1xf32>) {
      %c0 = arith.constant 0 : index
      %x = memref.load %m[%c0] : memref<1xf32>
      %y = func.call @twice(%x) : (f32) -> f32
      %z = func.call @twice(%y) : (f32) -> f32
      memref.store %z, %m[%c0] : memref<1xf32>
      return
    }
    func.func private @twice(%x: f32) -> f32 {
      %y = arith.addf %x, %x : f32
      return %y : f32
    })",
                arguments),
            "");
  EXPECT_EQ(arguments[0].elements, Elements{4});
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

TEST_F(InterpreterTest, ArithmeticRoundsToItsType) {
  // 1 + 2^-9: kept in f32, lost in bf16 (7 bits) and kept in f16 (10 bits).
  llvm::StringRef body = R"(
    %one = arith.constant 1.0 : f32
    %small = arith.constant 0.001953125 : f32
    %a = arith.truncf %one : f32 to TYPE
    %b = arith.truncf %small : f32 to TYPE
    %sum = arith.addf %a, %b : TYPE
    memref.store %sum, %out[%c0] : memref<1xTYPE>)";
  auto sumIn = [&](llvm::StringRef type) {
    std::string text = body.str();
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
      text.replace(at, 4, type.str());
    return outputOf(text, 1, type)[0];
  };
  EXPECT_EQ(sumIn("bf16"), 1);
  EXPECT_EQ(sumIn("f16"), 1.001953125);
  // 1/3 in f32 is not 1/3 in f64.
  EXPECT_EQ(outputOf(R"(
    %one = arith.constant dense<1.0> : vector<2xf32>
    %three = arith.constant dense<[3.0, 5.0]> : vector<2xf32>
    %q = arith.divf %one, %three : vector<2xf32>
    vector.store %q, %out[%c0] : memref<2xf32>, vector<2xf32>)",
                     2),
            (Elements{static_cast<double>(1.0f / 3.0f),
                      static_cast<double>(1.0f / 5.0f)}));
}

TEST_F(InterpreterTest, SelectTakesVectorsByOneScalar) {
  EXPECT_EQ(outputOf(R"(
    %a = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
    %b = arith.constant dense<[3.0, 4.0]> : vector<2xf32>
    %false = arith.constant false
    %lanes = arith.constant dense<[true, false]> : vector<2xi1>
    %x = arith.select %false, %a, %b : vector<2xf32>
    %y = arith.select %lanes, %a, %x : vector<2xi1>, vector<2xf32>
    vector.store %y, %out[%c0] : memref<2xf32>, vector<2xf32>)",
                     2),
            (Elements{1, 4}));
}

TEST_F(InterpreterTest, MaximumsTreatNaNAsNamed) {
  Elements r = outputOf(R"(
    %a = arith.constant dense<[0x7FC00000, 2.0]> : vector<2xf32>
    %b = arith.constant dense<[1.0, 3.0]> : vector<2xf32>
    %number = arith.maxnumf %a, %b : vector<2xf32>
    %nan = arith.maximumf %a, %b : vector<2xf32>
    %c2 = arith.constant 2 : index
    vector.store %number, %out[%c0] : memref<4xf32>, vector<2xf32>
    vector.store %nan, %out[%c2] : memref<4xf32>, vector<2xf32>)",
                        4);
  EXPECT_EQ(r[0], 1);
  EXPECT_EQ(r[1], 3);
  EXPECT_TRUE(std::isnan(r[2]));
  EXPECT_EQ(r[3], 3);
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

TEST_F(InterpreterTest, VectorsAreRearranged) {
  // [0 1 2; 3 4 5] transposed, then the row [2 5] broadcast over a column.
  EXPECT_EQ(outputOf(R"(
    %a = arith.constant dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]> : vector<2x3xf32>
    %t = vector.transpose %a, [1, 0] : vector<2x3xf32> to vector<3x2xf32>
    %c2 = arith.constant 2 : index
    %row = vector.extract %t[%c2] : vector<2xf32> from vector<3x2xf32>
    %column = vector.shape_cast %row : vector<2xf32> to vector<2x1xf32>
    %wide = vector.broadcast %column : vector<2x1xf32> to vector<2x2xf32>
    %flat = vector.shape_cast %wide : vector<2x2xf32> to vector<4xf32>
    vector.store %flat, %out[%c0] : memref<4xf32>, vector<4xf32>)",
                     4),
            (Elements{2, 2, 5, 5}));
}

TEST_F(InterpreterTest, StridedSlices) {
  EXPECT_EQ(outputOf(R"(
    %a = arith.constant dense<[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]> : vector<2x3xf32>
    %part = vector.extract_strided_slice %a
      {offsets = [0, 1], sizes = [2, 2], strides = [1, 1]}
      : vector<2x3xf32> to vector<2x2xf32>
    %zero = arith.constant dense<9.0> : vector<2x3xf32>
    %whole = vector.insert_strided_slice %part, %zero
      {offsets = [0, 0], strides = [1, 1]} : vector<2x2xf32> into vector<2x3xf32>
    %flat = vector.shape_cast %whole : vector<2x3xf32> to vector<6xf32>
    vector.store %flat, %out[%c0] : memref<6xf32>, vector<6xf32>)",
                     6),
            (Elements{1, 2, 9, 4, 5, 9}));
}

TEST_F(InterpreterTest, ReductionsTakeRowsOrAll) {
  EXPECT_EQ(outputOf(R"(
    %a = arith.constant dense<[[0.0, 7.0, 2.0], [3.0, 4.0, 5.0]]> : vector<2x3xf32>
    %init = arith.constant dense<[1.0, 6.0]> : vector<2xf32>
    %rows = vector.multi_reduction <maxnumf>, %a, %init [1] : vector<2x3xf32> to vector<2xf32>
    %zero = arith.constant 100.0 : f32
    %all = vector.multi_reduction <add>, %a, %zero [0, 1] : vector<2x3xf32> to f32
    %sum = vector.reduction <add>, %rows : vector<2xf32> into f32
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    vector.store %rows, %out[%c0] : memref<4xf32>, vector<2xf32>
    memref.store %all, %out[%c2] : memref<4xf32>
    memref.store %sum, %out[%c3] : memref<4xf32>)",
                     4),
            (Elements{7, 6, 121, 13}));
}

TEST_F(InterpreterTest, ContractFollowsItsMaps) {
  // [1 2] against the rows [1 10] and [100 1000], then against the columns.
  llvm::StringRef body = R"(
    %a = arith.constant dense<[[1.0, 2.0]]> : vector<1x2xTYPE>
    %b = arith.constant dense<[[1.0, 10.0], [100.0, 1000.0]]> : vector<2x2xTYPE>
    %acc = arith.constant dense<[[0.5, 0.0]]> : vector<1x2xTYPE>
    %c = vector.contract {indexing_maps = [affine_map<(i, j, d) -> (i, d)>,
        affine_map<(i, j, d) -> (RHS)>, affine_map<(i, j, d) -> (i, j)>],
        iterator_types = ["parallel", "parallel", "reduction"],
        kind = #vector.kind<add>} %a, %b, %acc
      : vector<1x2xTYPE>, vector<2x2xTYPE> into vector<1x2xTYPE>
    %flat = vector.shape_cast %c : vector<1x2xTYPE> to vector<2xTYPE>
    vector.store %flat, %out[%c0] : memref<2xTYPE>, vector<2xTYPE>)";
  auto result = [&](llvm::StringRef type, llvm::StringRef rhs) {
    std::string text = body.str();
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
      text.replace(at, 4, type.str());
    text.replace(text.find("RHS"), 3, rhs.str());
    return outputOf(text, 2, type);
  };
  for (llvm::StringRef type : {"f32", "f64"}) {
    EXPECT_EQ(result(type, "j, d"), (Elements{21.5, 2100}));
    EXPECT_EQ(result(type, "d, j"), (Elements{201.5, 2010}));
  }
}

TEST_F(InterpreterTest, MasksAndSteps) {
  EXPECT_EQ(outputOf(R"(
    %c2 = arith.constant 2 : index
    %mask = vector.create_mask %c2 : vector<4xi1>
    %fixed = vector.constant_mask [1] : vector<4xi1>
    %both = arith.xori %mask, %fixed : vector<4xi1>
    %step = vector.step : vector<4xindex>
    %i = arith.index_cast %step : vector<4xindex> to vector<4xi32>
    %x = arith.sitofp %i : vector<4xi32> to vector<4xf32>
    %none = arith.constant dense<-1.0> : vector<4xf32>
    %r = arith.select %both, %x, %none : vector<4xi1>, vector<4xf32>
    vector.store %r, %out[%c0] : memref<4xf32>, vector<4xf32>)",
                     4),
            (Elements{-1, 1, -1, -1}));
}

} // namespace
