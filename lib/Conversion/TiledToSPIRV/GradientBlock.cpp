//===- GradientBlock.cpp - A block of rows and keys -----------------------===//
//
// The arithmetic between the products is the tiled form's, cloned by the slicer
// for the pairs that a thread has. P and dX are not rounded: factors are of the
// accumulators' type.
//
//===----------------------------------------------------------------------===//

#include "GradientTask.h"
#include "MaskedScores.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;
using vector::ContractionOp;
using vector::TransferReadOp;

/// Of a product, what one of its factors is read by.
static TransferReadOp readOf(Value factor) {
  return unrounded(factor).getDefiningOp<TransferReadOp>();
}

/// Q K^T or dO V^T.
Registers GradientTask::multiplyTiles(ContractionOp product) {
  TransferReadOp left = readOf(product.getLhs()),
                 right = readOf(product.getRhs());
  int64_t chunk = tiles.chunk, pitch = tiles.chunkPitch();
  TileCopy rows(thread, leftStep, blockQuery, pitch, left, scalars, chunk);
  TileCopy keys(thread, rightStep, blockKey, pitch, right, scalars, chunk);
  Value firstRow = scalars.lookup(left.getIndices()[0]),
        firstKey = scalars.lookup(right.getIndices()[0]);
  auto load = [&](Value number) {
    Value quad = e.mul(number, chunk);
    Registers quads = rows.load(firstRow, quad);
    llvm::append_range(quads, keys.load(firstKey, quad));
    return quads;
  };
  size_t count = tiles.rows * tiles.keys, ofRows = rows.sizeOfThread();
  Registers inits(count, e.zero(thread.type));
  llvm::append_range(inits, load(e.index(0)));
  int64_t depth =
      llvm::divideCeil(left.getVectorType().getDimSize(1), LaneTiles::kQuad);
  Value end = e.index(llvm::divideCeil(depth, chunk));
  Registers last =
      e.loop(e.index(0), end, e.index(1), inits,
             [&](Value number, ValueRange carried) {
               Registers sums(carried.take_front(count)),
                   quads(carried.drop_front(count));
               thread.barrier();
               rows.store(Registers(ArrayRef(quads).take_front(ofRows)));
               keys.store(Registers(ArrayRef(quads).drop_front(ofRows)));
               thread.barrier();
               Value next = e.add(number, 1);
               quads = e.branch(e.less(next, end), quads,
                                [&]() { return load(next); });
               Registers result = multiplyRows(
                   thread, {leftStep, pitch, row, tiles.rows, tiles.rowThreads},
                   {rightStep, pitch, column, tiles.keys, tiles.columnThreads},
                   chunk, std::move(sums));
               llvm::append_range(result, quads);
               return result;
             });
  last.truncate(count);
  return last;
}

/// P from the scores, and what dX is made of.
LogicalResult GradientTask::makePairs() {
  if (form.scores)
    pairs.bindTile(form.scores->getResult(0), multiplyTiles(form.scores));
  if (form.probabilityGradient)
    pairs.bindTile(form.probabilityGradient->getResult(0),
                   multiplyTiles(form.probabilityGradient));
  auto whenTested = [&]() { return form.seenKeys ? seen.note() : success(); };
  if (form.masked) {
    Value scores = form.masked->getResult(0);
    FailureOr<Registers> masked =
        maskScores(e, pairs, scalars, scores, form.masked, whenTested);
    if (failed(masked))
      return failure();
    pairs.bindTile(scores, *masked);
  } else if (failed(whenTested())) {
    return failure();
  }
  FailureOr<Registers> probabilities = pairs.scores(form.probabilities);
  if (failed(probabilities))
    return failure();
  pairs.bindTile(form.probabilities, *probabilities);
  return success();
}

/// P or dX to shared memory: a line a row with the keys of a thread side by
/// side, or a line a key with its rows.
void GradientTask::storeFactor(const Registers &elements) {
  bool linesAreRows = form.isKeyTask();
  auto vector = cast<VectorType>(factor.type());
  int64_t size = vector.getNumElements();
  ArrayRef<Value> lines =
      linesAreRows ? pairs.rowNumbers() : pairs.keyNumbers();
  int64_t numbers = linesAreRows ? tiles.keys : tiles.rows;
  int64_t vectors = numbers / size;
  int64_t threads = linesAreRows ? tiles.columnThreads : tiles.rowThreads;
  Value first = e.mul(linesAreRows ? column : row, vectors);
  auto element = [&](int64_t line, int64_t number) {
    return linesAreRows ? elements[line * tiles.keys + number]
                        : elements[number * tiles.keys + line];
  };
  auto store = [&]() {
    for (auto [l, line] : llvm::enumerate(lines))
      for (int64_t v = 0; v < vectors; ++v) {
        Registers part;
        for (int64_t n = v * size; n < (v + 1) * size; ++n)
          part.push_back(element(l, n));
        factor.store(e,
                     vector::FromElementsOp::create(e.b, e.loc, vector, part),
                     e.add(e.add(e.mul(line, threads * vectors), first), v));
      }
  };
  if (isWriter)
    e.branch(isWriter, store);
  else
    store();
}

/// dV, dK or dQ, with P or dX from shared memory. Of keys that no row sees
/// there are zeros: 0 * NaN is NaN.
LogicalResult GradientTask::accumulate(ContractionOp product) {
  TransferReadOp right = readOf(product.getRhs());
  AccumulatorFrame &frame = frameOf(product.getResult());
  int64_t size = cast<VectorType>(factor.type()).getNumElements();
  bool ofKeys = form.isKeyTask();
  int64_t vectors = (ofKeys ? tiles.keys : tiles.rows) / size;
  int64_t pitch = (ofKeys ? tiles.columnThreads : tiles.rowThreads) * vectors;
  bool isPadded = frame.count * frame.distance != frame.width;
  TileCopy copy(thread, rightStep, tiles.part, frame.width, right, scalars);
  Value firstRow = scalars.lookup(right.getIndices()[0]);
  bool valid = true;
  auto load = [&](Value first) {
    auto isSeen = [&](Value number) {
      return seen.isSeen(e.add(first, number));
    };
    FailureOr<Registers> quads =
        right.getMask()
            ? copy.load(e.add(firstRow, first), Value(), isSeen)
            : FailureOr<Registers>(copy.load(e.add(firstRow, first)));
    valid &= succeeded(quads);
    return valid ? *quads
                 : Registers(copy.sizeOfThread(), e.zero(thread.quadType()));
  };
  Registers inits = flatten(product.getAcc());
  llvm::append_range(inits, load(e.index(0)));
  size_t count = frame.size;
  Value end = e.index(ofKeys ? blockQuery : blockKey);
  Value own = e.mul(ofKeys ? column : row, vectors);
  Registers last = e.loop(
      e.index(0), end, e.index(tiles.part), inits,
      [&](Value first, ValueRange carried) {
        Registers sums(carried.take_front(count)),
            quads(carried.drop_front(count));
        thread.barrier();
        copy.store(quads);
        thread.barrier();
        Value next = e.add(first, tiles.part);
        quads =
            e.branch(e.less(next, end), quads, [&]() { return load(next); });
        Registers result = multiplyLines(
            thread, {factor, pitch, e.add(e.mul(first, pitch), own), vectors},
            {rightStep, frame.width, frame.first, frame.count, frame.distance,
             isPadded ? frame.width : 0},
            tiles.part, std::move(sums));
        llvm::append_range(result, quads);
        return result;
      });
  last.truncate(count);
  accumulators[product.getResult()] = last;
  return success(valid);
}

LogicalResult GradientTask::visitBlock(Block &block) {
  if (failed(makePairs()) || failed(sumPairs(block)))
    return failure();
  for (ContractionOp product : form.sums) {
    FailureOr<Registers> elements = pairs.scores(unrounded(product.getLhs()));
    if (failed(elements))
      return failure();
    // Nobody reads the factor before, and what was noted of keys is there.
    thread.barrier();
    storeFactor(*elements);
    if (failed(accumulate(product)))
      return failure();
  }
  return success();
}
