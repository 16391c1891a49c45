//===- RegisterTile.cpp - A product that stays in registers ---------------===//

#include "RegisterTile.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

Step Step::of(Emitter &e, Value index, int64_t width) {
  Value group = e.div(index, width);
  return {index, group, e.sub(index, e.mul(group, width))};
}

SmallVector<Value> RegisterTile::add(const Step &step, ValueRange sums) const {
  SmallVector<Value> factors = right(step), next;
  for (int64_t r = 0; r < rows; ++r) {
    Value word = left(r, step);
    for (int64_t v = 0; v < vectors; ++v)
      next.push_back(multiplyAdd(word, factors[v], sums[r * vectors + v]));
  }
  return next;
}

SmallVector<Value> RegisterTile::addAll(Emitter &e, int64_t atOnce, Value begin,
                                        Value end, ValueRange sums) const {
  Value first = e.div(begin, atOnce);
  Value count = e.max(e.sub(end, begin), e.index(0));
  Value last = e.add(first, e.div(count, atOnce));
  SmallVector<Value> whole =
      e.loop(first, last, 1, sums, [&](Value group, ValueRange carried) {
        SmallVector<Value> next(carried);
        Value index = e.mul(group, atOnce);
        for (int64_t lane = 0; lane < atOnce; ++lane)
          next = add({e.add(index, lane), group, e.index(lane)}, next);
        return next;
      });
  return e.loop(e.mul(last, atOnce), end, 1, whole,
                [&](Value index, ValueRange carried) {
                  return add(Step::of(e, index, atOnce), carried);
                });
}

LeftRows LeftRows::allocate(Emitter &e, int64_t rows, int64_t tileRows,
                            int64_t columns, VectorType lanes) {
  int64_t width = lanes.getDimSize(0);
  auto type = MemRefType::get({(rows + tileRows - 1) / tileRows,
                               (columns + width - 1) / width, tileRows, width},
                              lanes.getElementType());
  Value memory =
      memref::AllocaOp::create(e.b, e.loc, type, e.b.getI64IntegerAttr(64));
  return {memory, tileRows, width};
}

SmallVector<Value> LeftRows::at(Emitter &e, Value row, Value column) const {
  Step r = Step::of(e, row, tileRows), c = Step::of(e, column, width);
  return {r.group, c.group, r.lane, c.lane};
}

SmallVector<Value> LeftRows::at(Emitter &e, Value row, int64_t r,
                                const Step &step) const {
  return {e.add(e.div(row, tileRows), r / tileRows), step.group,
          e.index(r % tileRows), step.lane};
}
