//===- InterpreterTest.cpp - Each group of ops, and each refusal ----------===//

#include "AttentionFixture.h"
#include "attn/Reference/TiledInterpreter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace attn;
using namespace mlir;

namespace {

class InterpreterTest : public AttentionFixture {
protected:
  InterpreterTest() {
    context
        .loadDialect<scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
  }

  std::string run(llvm::StringRef text, std::vector<HostMemRef> &arguments,
                  const TiledRunOptions &options = {}) {
    llvm::Error error = runTiled(parseFunction(text), arguments, options);
    return error ? llvm::toString(std::move(error)) : "";
  }
  /// The body of a function that writes vectors or scalars to %out.
  std::vector<double> outputOf(llvm::StringRef body, int64_t size,
                               llvm::StringRef type = "f32") {
    std::vector<HostMemRef> arguments = {
        HostMemRef::contiguous(Array({size}, nan()))};
    std::string error =
        run("func.func @f(%out: memref<" + std::to_string(size) + "x" +
                type.str() + ">) {\n  %c0 = arith.constant 0 : index\n" +
                body.str() + "\n  return\n}",
            arguments);
    EXPECT_EQ(error, "");
    return arguments[0].elements;
  }
  std::string errorOf(llvm::StringRef body) {
    std::vector<HostMemRef> arguments = {HostMemRef::contiguous(Array({4, 8}))};
    return run("func.func @f(%m: memref<4x8xf32>) {\n" + body.str() +
                   "\n  return\n}",
               arguments);
  }
};

using Elements = std::vector<double>;

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
