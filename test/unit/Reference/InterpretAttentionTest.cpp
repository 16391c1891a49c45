//===- InterpretAttentionTest.cpp - A tiled kernel written by hand --------===//
//
// Causal attention in the tiled form, with ragged tiles and a branch for the
// blocks that straddle the mask, run for many tile sizes against the oracle.
// It does not depend on attn-tile: it tests the interpreter on the ops that
// attention needs.
//
//===----------------------------------------------------------------------===//

#include "AttentionFixture.h"
#include "attn/Reference/TiledInterpreter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace attn;
using namespace mlir;

namespace {

// BR and BC are the tile sizes, D the head dimension, T the element type. T
// must not be f32: the casts of the probabilities would not be legal.
constexpr llvm::StringLiteral kKernel = R"(
#qd = affine_map<(i, j, d) -> (i, d)>
#kd = affine_map<(i, j, d) -> (j, d)>
#ij = affine_map<(i, j, d) -> (i, j)>
#pv = affine_map<(i, d, j) -> (i, j)>
#vd = affine_map<(i, d, j) -> (j, d)>
#id = affine_map<(i, d, j) -> (i, d)>
func.func @attention(%q: memref<?x?x$Dx$T>, %k: memref<?x?x$Dx$T>,
                     %v: memref<?x?x$Dx$T>, %o: memref<?x?x$Dx$T>, %lse: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %br = arith.constant $BR : index
  %bc = arith.constant $BC : index
  %pad = arith.constant 0.0 : $T
  %scale = arith.constant $SCALE : f32
  %ln2 = arith.constant dense<0.693147180559945> : vector<$BRxf32>
  %zeroS = arith.constant dense<0.0> : vector<$BRx$BCxf32>
  %zeroO = arith.constant dense<0.0> : vector<$BRx$Dxf32>
  %zero = arith.constant dense<0.0> : vector<$BRxf32>
  %none = arith.constant dense<0xFF800000> : vector<$BRxf32>
  %hidden = arith.constant dense<0xFF800000> : vector<$BRx$BCxf32>
  %heads = memref.dim %q, %c0 : memref<?x?x$Dx$T>
  %length = memref.dim %q, %c1 : memref<?x?x$Dx$T>
  %blocks = arith.ceildivui %length, %br : index
  scf.forall (%h, %t) in (%heads, %blocks) {
    %q0 = arith.muli %t, %br : index
    %qHead = memref.subview %q[%h, 0, 0] [1, %length, $D] [1, 1, 1]
      : memref<?x?x$Dx$T> to memref<?x$Dx$T, strided<[$D, 1], offset: ?>>
    %kHead = memref.subview %k[%h, 0, 0] [1, %length, $D] [1, 1, 1]
      : memref<?x?x$Dx$T> to memref<?x$Dx$T, strided<[$D, 1], offset: ?>>
    %vHead = memref.subview %v[%h, 0, 0] [1, %length, $D] [1, 1, 1]
      : memref<?x?x$Dx$T> to memref<?x$Dx$T, strided<[$D, 1], offset: ?>>
    %oHead = memref.subview %o[%h, 0, 0] [1, %length, $D] [1, 1, 1]
      : memref<?x?x$Dx$T> to memref<?x$Dx$T, strided<[$D, 1], offset: ?>>
    %lHead = memref.subview %lse[%h, 0] [1, %length] [1, 1]
      : memref<?x?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %qTile = vector.transfer_read %qHead[%q0, %c0], %pad {in_bounds = [false, true]}
      : memref<?x$Dx$T, strided<[$D, 1], offset: ?>>, vector<$BRx$Dx$T>
    %q1 = arith.addi %q0, %br : index
    %end = arith.minui %q1, %length : index
    %max, %sum, %acc = scf.for %kb = %c0 to %end step %bc
        iter_args(%m = %none, %l = %zero, %a = %zeroO)
        -> (vector<$BRxf32>, vector<$BRxf32>, vector<$BRx$Dxf32>) {
      %kTile = vector.transfer_read %kHead[%kb, %c0], %pad {in_bounds = [false, true]}
        : memref<?x$Dx$T, strided<[$D, 1], offset: ?>>, vector<$BCx$Dx$T>
      %s0 = vector.contract {indexing_maps = [#qd, #kd, #ij],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qTile, %kTile, %zeroS : vector<$BRx$Dx$T>, vector<$BCx$Dx$T> into vector<$BRx$BCxf32>
      %scales = vector.broadcast %scale : f32 to vector<$BRx$BCxf32>
      %s1 = arith.mulf %s0, %scales : vector<$BRx$BCxf32>
      %kEnd = arith.addi %kb, %bc : index
      %edge = arith.cmpi ugt, %kEnd, %q0 : index
      %s = scf.if %edge -> vector<$BRx$BCxf32> {
        %i = vector.step : vector<$BRxindex>
        %ib = vector.shape_cast %i : vector<$BRxindex> to vector<$BRx1xindex>
        %ii = vector.broadcast %ib : vector<$BRx1xindex> to vector<$BRx$BCxindex>
        %j = vector.step : vector<$BCxindex>
        %jj = vector.broadcast %j : vector<$BCxindex> to vector<$BRx$BCxindex>
        %q0s = vector.broadcast %q0 : index to vector<$BRx$BCxindex>
        %k0s = vector.broadcast %kb : index to vector<$BRx$BCxindex>
        %query = arith.addi %ii, %q0s : vector<$BRx$BCxindex>
        %key = arith.addi %jj, %k0s : vector<$BRx$BCxindex>
        %visible = arith.cmpi ule, %key, %query : vector<$BRx$BCxindex>
        %masked = arith.select %visible, %s1, %hidden : vector<$BRx$BCxi1>, vector<$BRx$BCxf32>
        scf.yield %masked : vector<$BRx$BCxf32>
      } else {
        scf.yield %s1 : vector<$BRx$BCxf32>
      }
      %mNew = vector.multi_reduction <maxnumf>, %s, %m [1] : vector<$BRx$BCxf32> to vector<$BRxf32>
      %mColumn = vector.shape_cast %mNew : vector<$BRxf32> to vector<$BRx1xf32>
      %mTile = vector.broadcast %mColumn : vector<$BRx1xf32> to vector<$BRx$BCxf32>
      %s2 = arith.subf %s, %mTile : vector<$BRx$BCxf32>
      %p = math.exp2 %s2 : vector<$BRx$BCxf32>
      %dm = arith.subf %m, %mNew : vector<$BRxf32>
      %alpha = math.exp2 %dm : vector<$BRxf32>
      %lOld = arith.mulf %l, %alpha : vector<$BRxf32>
      %lNew = vector.multi_reduction <add>, %p, %lOld [1] : vector<$BRx$BCxf32> to vector<$BRxf32>
      %aColumn = vector.shape_cast %alpha : vector<$BRxf32> to vector<$BRx1xf32>
      %aTile = vector.broadcast %aColumn : vector<$BRx1xf32> to vector<$BRx$Dxf32>
      %aOld = arith.mulf %a, %aTile : vector<$BRx$Dxf32>
      %pLow = arith.truncf %p : vector<$BRx$BCxf32> to vector<$BRx$BCx$T>
      %vTile = vector.transfer_read %vHead[%kb, %c0], %pad {in_bounds = [false, true]}
        : memref<?x$Dx$T, strided<[$D, 1], offset: ?>>, vector<$BCx$Dx$T>
      %aNew = vector.contract {indexing_maps = [#pv, #vd, #id],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %pLow, %vTile, %aOld : vector<$BRx$BCx$T>, vector<$BCx$Dx$T> into vector<$BRx$Dxf32>
      scf.yield %mNew, %lNew, %aNew : vector<$BRxf32>, vector<$BRxf32>, vector<$BRx$Dxf32>
    }
    %lColumn = vector.shape_cast %sum : vector<$BRxf32> to vector<$BRx1xf32>
    %lTile = vector.broadcast %lColumn : vector<$BRx1xf32> to vector<$BRx$Dxf32>
    %out = arith.divf %acc, %lTile : vector<$BRx$Dxf32>
    %outLow = arith.truncf %out : vector<$BRx$Dxf32> to vector<$BRx$Dx$T>
    vector.transfer_write %outLow, %oHead[%q0, %c0] {in_bounds = [false, true]}
      : vector<$BRx$Dx$T>, memref<?x$Dx$T, strided<[$D, 1], offset: ?>>
    %log = math.log2 %sum : vector<$BRxf32>
    %two = arith.addf %log, %max : vector<$BRxf32>
    %natural = arith.mulf %two, %ln2 : vector<$BRxf32>
    vector.transfer_write %natural, %lHead[%q0]
      : vector<$BRxf32>, memref<?xf32, strided<[1], offset: ?>>
  }
  return
})";

std::string replaced(std::string text, llvm::StringRef from,
                     llvm::StringRef to) {
  for (size_t at; (at = text.find(from.str())) != std::string::npos;)
    text.replace(at, from.size(), to.str());
  return text;
}

class InterpretAttentionTest : public AttentionFixture {
protected:
  InterpretAttentionTest() {
    context.loadDialect<scf::SCFDialect, vector::VectorDialect>();
  }

  void check(int64_t heads, int64_t length, int64_t depth, int64_t blockQuery,
             int64_t blockKey, Type type);
};

void InterpretAttentionTest::check(int64_t heads, int64_t length, int64_t depth,
                                   int64_t blockQuery, int64_t blockKey,
                                   Type type) {
  std::string typeText = type.isF16() ? "f16" : "bf16";
  std::string text = kKernel.str();
  // Longer names first: $D is the beginning of none, $BR and $BC come first.
  text = replaced(text, "$BR", std::to_string(blockQuery));
  text = replaced(text, "$BC", std::to_string(blockKey));
  text = replaced(text, "$SCALE",
                  std::to_string(1.4426950408889634 / std::sqrt(depth)));
  text = replaced(text, "$D", std::to_string(depth));
  text = replaced(text, "$T", typeText);

  std::string t = "tensor<1x" + std::to_string(heads) + "x" +
                  std::to_string(length) + "x" + std::to_string(depth) + "x" +
                  typeText + ">";
  AttentionOp op = parseAttention(
      "func.func @f(%q: " + t + ", %k: " + t + ", %v: " + t + ") -> " + t +
      " { %o = attn.attention %q, %k, %v causal : " + t + ", " + t + ", " + t +
      " -> " + t + "\n return %o : " + t + " }");

  llvm::SmallVector<Array> inputs;
  std::vector<HostMemRef> arguments;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(randomArray({1, heads, length, depth}));
    roundToType(inputs.back(), type);
    Array view = inputs.back();
    view.shape = {heads, length, depth};
    arguments.push_back(HostMemRef::contiguous(view));
  }
  arguments.push_back(
      HostMemRef::contiguous(Array({heads, length, depth}, nan())));
  arguments.push_back(HostMemRef::contiguous(Array({heads, length}, nan())));

  OracleResult expected = evaluate(op, inputs);
  llvm::Expected<OracleResult> straight = evaluateStraightforward(op, inputs);
  ASSERT_TRUE(bool(straight));
  llvm::Error error = runTiled(parseFunction(text), arguments);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  Array output = arguments[3].toArray(), lse = arguments[4].toArray();
  output.shape = expected.output.shape;
  lse.shape = expected.lse.shape;
  double bound = errorBound(op, straight->output, expected.output);
  EXPECT_LE(relativeError(output, expected.output), bound)
      << blockQuery << "x" << blockKey << " " << typeText;
  EXPECT_LT(relativeError(lse, expected.lse), 1e-5);
}

TEST_F(InterpretAttentionTest, TileSizesThatDivideAndThatDoNot) {
  Builder b(&context);
  for (auto [blockQuery, blockKey] :
       {std::pair<int64_t, int64_t>{16, 16}, {5, 3}, {1, 7}, {64, 64}, {3, 1}})
    check(2, 33, 24, blockQuery, blockKey, b.getBF16Type());
  check(2, 48, 16, 16, 8, b.getF16Type());
}

TEST_F(InterpretAttentionTest, OrdinarySize) {
  check(2, 130, 64, 32, 64, BFloat16Type::get(&context));
}

} // namespace
