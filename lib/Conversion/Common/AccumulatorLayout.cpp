//===- AccumulatorLayout.cpp - Which thread holds which score -------------===//

#include "AccumulatorLayout.h"

using namespace mlir;
using namespace attn;

Registers attn::packLeftSide(GpuEmitter &e, Fragment &fragment,
                             FloatType type) {
  if (type.getWidth() > 16)
    return fragment.elements;
  Registers result;
  for (int64_t group = 0; group < fragment.groups(); ++group)
    for (int64_t half : {0, 1}) {
      // The instruction's first operand becomes the upper half.
      SmallVector<Value> packed =
          e.ptx(type.isBF16() ? "cvt.rn.bf16x2.f32 $0, $1, $2;"
                              : "cvt.rn.f16x2.f32 $0, $1, $2;",
                "=r,f,f", {e.b.getI32Type()},
                {fragment.at(group, half, 1), fragment.at(group, half, 0)});
      result.push_back(packed[0]);
    }
  return result;
}

Fragment attn::unpackLeftSide(GpuEmitter &e, const Registers &registers,
                              FloatType type) {
  Fragment fragment;
  auto pair = VectorType::get(2, type);
  auto wide = VectorType::get(2, e.b.getF32Type());
  for (Value word : registers) {
    Value both = LLVM::BitcastOp::create(e.b, e.loc, pair, word);
    both = arith::ExtFOp::create(e.b, e.loc, wide, both);
    for (int64_t i : {0, 1})
      fragment.elements.push_back(
          vector::ExtractOp::create(e.b, e.loc, both, i));
  }
  return fragment;
}

/// The highest bit of an exponent says "2 or more": the bits of all numbers
/// joined have it where one has. Three numbers an instruction.
RowPair attn::joinExponents(GpuEmitter &e, const Registers &registers) {
  RowPair joined;
  for (auto [i, word] : llvm::enumerate(registers)) {
    Value &row = joined[i % 2];
    row = row ? e.bitOr(row, word) : word;
  }
  for (Value &row : joined) {
    Value low = arith::ShLIOp::create(e.b, e.loc, row, e.i32(16));
    row = e.bitAnd(e.bitOr(row, low), static_cast<int32_t>(0xffff0000));
    row = arith::BitcastOp::create(e.b, e.loc, e.b.getF32Type(), row);
  }
  return joined;
}

void AccumulatorLayout::withOwnPositions(function_ref<void()> body) {
  Value outer = column;
  column = e.toIndex(e.ptx("mov.b32 $0, $1;", "=r,r", {e.b.getI32Type()},
                           {e.toI32(outer)})[0]);
  body();
  column = outer;
}

void AccumulatorLayout::bind(Value value, Fragment fragment) {
  slicer.bind(value, [this, fragment](const TileSlicer::Piece &) mutable {
    Value pair[] = {fragment.at(group, half, 0), fragment.at(group, half, 1)};
    auto type = VectorType::get(2, pair[0].getType());
    return Value(vector::FromElementsOp::create(e.b, e.loc, type, pair));
  });
}

void AccumulatorLayout::bind(Value value, RowPair rows) {
  slicer.bind(value,
              [this, rows](const TileSlicer::Piece &) { return rows[half]; });
}

LogicalResult AccumulatorLayout::forEachPair(
    Value value, int64_t columns,
    function_ref<void(int64_t, int64_t, Value)> use) {
  for (group = 0; group < columns / 8; ++group)
    for (half = 0; half < 2; ++half) {
      FailureOr<Value> pair = slicer.tile(
          value, {row[half], e.add(column, 8 * group), 2, column, 8 * group});
      if (failed(pair))
        return failure();
      use(group, half, *pair);
    }
  return success();
}

FailureOr<Fragment> AccumulatorLayout::tile(Value value, int64_t columns) {
  Fragment fragment;
  LogicalResult made =
      forEachPair(value, columns, [&](int64_t, int64_t, Value pair) {
        for (int64_t i : {0, 1})
          fragment.elements.push_back(
              vector::ExtractOp::create(e.b, e.loc, pair, i));
      });
  if (failed(made))
    return failure();
  return fragment;
}

FailureOr<RowPair> AccumulatorLayout::rows(Value value) {
  RowPair result;
  for (half = 0; half < 2; ++half) {
    FailureOr<Value> element = slicer.rowElement(value, {row[half], column, 1});
    if (failed(element))
      return failure();
    result[half] = *element;
  }
  return result;
}

/// Two chains a row, so that latencies overlap.
template <typename OpTy>
RowPair AccumulatorLayout::reduce(Fragment &fragment, RowPair initial) {
  RowPair result;
  for (int64_t half : {0, 1}) {
    Value chain[] = {initial[half], Value()};
    for (int64_t group = 0; group < fragment.groups(); ++group)
      for (int64_t i : {0, 1}) {
        Value x = fragment.at(group, half, i);
        chain[i] = chain[i] ? OpTy::create(e.b, e.loc, chain[i], x) : x;
      }
    result[half] = OpTy::create(e.b, e.loc, chain[0], chain[1]);
  }
  return result;
}

template <typename OpTy>
RowPair AccumulatorLayout::reduceOverLanes(RowPair rows) {
  for (Value &value : rows)
    for (int64_t distance : {1, 2})
      value = OpTy::create(e.b, e.loc, value, e.fromLane(value, distance));
  return rows;
}

// maxnum passes over a NaN: it reaches the row through its probability.
RowPair AccumulatorLayout::maximum(Fragment &fragment, RowPair initial) {
  return reduce<arith::MaxNumFOp>(fragment, initial);
}
RowPair AccumulatorLayout::sum(Fragment &fragment, RowPair initial) {
  return reduce<arith::AddFOp>(fragment, initial);
}
RowPair AccumulatorLayout::maximumOverLanes(RowPair rows) {
  return reduceOverLanes<arith::MaxNumFOp>(rows);
}
RowPair AccumulatorLayout::sumOverLanes(RowPair rows) {
  return reduceOverLanes<arith::AddFOp>(rows);
}
