//===- AmxProduct.cpp - Tile products by AMX tile registers ---------------===//
//
// A key block is worked off by groups of rows of two tiles, each through
// scores, softmax and output in turn: what passes between the three stays in
// L1. With the softmax "exact" the scores of the whole block come first, then
// the maxima, then P. With "stale" no maximum is asked for:
//
//   for patch of keys, of a few tiles:
//     S = Q K^T                               tiles, to memory
//     p = exp2(c s - c m), bf16;  sums += p   rows, from memory
//   if the sums call for another reference (or the block is the task's first):
//     the block once more, as "exact" does it
//   acc += P V                                tiles
//
// so that the scores of one patch are multiplied while the vector units are at
// the exponentials of the one before.
//
// Where the query tiles of the group fit beside operands and sums (D <= 64)
// they stay in registers for the block: Q in tmm4-7, sums in tmm0-1, keys in
// tmm2-3. Else both products hold 2 x 2 sums in tmm0-3 and operands in tmm4-7.
//
//===----------------------------------------------------------------------===//

#include "AmxProduct.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

static int64_t ceil(int64_t x, int64_t y) { return (x + y - 1) / y; }

AmxProduct::AmxProduct(const CpuKernel &kernel)
    : kernel(kernel), depthTiles(ceil(kernel.form.headDim, kTileDepth)),
      valueTiles(ceil(kernel.form.valueDim, kTileRows)),
      rowStep(kernel.registerRows / kTileRows) {}

std::unique_ptr<TileProduct> cpu::createAmxProduct(const CpuKernel &kernel) {
  return std::make_unique<AmxProduct>(kernel);
}

void AmxProduct::beginThread(Emitter &e) {
  Type bf16 = e.b.getBF16Type();
  query =
      allocateTiles(e,
                    {kernel.rows / kTileRows, std::max<int64_t>(depthTiles, 1),
                     kTileRows, kTileDepth},
                    bf16);
  scores = allocateTiles(
      e, {rowStep, kernel.keys / kTileRows, kTileRows, kTileRows}, kernel.type);
  probabilities = allocateTiles(
      e, {rowStep, kernel.keys / kTileDepth, kTileRows, kTileDepth}, bf16);
  if (isSpecial)
    seenValues = allocateTiles(
        e, {1, kernel.keys / kTileDepth, valueTiles, kTileRows, kTileDepth},
        bf16);
  configureTiles(e);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value AmxProduct::scoreTile(Emitter &e, int64_t rowTile, Value keyTile) {
  Value zero = e.index(0);
  return tileAddress(e, scores, {e.index(rowTile), keyTile, zero, zero});
}

void AmxProduct::loadQueryTiles(Task &task, Value row) {
  Emitter &e = task.e;
  Value zero = e.index(0), rowTile = e.div(row, kTileRows);
  for (int64_t r = 0; r < rowStep; ++r)
    for (int64_t d = 0; d < depthTiles; ++d)
      loadTile(
          e, 4 + r * depthTiles + d,
          tileAddress(e, query, {e.add(rowTile, r), e.index(d), zero, zero}));
}

/// Scores of the rows whose query tiles are in registers, and 16 keys.
void AmxProduct::multiplyKeyTile(Task &task, Value position, Value keyTile,
                                 Value placeTile) {
  Emitter &e = task.e;
  Value zero = e.index(0);
  for (int64_t r = 0; r < rowStep; ++r)
    zeroTile(e, r);
  for (int64_t d = 0; d < depthTiles; ++d) {
    int64_t keys = 2 + d % 2;
    loadTile(e, keys,
             tileAddress(e, packedKeys,
                         {position, keyTile, e.index(d), zero, zero}));
    for (int64_t r = 0; r < rowStep; ++r)
      multiplyTiles(e, r, 4 + r * depthTiles + d, keys);
  }
  for (int64_t r = 0; r < rowStep; ++r)
    storeTile(e, r, scoreTile(e, r, placeTile));
}

/// Scores of up to 32 rows and 32 keys.
void AmxProduct::multiplyKeyTiles(Task &task, Value position, Value row,
                                  Value keyTile, Value placeTile) {
  Emitter &e = task.e;
  Value zero = e.index(0), rowTile = e.div(row, kTileRows);
  TilePatch patch;
  patch.rows = rowStep;
  patch.left = [&](int64_t r, Value d) {
    return tileAddress(e, query, {e.add(rowTile, r), d, zero, zero});
  };
  patch.right = [&](int64_t k, Value d) {
    return tileAddress(e, packedKeys,
                       {position, e.add(keyTile, k), d, zero, zero});
  };
  patch.sums = [&](int64_t r, int64_t k) {
    return scoreTile(e, r, e.add(placeTile, k));
  };
  multiplyPatch(e, patch, e.index(depthTiles));
}

/// Scores of a group of rows and registerColumns() keys from `key` on, kept
/// from column `place` on.
void AmxProduct::multiplyScores(Task &task, Value position, Value row,
                                Value key, Value place) {
  Emitter &e = task.e;
  Value keyTile = e.div(key, kTileRows), placeTile = e.div(place, kTileRows);
  int64_t step = queryStays() ? 1 : 2;
  for (int64_t k = 0; k < kernel.registerColumns / kTileRows; k += step) {
    if (queryStays())
      multiplyKeyTile(task, position, e.add(keyTile, k), e.add(placeTile, k));
    else
      multiplyKeyTiles(task, position, row, e.add(keyTile, k),
                       e.add(placeTile, k));
  }
}

Value AmxProduct::loadScores(Task &task, Value row, Value column) {
  Emitter &e = task.e;
  Value rowTile = e.div(row, kTileRows), keyTile = e.div(column, kTileRows);
  Value inner = e.sub(row, e.mul(rowTile, kTileRows));
  return e.load(kernel.vector, scores, {rowTile, keyTile, inner, e.index(0)});
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Score region, masks and lane maxima of the rows, from and to scratch.
LogicalResult AmxProduct::finishRows(Task &task, const KeyBlock &block,
                                     Value row) {
  Emitter &e = task.e;
  Value none =
      e.constant(kernel.vector, -std::numeric_limits<double>::infinity());
  Value limit = block.probabilityLimit(e, kernel, row);
  return branchOnEdge(task, [&](bool testElements) -> LogicalResult {
    bool valid = true;
    e.loop(e.index(0), e.index(kernel.registerRows), 1, [&](Value r) {
      Value rowTile = e.div(r, kTileRows);
      Value inner = e.sub(r, e.mul(rowTile, kTileRows));
      SmallVector<Value> largest = e.loop(
          e.index(0), limit, kernel.width, none,
          [&](Value column, ValueRange carried) -> SmallVector<Value> {
            Value raw = loadScores(task, r, column);
            FailureOr<Value> score =
                finishScore(task, e.add(row, r), column, raw, testElements);
            valid &= succeeded(score);
            if (failed(score))
              return {carried[0]};
            if (*score != raw)
              e.store(*score, scores,
                      {rowTile, e.div(column, kTileRows), inner, e.index(0)});
            return {e.maxLanes(carried[0], *score)};
          });
      e.store(largest[0], task.scratch.laneMax, {r, e.index(0)});
    });
    return success(valid);
  });
}

Value AmxProduct::storeProbabilities(Task &task, Value row, Value column,
                                     Value piece) {
  Emitter &e = task.e;
  auto type = VectorType::get(kernel.width, e.b.getBF16Type());
  Value rounded = arith::TruncFOp::create(e.b, e.loc, type, piece);
  Value rowTile = e.div(row, kTileRows), keyTile = e.div(column, kTileDepth);
  e.store(rounded, probabilities,
          {rowTile, keyTile, e.sub(row, e.mul(rowTile, kTileRows)),
           e.sub(column, e.mul(keyTile, kTileDepth))});
  return arith::ExtFOp::create(e.b, e.loc, kernel.vector, rounded);
}

/// acc alpha, for the rows whose maximum moved.
void AmxProduct::rescale(Task &task, Value row) {
  if (!kernel.form.value)
    return;
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  e.loop(row, e.add(row, kernel.registerRows), 1, [&](Value row) {
    Value alpha = memref::LoadOp::create(e.b, e.loc, s.correction, row);
    Value moved = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::UNE,
                                        alpha, e.constant(kernel.type, 1.0));
    scf::IfOp::create(e.b, e.loc, moved, [&](OpBuilder &, Location) {
      Value factor = e.splat(kernel.vector, alpha);
      for (int64_t c = 0; c < kernel.valueColumns; c += kernel.width) {
        Value old = e.load(kernel.vector, s.output, {row, e.index(c)});
        e.store(arith::MulFOp::create(e.b, e.loc, old, factor), s.output,
                {row, e.index(c)});
      }
      scf::YieldOp::create(e.b, e.loc);
    });
  });
}

/// P by the maximum of the block.
LogicalResult AmxProduct::followMaximum(Task &task, const KeyBlock &block,
                                        Value position, Value row) {
  Emitter &e = task.e;
  if (kernel.form.scores && queryStays())
    loadQueryTiles(task, row);
  e.loop(e.index(0), block.probabilityLimit(e, kernel, row),
         kernel.registerColumns, [&](Value column) {
           multiplyScores(task, position, row, column, column);
         });
  if (failed(finishRows(task, block, row)) ||
      failed(updateSoftmax(task, *this, block, {row, kernel.registerRows})))
    return failure();
  rescale(task, row);
  return success();
}

/// P of one row of a patch, whose scores are at the head of their scratch.
LogicalResult AmxProduct::finishPatchRow(Task &task, Value firstRow, Value row,
                                         Value column, bool testElements) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  Value at = e.add(firstRow, row);
  Value rowTile = e.div(row, kTileRows);
  Value inner = e.sub(row, e.mul(rowTile, kTileRows));
  Value sum = e.load(kernel.vector, s.blockSum, {at, e.index(0)});
  for (int64_t c = 0; c < kernel.registerColumns; c += kTileDepth) {
    Value p[2];
    for (int64_t k = 0; k < 2; ++k) {
      int64_t offset = c + k * kTileRows;
      Value raw = loadScores(task, row, e.index(offset));
      FailureOr<Value> score =
          finishScore(task, at, e.add(column, offset), raw, testElements);
      if (failed(score))
        return failure();
      FailureOr<Value> probability =
          staleProbability(task, at, e.add(column, offset), *score);
      if (failed(probability))
        return failure();
      p[k] = *probability;
      sum = arith::AddFOp::create(e.b, e.loc, sum, p[k]);
    }
    e.store(roundPair(e, kernel.form.target, p[0], p[1]), probabilities,
            {rowTile, e.div(e.add(column, c), kTileDepth), inner, e.index(0)});
  }
  e.store(sum, s.blockSum, {at, e.index(0)});
  return success();
}

/// P by the reference that there is, and what the block adds to the sums.
LogicalResult AmxProduct::keepReference(Task &task, const KeyBlock &block,
                                        Value position, Value row) {
  Emitter &e = task.e;
  bool valid = true;
  Value zero = e.index(0);
  if (kernel.form.scores && queryStays())
    loadQueryTiles(task, row);
  e.loop(zero, block.probabilityLimit(e, kernel, row), kernel.registerColumns,
         [&](Value column) {
           multiplyScores(task, position, row, column, zero);
           auto finish = [&](bool testElements) {
             e.loop(zero, e.index(kernel.registerRows), 1, [&](Value r) {
               valid &= succeeded(
                   finishPatchRow(task, row, r, column, testElements));
             });
             return success(valid);
           };
           valid &= succeeded(branchOnEdge(task, finish));
         });
  return success(valid);
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// Output of up to 32 rows and `columns` (1 or 2) value tiles.
void AmxProduct::multiplyOutput(Task &task, const KeyBlock &block, Value values,
                                Value row, Value column, int64_t columns) {
  Emitter &e = task.e;
  Value zero = e.index(0);
  TilePatch patch;
  patch.rows = rowStep;
  patch.columns = columns;
  patch.left = [&](int64_t r, Value step) {
    return tileAddress(e, probabilities, {e.index(r), step, zero, zero});
  };
  patch.right = [&](int64_t c, Value step) {
    Value tile = e.add(e.add(e.mul(step, valueTiles), column), c);
    return e.add(values, e.mul(tile, kTileBytes));
  };
  patch.sums = [&](int64_t r, int64_t c) {
    return tileAddress(
        e, task.scratch.output,
        {e.add(row, r * kTileRows), e.mul(e.add(column, c), kTileRows)});
  };
  patch.sumStride = kernel.valueColumns * 4;
  patch.startsAtSums = true;
  multiplyPatch(e, patch, e.ceilDiv(block.limit(row), kTileDepth));
}

void AmxProduct::multiplyRows(Task &task, const KeyBlock &block, Value values,
                              Value row) {
  Emitter &e = task.e;
  int64_t paired = valueTiles / 2 * 2;
  e.loop(e.index(0), e.index(paired), 2, [&](Value column) {
    multiplyOutput(task, block, values, row, column, 2);
  });
  if (paired != valueTiles)
    multiplyOutput(task, block, values, row, e.index(paired), 1);
}

//===----------------------------------------------------------------------===//
// Key blocks
//===----------------------------------------------------------------------===//

LogicalResult AmxProduct::updateRows(Task &task, const KeyBlock &block,
                                     Value position, Value row) {
  if (!kernel.form.isStale())
    return followMaximum(task, block, position, row);
  return updateStale(
      task, block, {row, kernel.registerRows},
      [&] { return keepReference(task, block, position, row); },
      [&] { return followMaximum(task, block, position, row); });
}

LogicalResult AmxProduct::update(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  bool valid = true;
  Value position = e.add(e.mul(block.head, blocks),
                         e.div(block.start, kernel.form.blockKey));
  Value values = kernel.form.value ? valueTilesOf(task, position) : Value();
  e.loop(e.index(0), e.index(kernel.rows), kernel.registerRows, [&](Value row) {
    auto updateGroup = [&] {
      valid &= succeeded(updateRows(task, block, position, row));
      if (values)
        multiplyRows(task, block, values, row);
    };
    if (!kernel.form.rightBound)
      return updateGroup();
    Value isReached = arith::CmpIOp::create(
        e.b, e.loc, arith::CmpIPredicate::sgt, block.limit(row), e.index(0));
    scf::IfOp::create(e.b, e.loc, isReached, [&](OpBuilder &, Location) {
      updateGroup();
      scf::YieldOp::create(e.b, e.loc);
    });
  });
  return success(valid);
}
