//===- StreamedSweep.cpp - The sweep of a workgroup, tiles in parts -------===//
//
// Registers hold a large tile of scores and one of the accumulator; shared
// memory holds a few columns of the factors at a time, so that several
// workgroups find room in it. What comes next is fetched while a product runs:
//
//   load the first chunk of Q and K
//   for each key/value block
//     for each chunk of the depth
//       barrier; store Q, K of the chunk
//       barrier; load Q, K of the next; S += Q K
//     load V of the first part
//     score region, masks; greatest of the rows; softmax
//     for each part of the keys
//       barrier; store P, V of the part
//       barrier; load V of the next, or Q, K of the next block; acc += P V
//
// The products are those of a matrix product in blocks (Volkov and Demmel,
// "Benchmarking GPUs to tune dense linear algebra", 2008). That the queries are
// fetched again for each block costs a third of the copies, and these a few
// hundredths of the products.
//
// Precondition: no mask can hide a key from all rows, so every block is visited
// and every value is multiplied.
//
//===----------------------------------------------------------------------===//

#include "LaneScalars.h"
#include "LaneSoftmax.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

namespace {
class StreamedSweep {
public:
  StreamedSweep(Thread &thread, IRMapping &scalars, LaneLayout &layout)
      : thread(thread), tiles(thread.kernel.tiles), form(thread.kernel.form),
        e(thread.e), scalars(scalars), softmax(thread, layout, scalars),
        query(thread, thread.query, form.blockQuery, tiles.pitch, form.query,
              scalars, tiles.chunk),
        key(thread, thread.block, form.blockKey, tiles.pitch, form.key, scalars,
            tiles.chunk),
        value(thread, thread.block, tiles.part, tiles.width, form.value,
              scalars) {}

  LogicalResult run();

private:
  /// Of the block at `position` a chunk of queries and keys, if there is one.
  Registers loadChunk(Value position, Value chunk, Value isThere);
  void storeChunk(const Registers &quads);
  /// The raw scores of the block; `quads` are its first chunk.
  Registers multiplyChunks(Value position, Registers quads);
  FailureOr<SoftmaxState> visit(Value position, SoftmaxState state,
                                Registers &quads);

  Thread &thread;
  const LaneTiles &tiles;
  TiledForm &form;
  GpuEmitter &e;
  IRMapping &scalars;
  LaneSoftmax softmax;
  TileCopy query, key, value;
};
} // namespace

Registers StreamedSweep::loadChunk(Value position, Value chunk, Value isThere) {
  Registers zeros(query.sizeOfThread() + key.sizeOfThread(),
                  e.zero(thread.quadType()));
  return e.branch(isThere, zeros, [&]() {
    Value firstRow = scalars.lookup(form.query.getIndices()[0]);
    Value firstQuad = e.mul(chunk, tiles.chunk);
    Registers quads = query.load(firstRow, firstQuad);
    llvm::append_range(quads, key.load(position, firstQuad));
    return quads;
  });
}

void StreamedSweep::storeChunk(const Registers &quads) {
  ArrayRef<Value> all = quads;
  query.store(Registers(all.take_front(query.sizeOfThread())));
  key.store(Registers(all.drop_front(query.sizeOfThread())));
}

Registers StreamedSweep::multiplyChunks(Value position, Registers quads) {
  Value count = e.index(llvm::divideCeil(tiles.depth, tiles.chunk));
  Registers carried(tiles.scores(), e.zero(thread.kernel.type()));
  llvm::append_range(carried, quads);
  Registers last =
      e.loop(e.index(0), count, e.index(1), carried,
             [&](Value chunk, ValueRange values) {
               thread.barrier();
               storeChunk(Registers(values.drop_front(tiles.scores())));
               thread.barrier();
               Value next = e.add(chunk, 1);
               Registers ahead = loadChunk(position, next, e.less(next, count));
               Registers result = multiplyQueryKey(
                   thread, Registers(values.take_front(tiles.scores())));
               llvm::append_range(result, ahead);
               return result;
             });
  last.truncate(tiles.scores());
  return last;
}

FailureOr<SoftmaxState> StreamedSweep::visit(Value position, SoftmaxState state,
                                             Registers &quads) {
  Registers raw = multiplyChunks(position, quads);
  Registers values = value.load(position);
  FailureOr<Registers> scores =
      softmax.finishScores(raw, []() { return success(); });
  if (failed(scores))
    return failure();
  FailureOr<Registers> probabilities =
      softmax.update(*scores, softmax.newMaximum(*scores, state), state);
  if (failed(probabilities))
    return failure();
  int64_t keys = tiles.part / tiles.columnThreads;
  for (int64_t first = 0; first < tiles.keys; first += keys) {
    thread.barrier();
    storeProbabilities(thread, *probabilities, first, first + keys);
    value.store(values);
    thread.barrier();
    Value next = e.add(position, (first + keys) * tiles.columnThreads);
    if (first + keys < tiles.keys) {
      values = value.load(next);
    } else {
      Value end = scalars.lookup(form.sweep.getUpperBound());
      quads = loadChunk(next, e.index(0), e.less(next, end));
    }
    state.acc = multiplyProbabilitiesValue(thread, state.acc);
  }
  return state;
}

LogicalResult StreamedSweep::run() {
  FailureOr<SoftmaxState> state = softmax.initial();
  if (failed(state))
    return failure();
  IRMapping task = scalars;
  Value first = scalars.lookup(form.sweep.getLowerBound());
  Value end = scalars.lookup(form.sweep.getUpperBound());
  Registers inits = state->values();
  size_t stateSize = inits.size();
  llvm::append_range(inits, loadChunk(first, e.index(0), e.less(first, end)));
  bool valid = true;
  Registers last =
      e.loop(first, end, e.index(form.blockKey), inits,
             [&](Value position, ValueRange carried) {
               SoftmaxState inner = state->with(carried.take_front(stateSize));
               Registers quads(carried.drop_front(stateSize));
               scalars.map(form.sweep.getInductionVar(), position);
               LaneScalars lane(e, scalars);
               FailureOr<SoftmaxState> next = failure();
               if (succeeded(lane.clone(*form.sweep.getBody())))
                 next = visit(position, inner, quads);
               valid &= succeeded(next);
               Registers values = (succeeded(next) ? *next : inner).values();
               llvm::append_range(values, quads);
               return values;
             });
  scalars = task;
  if (!valid)
    return failure();
  last.truncate(stateSize);
  softmax.finish(state->with(last));
  return success();
}

LogicalResult spv::emitStreamedSweep(Thread &thread, IRMapping &scalars,
                                     LaneLayout &layout) {
  return StreamedSweep(thread, scalars, layout).run();
}
