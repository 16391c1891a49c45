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

static Value widen(GpuEmitter &e, Value x, Type type) {
  return x.getType() == type
             ? x
             : arith::ExtFOp::create(e.b, e.loc, type, x).getResult();
}

LogicalResult spv::copyTile(Thread &thread, const SharedTile &tile,
                            int64_t rows, int64_t pitch,
                            vector::TransferReadOp read, IRMapping &scalars,
                            Value firstRow,
                            function_ref<FailureOr<Value>(Value row)> isSeen) {
  GpuEmitter &e = thread.e;
  const LaneKernel &kernel = thread.kernel;
  Value view = scalars.lookup(read.getBase());
  int64_t columns = read.getVectorType().getDimSize(1);
  int64_t quads = llvm::divideCeil(columns, LaneTiles::kQuad);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  Value rest = e.sub(length, firstRow);
  VectorType narrowType = kernel.quadType().clone(
      cast<MemRefType>(view.getType()).getElementType());
  int64_t wholeQuads = columns / LaneTiles::kQuad;
  // Neighbours lie side by side.
  bool isPacked =
      cast<MemRefType>(view.getType()).getStridesAndOffset().first.back() == 1;

  bool valid = true;
  e.loop(
      thread.id, e.index(rows * quads), e.index(kernel.tiles.threads), {},
      [&](Value number, ValueRange) {
        Value row = e.div(number, quads), quad = e.rem(number, quads);
        // Null where every row is.
        Value isReal;
        if (!read.isDimInBounds(0))
          isReal = e.less(row, rest);
        if (isSeen) {
          FailureOr<Value> seen = isSeen(row);
          valid = succeeded(seen);
          if (!valid)
            return Registers();
          isReal = isReal ? e.both(isReal, *seen) : *seen;
        }
        Value source = e.add(firstRow, row);
        Value first = e.mul(quad, LaneTiles::kQuad);
        auto loadWhole = [&]() {
          Value loaded = vector::LoadOp::create(e.b, e.loc, narrowType, view,
                                                ValueRange{source, first});
          return Registers{widen(e, loaded, kernel.quadType())};
        };
        auto loadElements = [&]() {
          Registers loaded;
          for (int64_t i = 0; i < LaneTiles::kQuad; ++i) {
            Value column = e.add(first, i);
            Value isThere = e.less(column, e.index(columns));
            column = e.min(column, e.index(columns - 1));
            Value element = memref::LoadOp::create(e.b, e.loc, view,
                                                   ValueRange{source, column});
            element = widen(e, element, kernel.type());
            loaded.push_back(e.select(isThere, element, e.zero(kernel.type())));
          }
          return Registers{vector::FromElementsOp::create(
              e.b, e.loc, kernel.quadType(), loaded)};
        };
        auto load = [&]() {
          if (!isPacked || wholeQuads == 0)
            return loadElements();
          if (wholeQuads == quads)
            return loadWhole();
          return e.branchOr(e.less(quad, e.index(wholeQuads)), loadWhole,
                            loadElements);
        };
        Value vector =
            isReal ? e.branch(isReal, e.zero(kernel.quadType()), load)[0]
                   : load()[0];
        tile.store(e, vector, e.add(e.mul(row, pitch), quad));
        return Registers();
      });
  return success(valid);
}
