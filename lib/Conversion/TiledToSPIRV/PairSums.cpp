//===- PairSums.cpp - Sums over pairs -------------------------------------===//
//
// Pairs of a block add to the gradient of a bias or of a capture, several of
// them perhaps to one element. So their terms go to shared memory with the
// number of the element that each is for, and an element is its number's
// thread's, modulo the threads: that alone reads, adds and writes it. Terms are
// taken in their order, and no other workgroup has tasks that add to it.
//
// What the tiled form sums over rows or keys first, each thread sums over its
// own before it stores, and the element's thread over those.
//
//===----------------------------------------------------------------------===//

#include "GradientTask.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

struct GradientTask::PairSum {
  /// The terms of all pairs, and which sides of the tile are not summed over.
  Value terms;
  bool hasRows = true, hasKeys = true;
  Value destination;
  /// Of an element: a scalar, or a vector of the sides that are left; or the
  /// first of a window of `destination` that rows and keys go along.
  SmallVector<Value> indices;
  bool isWindow = false;

  /// Elements, by the sides that are left.
  int64_t rows(int64_t blockQuery) const { return hasRows ? blockQuery : 1; }
  int64_t keys(int64_t blockKey) const { return hasKeys ? blockKey : 1; }
};

//===----------------------------------------------------------------------===//
// The tiled form
//===----------------------------------------------------------------------===//

/// What the tiled form adds to what was there.
static Value addedBy(Value stored) {
  auto sum = stored.getDefiningOp<arith::AddFOp>();
  return sum ? sum.getRhs() : Value();
}

/// A vector that was spilled to scratch, where `element` is loaded from that.
static Value spilled(Value element) {
  auto load = element.getDefiningOp<memref::LoadOp>();
  auto scratch =
      load ? load.getMemRef().getDefiningOp<memref::AllocaOp>() : nullptr;
  if (!scratch)
    return element;
  for (Operation *user : scratch->getUsers())
    if (auto write = dyn_cast<vector::TransferWriteOp>(user))
      return write.getVector();
  return element;
}

/// The op of a block that adds to a gradient, or null.
static Operation *findStore(Operation &op) {
  if (auto write = dyn_cast<vector::TransferWriteOp>(op))
    return write;
  Operation *store = nullptr;
  if (isa<memref::StoreOp, memref::AllocaScopeOp>(op))
    op.walk([&](memref::StoreOp found) { store = found; });
  return store;
}

LogicalResult GradientTask::sumPairs(Block &block) {
  for (Operation &op : block.without_terminator()) {
    Operation *store = findStore(op);
    if (!store)
      continue;
    PairSum sum;
    if (auto write = dyn_cast<vector::TransferWriteOp>(store)) {
      sum.terms = addedBy(write.getVector());
      sum.destination = write.getBase();
      sum.indices = llvm::to_vector(write.getIndices());
      sum.isWindow = true;
    } else {
      auto single = cast<memref::StoreOp>(store);
      sum.terms = addedBy(single.getValueToStore());
      if (sum.terms)
        sum.terms = spilled(sum.terms);
      sum.destination = single.getMemRef();
      for (Value index : single.getIndices())
        sum.indices.push_back(spilled(index));
    }
    if (!sum.terms)
      return store->emitOpError("expects a sum with what was there");
    if (auto reduction =
            sum.terms.getDefiningOp<vector::MultiDimReductionOp>()) {
      sum.terms = reduction.getSource();
      sum.hasRows = !reduction.isReducedDim(0);
      sum.hasKeys = !reduction.isReducedDim(1);
    }
    if (failed(addPairs(sum)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// To shared memory
//===----------------------------------------------------------------------===//

/// What a thread has of the terms: [rows][keys], or sums over its own of them.
LogicalResult GradientTask::storeTerms(PairSum &sum) {
  FailureOr<Registers> elements = pairs.scores(sum.terms);
  if (failed(elements))
    return failure();
  int64_t rows = sum.hasRows ? tiles.rows : 1;
  int64_t keys = sum.hasKeys ? tiles.keys : 1;
  Registers parts(rows * keys);
  for (int64_t i = 0; i < tiles.rows; ++i)
    for (int64_t j = 0; j < tiles.keys; ++j) {
      Value &part = parts[(sum.hasRows ? i : 0) * keys + (sum.hasKeys ? j : 0)];
      Value element = (*elements)[i * tiles.keys + j];
      part = part ? arith::AddFOp::create(e.b, e.loc, part, element).getResult()
                  : element;
    }
  int64_t pitch = sum.hasKeys ? blockKey : tiles.columnThreads;
  auto store = [&]() {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < keys; ++j) {
        Value line = sum.hasRows ? pairs.rowNumbers()[i] : row;
        Value at = sum.hasKeys ? pairs.keyNumbers()[j] : column;
        terms.store(e, parts[i * keys + j], e.add(e.mul(line, pitch), at));
      }
  };
  if (isWriter)
    e.branch(isWriter, store);
  else
    store();
  return success();
}

/// The number of the element (i32) that the thread's pair adds to; -1 outside
/// of a window.
FailureOr<Value> GradientTask::placeOf(PairSum &sum, int64_t i, int64_t j) {
  Value rowNumber = pairs.rowNumbers()[i], keyNumber = pairs.keyNumbers()[j];
  Value destination = scalars.lookup(sum.destination);
  Value place = e.i32(0), isInside;
  for (auto [d, index] : llvm::enumerate(sum.indices)) {
    FailureOr<Value> at = Value();
    if (sum.isWindow) {
      bool alongRows = sum.hasRows && d == 0;
      at = e.add(scalars.lookup(index), alongRows ? rowNumber : keyNumber);
    } else if (auto vector = dyn_cast<VectorType>(index.getType())) {
      at = vector.getRank() == 2 ? pairs.pair(index, i, j)
           : sum.hasRows         ? pairs.rowOf(index, i)
                                 : pairs.element(index, keyNumber);
    } else {
      at = scalars.lookup(index);
    }
    if (failed(at))
      return failure();
    Value size = memref::DimOp::create(e.b, e.loc, destination, int64_t(d));
    if (sum.isWindow) {
      Value fits = e.less(*at, size);
      isInside = isInside ? e.both(isInside, fits) : fits;
    }
    place = e.add(e.mul(place, e.toI32(size)), e.toI32(*at));
  }
  return isInside ? e.select(isInside, place, e.i32(-1)) : place;
}

LogicalResult GradientTask::storePlaces(PairSum &sum) {
  int64_t rows = sum.hasRows ? tiles.rows : 1;
  int64_t keys = sum.hasKeys ? tiles.keys : 1;
  Value mayWrite = isWriter;
  auto require = [&](Value condition) {
    mayWrite = mayWrite ? e.both(mayWrite, condition) : condition;
  };
  if (!sum.hasRows)
    require(e.equals(row, 0));
  if (!sum.hasKeys)
    require(e.equals(column, 0));
  bool valid = true;
  auto store = [&]() {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < keys; ++j) {
        FailureOr<Value> place = placeOf(sum, i, j);
        valid &= succeeded(place);
        if (failed(place))
          return;
        Value at = sum.hasKeys ? pairs.keyNumbers()[j] : e.index(0);
        if (sum.hasRows)
          at = e.add(e.mul(pairs.rowNumbers()[i], sum.keys(blockKey)), at);
        places.store(e, *place, at);
      }
  };
  if (mayWrite)
    e.branch(mayWrite, store);
  else
    store();
  return success(valid);
}

//===----------------------------------------------------------------------===//
// To main memory
//===----------------------------------------------------------------------===//

/// Numbers [0, count) in their order; a single one is known.
static Value sumOver(GpuEmitter &e, Value start, Value first, int64_t count,
                     function_ref<Value(Value sum, Value number)> add) {
  if (count == 1)
    return add(start, first);
  return e.loop(first, e.add(first, count), e.index(1), start,
                [&](Value number, ValueRange carried) {
                  return Registers{add(carried[0], number)};
                })[0];
}

void GradientTask::addTerms(PairSum &sum) {
  Value destination = scalars.lookup(sum.destination);
  int64_t entries = sum.rows(blockQuery) * sum.keys(blockKey);
  int64_t pitch = sum.hasKeys ? blockKey : tiles.columnThreads;
  // The parts of an element.
  int64_t lines = sum.hasRows ? 1 : tiles.rowThreads;
  int64_t parts = sum.hasKeys ? 1 : tiles.columnThreads;
  auto addEntry = [&](Value entry) {
    Value place = places.load(e, entry);
    Value isReal = e.compare(arith::CmpIPredicate::sge, place, e.i32(0));
    Value owner = e.rem(place, thread.threads);
    Value isMine = e.both(
        isReal, e.compare(arith::CmpIPredicate::eq, owner, e.toI32(thread.id)));
    e.branch(isMine, [&]() {
      Value line = e.index(0), at = e.index(0);
      if (sum.hasRows)
        line = e.div(entry, sum.keys(blockKey));
      if (sum.hasKeys)
        at = sum.hasRows ? e.rem(entry, blockKey) : entry;
      Value total = sumOver(
          e, e.zero(thread.type), line, lines, [&](Value start, Value l) {
            return sumOver(e, start, at, parts, [&](Value old, Value c) {
              Value term = terms.load(e, e.add(e.mul(l, pitch), c));
              return arith::AddFOp::create(e.b, e.loc, old, term).getResult();
            });
          });
      Registers indices(sum.indices.size());
      Value rest = e.toIndex(place);
      for (int64_t d = indices.size() - 1; d >= 0; --d) {
        Value size = memref::DimOp::create(e.b, e.loc, destination, d);
        indices[d] = d == 0 ? rest : e.rem(rest, size);
        if (d != 0)
          rest = e.div(rest, size);
      }
      Value old = memref::LoadOp::create(e.b, e.loc, destination, indices);
      Value next = arith::AddFOp::create(e.b, e.loc, old, total);
      memref::StoreOp::create(e.b, e.loc, next, destination, indices);
    });
  };
  int64_t together = entries % 4 == 0 ? 4 : entries % 2 == 0 ? 2 : 1;
  e.loop(e.index(0), e.index(entries), e.index(together), {},
         [&](Value entry, ValueRange) {
           for (int64_t i = 0; i < together; ++i)
             addEntry(e.add(entry, i));
           return Registers();
         });
}

LogicalResult GradientTask::addPairs(PairSum &sum) {
  // Who read the terms before has finished.
  thread.barrier();
  if (failed(storeTerms(sum)) || failed(storePlaces(sum)))
    return failure();
  thread.barrier();
  addTerms(sum);
  return success();
}
