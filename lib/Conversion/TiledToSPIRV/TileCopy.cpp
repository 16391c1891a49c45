//===- TileCopy.cpp - Tiles from main memory to shared memory -------------===//
//
// All threads of the workgroup copy a tile together, a quad of columns at a
// time, and widen it to the accumulator's type on the way.
//
//===----------------------------------------------------------------------===//

#include "LaneKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

static constexpr int64_t kQuad = LaneTiles::kQuad;

static Value widen(GpuEmitter &e, Value x, Type type) {
  return x.getType() == type
             ? x
             : arith::ExtFOp::create(e.b, e.loc, type, x).getResult();
}

TileCopy::TileCopy(LaneThread &thread, const SharedTile &tile, int64_t rows,
                   int64_t pitch, vector::TransferReadOp read,
                   IRMapping &scalars, int64_t width)
    : thread(thread), e(thread.e), tile(tile), rows(rows), pitch(pitch),
      columns(read.getVectorType().getDimSize(1)),
      quads(width > 0 ? width : llvm::divideCeil(columns, kQuad)),
      allQuads(llvm::divideCeil(columns, kQuad)),
      isWhole(read.isDimInBounds(0)), view(scalars.lookup(read.getBase())) {
  auto type = cast<MemRefType>(view.getType());
  isPacked = type.getStridesAndOffset().first.back() == 1;
}

/// Null where every row is.
Value TileCopy::isInside(Value row, Value firstRow) {
  if (isWhole)
    return {};
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  return e.less(row, e.sub(length, firstRow));
}

Value TileCopy::loadQuad(Value row, Value quad, Value firstRow, Value isReal) {
  FloatType type = thread.type;
  VectorType wide = thread.quadType();
  VectorType narrow =
      wide.clone(cast<MemRefType>(view.getType()).getElementType());
  Value source = e.add(firstRow, row);
  Value first = e.mul(quad, kQuad);
  auto loadWhole = [&]() {
    Value loaded = vector::LoadOp::create(e.b, e.loc, narrow, view,
                                          ValueRange{source, first});
    return Registers{widen(e, loaded, wide)};
  };
  auto loadElements = [&]() {
    Registers loaded;
    for (int64_t i = 0; i < kQuad; ++i) {
      Value column = e.add(first, i);
      Value isThere = e.less(column, e.index(columns));
      column = e.min(column, e.index(columns - 1));
      Value element =
          memref::LoadOp::create(e.b, e.loc, view, ValueRange{source, column});
      loaded.push_back(
          e.select(isThere, widen(e, element, type), e.zero(type)));
    }
    return Registers{vector::FromElementsOp::create(e.b, e.loc, wide, loaded)};
  };
  int64_t wholeQuads = columns / kQuad;
  auto load = [&]() {
    if (!isPacked || wholeQuads == 0)
      return loadElements();
    if (wholeQuads == allQuads && allQuads % quads == 0)
      return loadWhole();
    return e.branchOr(e.less(quad, e.index(wholeQuads)), loadWhole,
                      loadElements);
  };
  return isReal ? e.branch(isReal, e.zero(wide), load)[0] : load()[0];
}

LogicalResult TileCopy::copy(Value firstRow, IsSeen isSeen) {
  bool valid = true;
  e.loop(thread.id, e.index(size()), e.index(thread.threads), {},
         [&](Value number, ValueRange) {
           Value row = e.div(number, quads), quad = e.rem(number, quads);
           Value isReal = isInside(row, firstRow);
           if (isSeen) {
             FailureOr<Value> seen = isSeen(row);
             valid = succeeded(seen);
             if (!valid)
               return Registers();
             isReal = isReal ? e.both(isReal, *seen) : *seen;
           }
           Value loaded = loadQuad(row, quad, firstRow, isReal);
           tile.store(e, loaded, e.add(e.mul(row, pitch), quad));
           return Registers();
         });
  return success(valid);
}

/// A thread without a last quad loads that of another, and does not store it.
FailureOr<Registers> TileCopy::load(Value firstRow, Value firstQuad,
                                    IsSeen isSeen) {
  int64_t threads = thread.threads;
  Registers loaded;
  for (int64_t from = 0; from < size(); from += threads) {
    Value number = e.add(thread.id, from);
    if (from + threads > size())
      number = e.min(number, e.index(size() - 1));
    Value row = e.div(number, quads), quad = e.rem(number, quads);
    if (firstQuad)
      quad = e.add(firstQuad, quad);
    Value isReal = isInside(row, firstRow);
    if (isSeen) {
      FailureOr<Value> seen = isSeen(row);
      if (failed(seen))
        return failure();
      isReal = isReal ? e.both(isReal, *seen) : *seen;
    }
    loaded.push_back(loadQuad(row, quad, firstRow, isReal));
  }
  return loaded;
}

void TileCopy::store(const Registers &loaded) {
  int64_t threads = thread.threads, from = 0;
  for (Value value : loaded) {
    Value number = e.add(thread.id, from);
    auto store = [&]() {
      Value row = e.div(number, quads), quad = e.rem(number, quads);
      tile.store(e, value, e.add(e.mul(row, pitch), quad));
    };
    from += threads;
    if (from <= size())
      store();
    else
      e.branch(e.less(number, e.index(size())), store);
  }
}
