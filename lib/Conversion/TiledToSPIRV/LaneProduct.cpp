//===- LaneProduct.cpp - Tile products by multiply-adds -------------------===//
//
// Scores: a step loads a quad along the depth of each of a thread's rows and
// keys. Accumulator: a step loads the probabilities of a thread's rows for one
// key, which its neighbours made and stored side by side, and its quads of that
// key's values. Either multiplies everything with everything in registers.
//
//===----------------------------------------------------------------------===//

#include "LaneKernel.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

static Registers unpack(GpuEmitter &e, Value vector) {
  Registers elements;
  for (int64_t i = 0, n = cast<VectorType>(vector.getType()).getNumElements();
       i < n; ++i)
    elements.push_back(vector::ExtractOp::create(e.b, e.loc, vector, i));
  return elements;
}

static void multiplyAdd(GpuEmitter &e, Value x, Value y, Value &sum) {
  sum = math::FmaOp::create(e.b, e.loc, x, y, sum);
}

/// Steps that are written one after the other: the greatest power of two up to
/// `most` that divides them all.
static int64_t unrolled(int64_t steps, int64_t most) {
  while (steps % most != 0)
    most /= 2;
  return most;
}

/// Places that are apart by constants, which end in the addresses of the loads.
static Registers shifted(GpuEmitter &e, Value from, int64_t count,
                         int64_t distance) {
  Registers places;
  for (int64_t i = 0; i < count; ++i)
    places.push_back(e.add(from, i * distance));
  return places;
}

Registers spv::multiplyQueryKey(Thread &thread) {
  GpuEmitter &e = thread.e;
  const LaneTiles &tiles = thread.kernel.tiles;
  Registers scores(tiles.scores(), e.zero(thread.kernel.type()));
  if (tiles.depth == 0)
    return scores;
  int64_t pitch = tiles.pitch;
  Value rowLine = e.mul(thread.row, pitch);
  Value keyLine = e.mul(thread.column, pitch);
  // A key behind the block repeats the last.
  Registers padded;
  if (thread.kernel.hasPaddedKeys())
    for (int64_t j = 0; j < tiles.keys; ++j)
      padded.push_back(
          e.mul(e.min(e.add(thread.column, j * tiles.columnThreads),
                      e.index(thread.kernel.form.blockKey - 1)),
                pitch));
  auto load = [&](const SharedTile &tile, const Registers &places) {
    SmallVector<Registers> quads;
    for (Value place : places)
      quads.push_back(unpack(e, tile.load(e, place)));
    return quads;
  };
  int64_t steps = unrolled(tiles.depth, 2);
  return e.loop(
      e.index(0), e.index(tiles.depth), e.index(steps), scores,
      [&](Value first, ValueRange carried) {
        Registers sums(carried);
        for (int64_t s = 0; s < steps; ++s) {
          Value step = e.add(first, s);
          SmallVector<Registers> queries =
              load(thread.query, shifted(e, e.add(rowLine, step), tiles.rows,
                                         tiles.rowThreads * pitch));
          Registers places = shifted(e, e.add(keyLine, step), tiles.keys,
                                     tiles.columnThreads * pitch);
          for (auto [place, line] : llvm::zip(places, padded))
            place = e.add(line, step);
          SmallVector<Registers> keys = load(thread.block, places);
          for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
            for (int64_t i = 0; i < tiles.rows; ++i)
              for (int64_t j = 0; j < tiles.keys; ++j)
                multiplyAdd(e, queries[i][d], keys[j][d],
                            sums[i * tiles.keys + j]);
        }
        return sums;
      });
}

Registers spv::multiplyProbabilitiesValue(Thread &thread, Registers acc) {
  GpuEmitter &e = thread.e;
  const LaneTiles &tiles = thread.kernel.tiles;
  int64_t vectors = tiles.rows / tiles.rowVector();
  Value firstRows = e.mul(thread.row, vectors);
  // A quad behind the last repeats it, for nobody to write.
  Registers padded;
  if (tiles.quads * tiles.columnThreads != tiles.width)
    for (int64_t q = 0; q < tiles.quads; ++q)
      padded.push_back(e.min(e.add(thread.column, q * tiles.columnThreads),
                             e.index(tiles.width - 1)));
  int64_t steps = unrolled(thread.kernel.form.blockKey, 4);
  return e.loop(
      e.index(0), e.index(thread.kernel.form.blockKey), e.index(steps), acc,
      [&](Value first, ValueRange carried) {
        Registers sums(carried);
        Value rowLine =
            e.add(e.mul(first, tiles.rowThreads * vectors), firstRows);
        Value valueLine = e.mul(first, tiles.width);
        for (int64_t s = 0; s < steps; ++s) {
          Registers rows;
          Value line = e.add(rowLine, s * tiles.rowThreads * vectors);
          for (Value place : shifted(e, line, vectors, 1))
            llvm::append_range(rows,
                               unpack(e, thread.probabilities.load(e, place)));
          line = e.add(valueLine, s * tiles.width);
          Registers places = shifted(e, e.add(line, thread.column), tiles.quads,
                                     tiles.columnThreads);
          for (auto [place, quad] : llvm::zip(places, padded))
            place = e.add(line, quad);
          for (int64_t q = 0; q < tiles.quads; ++q) {
            Registers columns = unpack(e, thread.block.load(e, places[q]));
            for (int64_t i = 0; i < tiles.rows; ++i)
              for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
                multiplyAdd(e, rows[i], columns[d],
                            sums[(i * tiles.quads + q) * LaneTiles::kQuad + d]);
          }
        }
        return sums;
      });
}
