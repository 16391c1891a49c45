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

SharedTile &GradientTask::tileOf(TransferReadOp read) {
  StringRef role = getRole(read);
  return role == role::kQuery            ? query
         : role == role::kOutputGradient ? outputGradient
         : role == role::kKey            ? key
                                         : value;
}

int64_t GradientTask::pitchOf(TransferReadOp read) const {
  StringRef role = getRole(read);
  return role == role::kQuery || role == role::kKey ? tiles.depthPitch
                                                    : tiles.widthPitch;
}

/// Q K^T or dO V^T.
Registers GradientTask::multiplyTiles(ContractionOp product) {
  auto left = unrounded(product.getLhs()).getDefiningOp<TransferReadOp>();
  auto right = unrounded(product.getRhs()).getDefiningOp<TransferReadOp>();
  int64_t pitch = pitchOf(left);
  return multiplyRows(
      thread, {tileOf(left), pitch, row, tiles.rows, tiles.rowThreads},
      {tileOf(right), pitch, column, tiles.keys, tiles.columnThreads},
      getRole(left) == role::kQuery ? tiles.depth : tiles.width);
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
const SharedTile &GradientTask::storeFactor(Value factor,
                                            const Registers &elements) {
  bool linesAreRows = form.isKeyTask();
  const SharedTile &tile =
      linesAreRows && factor != form.probabilities ? factors[1] : factors[0];
  auto vector = cast<VectorType>(tile.type());
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
        tile.store(e, vector::FromElementsOp::create(e.b, e.loc, vector, part),
                   e.add(e.add(e.mul(line, threads * vectors), first), v));
      }
  };
  if (isWriter)
    e.branch(isWriter, store);
  else
    store();
  return tile;
}

/// Keys that no row sees become zeros: 0 * NaN is NaN.
LogicalResult GradientTask::copySeenKeys(TransferReadOp read) {
  TileCopy copy(thread, key, blockKey, tiles.depthPitch, read, scalars);
  auto isSeen = [&](Value number) { return seen.isSeen(number); };
  if (failed(copy.copy(scalars.lookup(read.getIndices()[0]), isSeen)))
    return failure();
  thread.barrier();
  return success();
}

LogicalResult GradientTask::accumulate(ContractionOp product,
                                       const SharedTile &factor) {
  auto right = unrounded(product.getRhs()).getDefiningOp<TransferReadOp>();
  if (right.getMask() && failed(copySeenKeys(right)))
    return failure();
  AccumulatorFrame &frame = frameOf(product.getResult());
  int64_t size = cast<VectorType>(factor.type()).getNumElements();
  bool ofKeys = form.isKeyTask();
  int64_t vectors = (ofKeys ? tiles.keys : tiles.rows) / size;
  int64_t threads = ofKeys ? tiles.columnThreads : tiles.rowThreads;
  bool isPadded = frame.count * frame.distance != frame.width;
  accumulators[product.getResult()] =
      multiplyLines(thread,
                    {factor, threads * vectors,
                     e.mul(ofKeys ? column : row, vectors), vectors},
                    {tileOf(right), pitchOf(right), frame.first, frame.count,
                     frame.distance, isPadded ? frame.width : 0},
                    ofKeys ? blockQuery : blockKey, flatten(product.getAcc()));
  return success();
}

LogicalResult GradientTask::visitBlock(Block &block) {
  if (failed(copyTiles(block)))
    return failure();
  thread.barrier();
  if (failed(makePairs()))
    return failure();
  SmallVector<const SharedTile *> stored;
  for (ContractionOp product : form.sums) {
    Value factor = unrounded(product.getLhs());
    FailureOr<Registers> elements = pairs.scores(factor);
    if (failed(elements))
      return failure();
    stored.push_back(&storeFactor(factor, *elements));
  }
  if (failed(sumPairs(block)))
    return failure();
  thread.barrier();
  for (auto [product, factor] : llvm::zip_equal(form.sums, stored))
    if (failed(accumulate(product, *factor)))
      return failure();
  return success();
}
