//===- HopperKernel.cpp - Shared memory and tensor maps of a kernel -------===//
//
// Shared memory, each tile on 1024 bytes for the 128-byte swizzle:
//
//   barriers, tasks, found blocks (1024), ranges of ids | query stages |
//   key stages | value stages | ones
//
// A tile of D columns is ceil(D / 64) chunks of rows x 128 bytes; TMA fills
// columns past D with zeros. The output leaves through the query stage that
// its rows came by.
//
//===----------------------------------------------------------------------===//

#include "HopperKernel.h"
#include "Wgmma.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// Bytes of a task in flight.
static constexpr int64_t kTaskBytes = 16;
/// The search runs so many blocks ahead of the copies, and tells each in so
/// many bytes.
static constexpr int64_t kFoundAhead = 8, kFoundBytes = 16;

/// Values so wide leave registers for sums, and a product room for a column.
static constexpr int64_t kMostSummed = 192;

/// What the 128-byte swizzle repeats after.
static constexpr int64_t kTileAlignment = 1024;

static LogicalResult verifyMappable(TiledForm &form) {
  auto refuse = [&](const Twine &what) {
    return form.tasks.emitOpError("cannot use wgmma: ") << what;
  };
  int64_t groups = form.tiling.groups;
  if (form.tiling.product != "wgmma")
    return refuse("expected product = \"wgmma\" in the tiling");
  if (form.blockQuery != groups * kRows)
    return refuse("expected block_query = 64 * groups");
  if (form.blockKey % kDepth != 0 || form.blockKey > 256)
    return refuse("expected a block_key that is a multiple of 16, at most 256");
  if (!form.sweep || !form.query || !form.value)
    return refuse("expected keys, values and head dimensions");
  if (form.headDim > 256 || form.valueDim > 256 || form.valueDim % 8 != 0)
    return refuse("expected head dimensions up to 256, D_v a multiple of 8");
  // Masks that every block has to be tested for leave no condition.
  if ((form.reach || form.seenKeys) &&
      !(form.reach && form.masked && form.seen &&
        form.masked->isAncestor(form.seen)))
    return refuse("expected no mask but lengths, bands and segments");
  if (form.valueDim > form.headDim &&
      llvm::divideCeil(form.valueDim, kChunk) >
          llvm::divideCeil(form.headDim, kChunk))
    return refuse("expected values no wider than keys");
  return success();
}

/// Rings that share the tiles of another one have barriers of their own.
void HopperKernel::placeRings() {
  outputRing = queryRing;
  outputRing.producers = keyRing.consumers;
  if (searches()) {
    inspectedRing = valueRing;
    // As many as keys and values have, and some ahead of them.
    foundRing.stages = llvm::PowerOf2Ceil(stages + kFoundAhead);
    foundRing.stageBytes = kFoundBytes;
  }
  int64_t barriers = 0;
  for (Ring *ring : {&queryRing, &keyRing, &valueRing, &outputRing,
                     &inspectedRing, &foundRing}) {
    ring->barriers = barriers;
    barriers += ring->barrierBytes();
  }
  // The found blocks, small as they are, come with the barriers.
  tasksAt = llvm::alignTo(barriers, kTaskBytes);
  foundRing.tiles = tasksAt + queryStages * kTaskBytes;
  rangesAt = foundRing.tiles + foundRing.stages * kFoundBytes;
  int64_t tile = rangesAt + (searches() ? kRanges * kRangeBytes : 0);
  for (Ring *ring : {&queryRing, &keyRing, &valueRing}) {
    ring->tiles = llvm::alignTo(tile, kTileAlignment);
    tile = ring->tiles + ring->stages * ring->stageBytes;
  }
  outputRing.tiles = queryRing.tiles;
  if (form.isRaised() && form.valueDim % kChunk == 0 &&
      form.valueDim <= kMostSummed) {
    onesAt = llvm::alignTo(tile, kTileAlignment);
    tile = *onesAt + kOnesBytes;
  }
  sharedBytes = llvm::alignTo(tile, kTileAlignment);
}

FailureOr<HopperKernel> HopperKernel::plan(TiledForm &form) {
  if (failed(verifyMappable(form)))
    return failure();
  HopperKernel kernel(form);
  kernel.groups = form.tiling.groups;
  kernel.stages = form.tiling.stages;
  kernel.queryStages = form.tiling.queryStages;
  kernel.headChunks = llvm::divideCeil(form.headDim, kChunk);
  kernel.valueChunks = llvm::divideCeil(form.valueDim, kChunk);
  kernel.balances = bool(form.rightBound);

  auto query = findOperand(form.query, form.blockQuery);
  auto key = findOperand(form.key, form.blockKey);
  auto value = findOperand(form.value, form.blockKey);
  auto output = findOperand(form.output, form.blockQuery);
  if (failed(query) || failed(key) || failed(value) || failed(output))
    return failure();
  kernel.query = *query;
  kernel.key = *key;
  kernel.value = *value;
  kernel.output = *output;

  auto ring = [](int64_t stages, int64_t rows, int64_t chunks,
                 int64_t consumers) {
    Ring ring;
    ring.stages = stages;
    ring.stageBytes = rows * chunks * kChunkRowBytes;
    ring.consumers = consumers;
    return ring;
  };
  constexpr int64_t kWarps = kWarpgroup / 32;
  kernel.queryRing =
      ring(kernel.queryStages, form.blockQuery, kernel.headChunks, 1);
  kernel.keyRing = ring(kernel.stages, form.blockKey, kernel.headChunks,
                        kernel.groups * kWarps);
  kernel.valueRing = ring(kernel.stages, form.blockKey, kernel.valueChunks,
                          kernel.groups * kWarps);
  kernel.placeRings();
  return kernel;
}

Launch HopperKernel::launch(StringRef tasks) const {
  Launch launch;
  launch.grid = tasks.str();
  if (int64_t units = form.target.computeUnits)
    launch.grid = "min(" + std::to_string(units) + ", " + launch.grid + ")";
  launch.workgroup = threads();
  launch.sharedMemory = sharedBytes;
  for (const OperandTile *tile : {&query, &key, &value, &output})
    launch.tensorMaps.push_back(tile->tensorMap());
  return launch;
}

Value hopper::countBlocks(GpuEmitter &e, TiledForm &form, IRMapping &scalars) {
  scf::ForOp sweep = form.sweep;
  Value lower = scalars.lookup(sweep.getLowerBound());
  Value upper = scalars.lookup(sweep.getUpperBound());
  Value keys = e.max(e.sub(upper, lower), e.index(1));
  return e.toI32(e.div(e.add(keys, form.blockKey - 1), form.blockKey));
}
