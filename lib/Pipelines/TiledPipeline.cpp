//===- TiledPipeline.cpp - From the input to the tiled form ---------------===//
//
// The part of the road that all targets share.
//
//===----------------------------------------------------------------------===//

#include "attn/Pipelines/Pipelines.h"
#include "attn/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void attn::addPassesToAttn(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void attn::addPassesToConfigured(OpPassManager &pm, std::string target) {
  pm.addPass(createSelectTiling({std::move(target)}));
  pm.addPass(createAddFallback());
}

/// Tensors become memrefs. A function's tensor arguments are taken as packed
/// row-major buffers; its results become arguments at the end, which the
/// caller provides, so that a kernel allocates nothing that it returns.
static void addBufferization(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(bufferize));

  pm.addPass(attn::createSeparateResults());
  bufferization::BufferResultsToOutParamsPassOptions results;
  results.hoistStaticAllocs = true;
  results.hoistDynamicAllocs = true;
  results.modifyPublicFunctions = true;
  pm.addPass(bufferization::createBufferResultsToOutParamsPass(results));
}

void attn::addPassesToTiled(OpPassManager &pm) {
  addBufferization(pm);
  pm.addPass(createTile());
  // Frees what was allocated for values between ops. Not before attn-tile: it
  // knows the regions of loops, not those of attention.
  pm.addPass(bufferization::createOwnershipBasedBufferDeallocationPass());
  pm.addPass(bufferization::createBufferDeallocationSimplificationPass());
  pm.addPass(bufferization::createLowerDeallocationsPass());
  // No canonicalisation: it drops loops of one iteration, and the tiled form
  // promises its loops whatever the sizes are.
  pm.addPass(createCSEPass());
}

void attn::buildAttnToTiledPipeline(OpPassManager &pm,
                                    const PipelineOptions &options) {
  addPassesToAttn(pm);
  addPassesToConfigured(pm, options.target);
  addPassesToTiled(pm);
}
