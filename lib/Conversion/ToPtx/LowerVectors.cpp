//===- LowerVectors.cpp - Vector ops that LLVM has a counterpart of -------===//
//
// convert-vector-to-llvm works in two steps: patterns within the vector dialect
// (n-D to 1-D, transfers to loads and stores, slices to shuffles), then the
// conversion. The second one refuses buffers in the memory spaces of a GPU, and
// convert-gpu-to-nvvm, which knows them, has no first one. This is it, from
// upstream's patterns.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace attn {
#define GEN_PASS_DEF_LOWERVECTORS
#include "attn/Conversion/Passes.h.inc"
} // namespace attn

using namespace mlir;

namespace {
struct LowerVectors : attn::impl::LowerVectorsBase<LowerVectors> {
  void runOnOperation() override {
    using namespace vector;
    RewritePatternSet patterns(&getContext());
    populateVectorToVectorCanonicalizationPatterns(patterns);
    populateVectorBroadcastLoweringPatterns(patterns);
    populateVectorContractLoweringPatterns(
        patterns, VectorContractLowering::OuterProduct);
    populateVectorMultiReductionLoweringPatterns(
        patterns, VectorMultiReductionLowering::InnerReduction);
    populateVectorMaskOpLoweringPatterns(patterns);
    populateVectorShapeCastLoweringPatterns(patterns);
    populateVectorInterleaveLoweringPatterns(patterns);
    populateVectorTransposeLoweringPatterns(patterns,
                                            VectorTransposeLowering::EltWise);
    populateVectorMaskMaterializationPatterns(patterns,
                                              /*force32BitVectorIndices=*/true);
    populateVectorInsertExtractStridedSliceTransforms(patterns);
    populateVectorStepLoweringPatterns(patterns);
    populateVectorRankReducingFMAPattern(patterns);
    populateVectorGatherLoweringPatterns(patterns);
    populateVectorFromElementsUnrollPatterns(patterns);
    populateVectorToElementsUnrollPatterns(patterns);
    populateVectorBitCastLoweringPatterns(patterns);
    populateVectorTransferLoweringPatterns(patterns, /*maxTransferRank=*/1);
    // Blocks stay apart: those that differ in operands alone may still be the
    // work of different warps.
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns), config);
  }
};
} // namespace
