//===- LaneProduct.cpp - Tile products by multiply-adds -------------------===//
//
// Rows times rows, as scores are made: a step loads a quad along the depth of
// each of a thread's rows, then of its keys one after the other. Lines times
// rows, as accumulators are: a step loads the probabilities of a thread's rows
// for one key, which its neighbours made and stored side by side, and its quads
// of that key's values. Either multiplies everything with everything in
// registers.
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

/// Numbers `first`, `first` + `distance`, ...; one behind the last repeats it.
static Registers limited(GpuEmitter &e, Value first, int64_t count,
                         int64_t distance, int64_t end) {
  Registers numbers = shifted(e, first, count, distance);
  for (Value &number : numbers)
    number = e.min(number, e.index(end - 1));
  return numbers;
}

/// Where the quad `step` of each row lies.
static Registers placesOf(GpuEmitter &e, const FactorRows &rows, Value line,
                          ArrayRef<Value> padded, Value step) {
  Registers places =
      shifted(e, e.add(line, step), rows.count, rows.distance * rows.pitch);
  for (auto [place, start] : llvm::zip(places, padded))
    place = e.add(start, step);
  return places;
}

Registers spv::multiplyRows(LaneThread &thread, const FactorRows &left,
                            const FactorRows &right, int64_t depth,
                            Registers sums) {
  GpuEmitter &e = thread.e;
  if (depth == 0)
    return sums;
  Value leftLine = e.mul(left.first, left.pitch);
  Value rightLine = e.mul(right.first, right.pitch);
  auto paddedLines = [&](const FactorRows &rows) {
    Registers lines;
    if (rows.end != 0)
      for (Value row :
           limited(e, rows.first, rows.count, rows.distance, rows.end))
        lines.push_back(e.mul(row, rows.pitch));
    return lines;
  };
  Registers leftPadded = paddedLines(left), rightPadded = paddedLines(right);
  int64_t steps = unrolled(depth, 2);
  return e.loop(
      e.index(0), e.index(depth), e.index(steps), sums,
      [&](Value first, ValueRange carried) {
        Registers sums(carried);
        for (int64_t s = 0; s < steps; ++s) {
          Value step = e.add(first, s);
          SmallVector<Registers> x;
          for (Value place : placesOf(e, left, leftLine, leftPadded, step))
            x.push_back(unpack(e, left.tile.load(e, place)));
          Registers places = placesOf(e, right, rightLine, rightPadded, step);
          for (auto [j, place] : llvm::enumerate(places)) {
            Registers y = unpack(e, right.tile.load(e, place));
            for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
              for (int64_t i = 0; i < left.count; ++i)
                multiplyAdd(e, x[i][d], y[d], sums[i * right.count + j]);
          }
        }
        return sums;
      });
}

Registers spv::multiplyLines(LaneThread &thread, const FactorNumbers &left,
                             const FactorQuads &right, int64_t steps,
                             Registers sums) {
  GpuEmitter &e = thread.e;
  Registers padded;
  if (right.end != 0)
    padded = limited(e, right.first, right.count, right.distance, right.end);
  int64_t together = unrolled(steps, 4);
  return e.loop(
      e.index(0), e.index(steps), e.index(together), sums,
      [&](Value first, ValueRange carried) {
        Registers sums(carried);
        Value leftLine = e.add(e.mul(first, left.pitch), left.first);
        Value rightLine = e.mul(first, right.pitch);
        for (int64_t s = 0; s < together; ++s) {
          Registers numbers;
          Value line = e.add(leftLine, s * left.pitch);
          for (Value place : shifted(e, line, left.vectors, 1))
            llvm::append_range(numbers, unpack(e, left.tile.load(e, place)));
          line = e.add(rightLine, s * right.pitch);
          Registers places =
              shifted(e, e.add(line, right.first), right.count, right.distance);
          for (auto [place, quad] : llvm::zip(places, padded))
            place = e.add(line, quad);
          for (int64_t q = 0; q < right.count; ++q) {
            Registers columns = unpack(e, right.tile.load(e, places[q]));
            for (auto [i, number] : llvm::enumerate(numbers))
              for (int64_t d = 0; d < LaneTiles::kQuad; ++d)
                multiplyAdd(e, number, columns[d],
                            sums[(i * right.count + q) * LaneTiles::kQuad + d]);
          }
        }
        return sums;
      });
}

Registers spv::multiplyQueryKey(Thread &thread, Registers scores) {
  const LaneTiles &tiles = thread.kernel.tiles;
  int64_t end = thread.kernel.hasPaddedKeys() ? thread.kernel.form.blockKey : 0;
  return multiplyRows(
      thread,
      {thread.query, tiles.pitch, thread.row, tiles.rows, tiles.rowThreads},
      {thread.block, tiles.pitch, thread.column, tiles.keys,
       tiles.columnThreads, end},
      tiles.chunk, std::move(scores));
}

Registers spv::multiplyProbabilitiesValue(Thread &thread, Registers acc) {
  GpuEmitter &e = thread.e;
  const LaneTiles &tiles = thread.kernel.tiles;
  int64_t vectors = tiles.rowVectors();
  // What lies behind the last quad is for nobody to write.
  bool isPadded = tiles.quads * tiles.columnThreads != tiles.width;
  return multiplyLines(thread,
                       {thread.probabilities, tiles.keyPitch,
                        e.mul(thread.row, vectors), vectors},
                       {thread.block, tiles.width, thread.column, tiles.quads,
                        tiles.columnThreads, isPadded ? tiles.width : 0},
                       tiles.part, std::move(acc));
}

/// A thread's rows for one key lie side by side.
void spv::storeProbabilities(Thread &thread, const Registers &probabilities,
                             int64_t first, int64_t end) {
  GpuEmitter &e = thread.e;
  const LaneTiles &tiles = thread.kernel.tiles;
  auto type = cast<VectorType>(thread.probabilities.type());
  int64_t size = tiles.rowVector();
  Value firstRows = e.mul(thread.row, tiles.rowVectors());
  for (int64_t j = first; j < end; ++j) {
    Value key = e.add(thread.column, (j - first) * tiles.columnThreads);
    Value line = e.add(e.mul(key, tiles.keyPitch), firstRows);
    auto store = [&]() {
      for (int64_t v = 0; v < tiles.rowVectors(); ++v) {
        Registers elements;
        for (int64_t i = v * size; i < (v + 1) * size; ++i)
          elements.push_back(probabilities[i * tiles.keys + j]);
        Value vector =
            vector::FromElementsOp::create(e.b, e.loc, type, elements);
        thread.probabilities.store(e, vector, e.add(line, v));
      }
    };
    if (thread.kernel.hasPaddedKeys())
      e.branch(e.less(key, e.index(tiles.part)), store);
    else
      store();
  }
}
