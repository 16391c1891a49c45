//===- VectorProduct.cpp - Tile products by vector instructions -----------===//
//
// Both products are loops around a register tile of accumulators:
//
//   scores   for panel of keys, for group of rows:
//              c = 0;  for d: c[r][v] += q[r][d] * K[panel][d][v]
//   output   for group of value columns, for group of rows:
//              c = acc alpha;  for j: c[r][v] += p[r][j] * V[j][v]
//
// A step of d or j is one element, or a pair where the instruction multiplies
// pairs. The reduction is a loop (RegisterTile.h), never wholly unrolled: then
// the operands of every step are alive at once and spill.
//
// With a stale softmax the register tile of scores becomes P before it is
// stored; else the scores are stored, with the largest of every lane.
//
// For a few rows packing costs more than it brings. Then a score is a product
// of two rows as they lie, lane by lane along d, and a sum across the lanes.
//
//===----------------------------------------------------------------------===//

#include "VectorProduct.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

/// Where the packed operands of a key block lie.
static Value packedPosition(Task &task, Value blocks, const KeyBlock &block) {
  Emitter &e = task.e;
  return e.add(e.mul(block.head, blocks),
               e.div(block.start, task.kernel.form.blockKey));
}

/// The raw scores of a row of register tiles, from a packed panel.
SmallVector<Value> VectorProduct::multiplyPanel(Task &task,
                                                const KeyBlock &block,
                                                Value panel, Value row) {
  Emitter &e = task.e;
  int64_t vectors = kernel.registerColumns / kernel.width;
  SmallVector<Value> zeros(kernel.registerRows * vectors,
                           e.constant(kernel.vector, 0.0));
  if (!kernel.form.scores)
    return zeros;
  Value position = packedPosition(task, blocks, block);
  RegisterTile tile(kernel.registerRows, vectors);
  tile.left = [&](int64_t r, const Step &step) -> Value {
    return memref::LoadOp::create(e.b, e.loc, query.memory,
                                  query.at(e, row, r, step));
  };
  tile.right = [&](const Step &step) {
    SmallVector<Value> keys;
    for (int64_t v = 0; v < vectors; ++v)
      keys.push_back(e.load(lanes->registerType(), packedKeys,
                            {position, panel, step.index,
                             e.index(v * kernel.width * lanes->depth)}));
    return keys;
  };
  tile.multiplyAdd = [&](Value word, Value factors, Value sum) {
    return lanes->multiplyAdd(e, word, factors, sum);
  };
  return tile.addAll(e, kernel.width, e.index(0), e.index(querySteps()), zeros);
}

/// The same from keys as they lie.
SmallVector<Value> VectorProduct::multiplyInPlace(Task &task,
                                                  const KeyBlock &block,
                                                  Value panel, Value row) {
  Emitter &e = task.e;
  int64_t vectors = kernel.registerColumns / kernel.width;
  Value first = e.mul(panel, kernel.registerColumns);
  Value end = e.add(first, kernel.registerColumns);
  e.loop(first, end, keysInPlace(), [&](Value column) {
    multiplyKeys(task, e.add(block.start, column), row, column);
  });
  SmallVector<Value> raw;
  for (int64_t r = 0; r < kernel.registerRows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      raw.push_back(
          e.load(kernel.vector, scores.memory,
                 scores.at(e, e.add(row, r), e.add(first, v * kernel.width))));
  return raw;
}

/// Products of keysInPlace() keys with the rows of a register tile, to scratch.
void VectorProduct::multiplyKeys(Task &task, Value firstKey, Value row,
                                 Value column) {
  Emitter &e = task.e;
  Value view = task.slicer.scalar(kernel.form.key.getBase());
  auto step = [&](Value d, ValueRange carried, int64_t count) {
    SmallVector<Value> queries, next;
    for (int64_t r = 0; r < kernel.registerRows; ++r)
      queries.push_back(
          e.load(kernel.vector, query.memory, query.at(e, e.add(row, r), d)));
    for (int64_t k = 0; k < keysInPlace(); ++k) {
      Value key = lanes->packValues(e, view, e.add(firstKey, k), d, count);
      for (Value q : queries)
        next.push_back(
            vector::FMAOp::create(e.b, e.loc, q, key, carried[next.size()]));
    }
    return next;
  };
  int64_t left = kernel.form.headDim % kernel.width;
  Value whole = e.index(kernel.form.headDim - left);
  SmallVector<Value> sums(keysInPlace() * kernel.registerRows,
                          e.constant(kernel.vector, 0.0));
  sums = e.loop(e.index(0), whole, kernel.width, sums,
                [&](Value d, ValueRange carried) {
                  return step(d, carried, kernel.width);
                });
  if (left > 0)
    sums = step(whole, sums, left);
  for (auto [index, sum] : llvm::enumerate(sums)) {
    Value score =
        vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::ADD, sum,
                                    arith::FastMathFlags::reassoc);
    int64_t k = index / kernel.registerRows, r = index % kernel.registerRows;
    memref::StoreOp::create(e.b, e.loc, score, scores.memory,
                            scores.at(e, e.add(row, r), e.add(column, k)));
  }
}

/// In place of the scores of the row, as words.
Value VectorProduct::storeProbabilities(Task &task, Value row, Value column,
                                        Value piece) {
  Emitter &e = task.e;
  Value words = lanes->packProbabilities(e, piece);
  e.store(words, scores.memory, scores.at(e, row, e.div(column, lanes->depth)));
  return piece;
}

/// Stores the finished pieces of one row of a register tile and keeps the lane
/// maxima.
LogicalResult VectorProduct::keepScores(Task &task, Value row, Value column,
                                        ArrayRef<Value> raw) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  int64_t vectors = raw.size() / kernel.registerRows;
  return branchOnEdge(task, [&](bool testElements) -> LogicalResult {
    for (int64_t r = 0; r < kernel.registerRows; ++r) {
      Value at = e.add(row, r);
      Value largest = e.load(kernel.vector, s.laneMax, {at, e.index(0)});
      for (int64_t v = 0; v < vectors; ++v) {
        Value c = e.add(column, v * kernel.width);
        FailureOr<Value> score =
            finishScore(task, at, c, raw[r * vectors + v], testElements);
        if (failed(score))
          return failure();
        e.store(*score, scores.memory, scores.at(e, at, c));
        largest = e.maxLanes(largest, *score);
      }
      e.store(largest, s.laneMax, {at, e.index(0)});
    }
    return success();
  });
}

/// Makes P of the scores where they are, by the reference that there is.
LogicalResult VectorProduct::keepProbabilities(Task &task, Value row,
                                               Value column,
                                               ArrayRef<Value> raw) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  int64_t vectors = raw.size() / kernel.registerRows;
  return branchOnEdge(task, [&](bool testElements) -> LogicalResult {
    for (int64_t r = 0; r < kernel.registerRows; ++r) {
      Value at = e.add(row, r);
      Value sum = e.load(kernel.vector, s.blockSum, {at, e.index(0)});
      for (int64_t v = 0; v < vectors; ++v) {
        Value c = e.add(column, v * kernel.width);
        FailureOr<Value> score =
            finishScore(task, at, c, raw[r * vectors + v], testElements);
        if (failed(score))
          return failure();
        FailureOr<Value> p = staleProbability(task, at, c, *score);
        if (failed(p))
          return failure();
        storeProbabilities(task, at, c, *p);
        sum = arith::AddFOp::create(e.b, e.loc, sum, *p);
      }
      e.store(sum, s.blockSum, {at, e.index(0)});
    }
    return success();
  });
}

/// Panels outside, rows inside: a panel stays in L1 while all rows pass by.
LogicalResult VectorProduct::multiplyScores(Task &task, const KeyBlock &block,
                                            Keep keep) {
  Emitter &e = task.e;
  bool inPlace = kernel.form.scores && !packsKeys();
  bool valid = true;
  Value panels =
      e.ceilDiv(block.limit(e.index(kernel.rows - 1)), kernel.registerColumns);
  e.loop(e.index(0), panels, 1, [&](Value panel) {
    Value column = e.mul(panel, kernel.registerColumns);
    auto multiply = [&](Value row) {
      SmallVector<Value> sums = inPlace
                                    ? multiplyInPlace(task, block, panel, row)
                                    : multiplyPanel(task, block, panel, row);
      valid &= succeeded((this->*keep)(task, row, column, sums));
    };
    e.loop(
        e.index(0), e.index(kernel.rows), kernel.registerRows, [&](Value row) {
          if (!kernel.form.rightBound)
            return multiply(row);
          Value isReached = arith::CmpIOp::create(
              e.b, e.loc, arith::CmpIPredicate::slt, column, block.limit(row));
          scf::IfOp::create(e.b, e.loc, isReached, [&](OpBuilder &, Location) {
            multiply(row);
            scf::YieldOp::create(e.b, e.loc);
          });
        });
  });
  return success(valid);
}

/// The sums with the step of a key when some row sees it: the value of a key
/// that none sees may be NaN, and 0 NaN is NaN.
static SmallVector<Value> addWhereSeen(Task &task, const RegisterTile &tile,
                                       const Step &key, ValueRange sums) {
  Emitter &e = task.e;
  Value seen = memref::LoadOp::create(e.b, e.loc, task.scratch.seen, key.index);
  Value zero = arith::ConstantOp::create(e.b, e.loc, e.b.getI8IntegerAttr(0));
  Value isSeen =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, seen, zero);
  auto branch = scf::IfOp::create(
      e.b, e.loc, isSeen,
      [&](OpBuilder &, Location) {
        scf::YieldOp::create(e.b, e.loc, tile.add(key, sums));
      },
      [&](OpBuilder &, Location) { scf::YieldOp::create(e.b, e.loc, sums); });
  return SmallVector<Value>(branch.getResults());
}

/// The factors of one step, zero for keys of a pair that no row sees.
SmallVector<Value> VectorProduct::loadValues(Task &task, const KeyBlock &block,
                                             Value step, Value column,
                                             int64_t vectors) {
  Emitter &e = task.e;
  Value position = packedValues ? packedPosition(task, blocks, block) : Value();
  SmallVector<Value> values;
  for (int64_t v = 0; v < vectors; ++v) {
    Value c = e.add(column, v * kernel.width);
    if (!packedValues) {
      Value base = task.slicer.scalar(kernel.form.value.getBase());
      auto type = VectorType::get(kernel.width, kernel.form.elementType);
      Value loaded = e.load(type, base, {e.add(block.start, step), c});
      if (type != kernel.vector)
        loaded = arith::ExtFOp::create(e.b, e.loc, kernel.vector, loaded);
      values.push_back(loaded);
      continue;
    }
    Value factors = e.load(lanes->registerType(), packedValues,
                           {position, step, e.mul(c, lanes->depth)});
    if (kernel.form.seenKeys && lanes->depth == 2)
      factors = hideUnseenPairs(e, factors, task.scratch.seen, e.mul(step, 2));
    values.push_back(factors);
  }
  return values;
}

/// acc alpha + P V for one column group and the keys [first, first + chunk).
void VectorProduct::multiplyOutput(Task &task, const KeyBlock &block,
                                   Value first, Value column, int64_t vectors) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  int64_t step = kernel.outputRows(vectors);
  Value one = e.constant(kernel.type, 1.0);
  Value isFirst = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                        first, e.index(0));
  e.loop(e.index(0), e.index(kernel.rows), step, [&](Value row) {
    auto place = [&](int64_t r, int64_t v) {
      return SmallVector<Value>{e.add(row, r), e.add(column, v * kernel.width)};
    };
    SmallVector<Value> sums;
    for (int64_t r = 0; r < step; ++r) {
      Value alpha = memref::LoadOp::create(e.b, e.loc, s.correction,
                                           ValueRange{e.add(row, r)});
      alpha = arith::SelectOp::create(e.b, e.loc, isFirst, alpha, one);
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(arith::MulFOp::create(
            e.b, e.loc, e.load(kernel.vector, s.output, place(r, v)),
            e.splat(kernel.vector, alpha)));
    }
    RegisterTile tile(step, vectors);
    tile.left = [&](int64_t r, const Step &key) -> Value {
      return memref::LoadOp::create(e.b, e.loc, scores.memory,
                                    scores.at(e, row, r, key));
    };
    tile.right = [&](const Step &key) {
      return loadValues(task, block, key.index, column, vectors);
    };
    tile.multiplyAdd = [&](Value word, Value factors, Value sum) {
      return lanes->multiplyAdd(e, word, factors, sum);
    };
    Value last = e.min(e.add(first, kernel.valueChunk()), block.limit(row));
    Value begin = e.div(first, lanes->depth),
          end = e.ceilDiv(last, lanes->depth);
    if (kernel.form.seenKeys && lanes->depth == 1)
      sums = e.loop(begin, end, 1, sums, [&](Value key, ValueRange carried) {
        return addWhereSeen(task, tile, Step::of(e, key, kernel.width),
                            carried);
      });
    else
      sums = tile.addAll(e, kernel.width, begin, end, sums);
    for (int64_t r = 0; r < step; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        e.store(sums[r * vectors + v], s.output, place(r, v));
  });
}

/// Chunks of values outside, rows inside: a chunk stays in L1 meanwhile.
void VectorProduct::multiplyValues(Task &task, const KeyBlock &block) {
  if (!kernel.form.value)
    return;
  Emitter &e = task.e;
  e.loop(e.index(0), block.limit(e.index(kernel.rows - 1)), kernel.valueChunk(),
         [&](Value first) {
           forEachColumnGroup(
               e, kernel.valueColumns / kernel.width, kernel.width,
               kernel.registerColumns / kernel.width,
               [&](Value column, int64_t vectors) {
                 multiplyOutput(task, block, first, column, vectors);
               });
         });
}

LogicalResult VectorProduct::followMaximum(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  Value none =
      e.constant(kernel.vector, -std::numeric_limits<double>::infinity());
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    e.store(none, task.scratch.laneMax, {row, e.index(0)});
  });
  return success(
      succeeded(multiplyScores(task, block, &VectorProduct::keepScores)) &&
      succeeded(updateSoftmax(task, *this, block, {e.index(0), kernel.rows})));
}

LogicalResult VectorProduct::keepReference(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  Value one = e.constant(kernel.vector, 1.0);
  e.loop(e.index(0), e.index(kernel.rows), kernel.width,
         [&](Value row) { e.store(one, task.scratch.correction, row); });
  return multiplyScores(task, block, &VectorProduct::keepProbabilities);
}

LogicalResult VectorProduct::update(Task &task, const KeyBlock &block) {
  auto follow = [&] { return followMaximum(task, block); };
  auto keep = [&] { return keepReference(task, block); };
  LogicalResult updated =
      kernel.form.isStale()
          ? updateStale(task, block, {task.e.index(0), kernel.rows}, keep,
                        follow)
          : follow();
  if (succeeded(updated))
    multiplyValues(task, block);
  return updated;
}
