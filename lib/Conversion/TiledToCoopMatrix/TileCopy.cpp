//===- TileCopy.cpp - Tiles from main memory to shared memory -------------===//
//
// All threads of the workgroup copy a tile together, through registers: a unit
// of 16 bytes is fetched while the products run and stored when its place is
// free. Buffers are read past their element type, as units where rows turn out
// to be whole units, else as words with two elements each.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kUnit = CoopMatrixTiles::kUnit;

BlockArgument coop::argumentOf(Value view) {
  while (Operation *op = view.getDefiningOp())
    view = op->getOperand(0);
  return cast<BlockArgument>(view);
}

bool coop::hasWholeUnits(BlockArgument argument) {
  auto [strides, offset] =
      cast<MemRefType>(argument.getType()).getStridesAndOffset();
  auto isWhole = [](int64_t n) {
    return !ShapedType::isDynamic(n) && n % kUnit == 0;
  };
  return strides.back() == 1 && isWhole(offset) &&
         llvm::all_of(ArrayRef(strides).drop_back(), isWhole);
}

TileCopy::TileCopy(Thread &thread, const CoopMatrixTiles::Tile &tile,
                   vector::TransferReadOp read, const IRMapping &scalars)
    : thread(thread), e(thread.e), tile(tile),
      columns(read.getVectorType().getDimSize(1)),
      isWhole(read.isDimInBounds(0)) {
  Value view = scalars.lookup(read.getBase());
  argument = argumentOf(view).getArgNumber();
  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, view);
  base = e.toI32(meta.getOffset());
  stride = e.toI32(meta.getStrides()[0]);
  rows = e.toI32(memref::DimOp::create(e.b, e.loc, view, int64_t(0)));

  isAligned = columns % kUnit == 0 && hasWholeUnits(argumentOf(view));
  if (!isAligned && columns % kUnit == 0)
    turnsOutAligned = e.equals(e.bitAnd(e.bitOr(base, stride), kUnit - 1), 0);
}

/// Eight elements from element `at` on, those of columns behind the last zero.
Value TileCopy::fetchHalves(Value at, Value firstColumn) {
  MemoryArray words =
      thread.matrices.viewArgument(thread.module, argument, e.b.getI32Type());
  Value halves[kUnit];
  for (int64_t i = 0; i < kUnit; ++i) {
    Value inside = e.less(e.add(firstColumn, i), e.i32(columns));
    // The element in front is there whenever this one is not.
    Value place = e.select(inside, e.add(at, i), e.sub(at, firstColumn));
    Value word = thread.matrices.read(words, e.div(place, 2));
    Value shift = e.mul(e.bitAnd(place, 1), 16);
    Value half = e.bitAnd(
        arith::ShRUIOp::create(e.b, e.loc, word, shift).getResult(), 0xFFFF);
    halves[i] = e.select(inside, half, e.i32(0));
  }
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < kUnit; i += 2) {
    Value high = arith::ShLIOp::create(e.b, e.loc, halves[i + 1], e.i32(16));
    pairs.push_back(e.bitOr(halves[i], high));
  }
  return vector::FromElementsOp::create(
      e.b, e.loc, VectorType::get(4, e.b.getI32Type()), pairs);
}

Value TileCopy::fetchUnit(Value row, Value unit) {
  auto type = VectorType::get(4, e.b.getI32Type());
  Value zero = e.zero(type), isReal;
  if (!isWhole) {
    isReal = e.less(row, rows);
    // A row that is there; the sweep visits no empty view.
    row = e.min(row, e.sub(rows, e.i32(1)));
  }
  Value firstColumn = e.mul(unit, kUnit);
  if (columns % kUnit == 0 && tile.columns != columns) {
    Value inside = e.less(firstColumn, e.i32(columns));
    isReal = isReal ? e.both(isReal, inside) : inside;
    firstColumn = e.select(inside, firstColumn, e.i32(0));
  }
  Value at = e.add(e.add(base, e.mul(row, stride)), firstColumn);
  auto readUnit = [&]() {
    return thread.matrices.read(
        thread.matrices.viewArgument(thread.module, argument, type),
        e.div(at, kUnit));
  };
  Value value;
  if (isAligned)
    value = readUnit();
  else if (!turnsOutAligned)
    value = fetchHalves(at, firstColumn);
  else
    value = e.branchOr(
        turnsOutAligned, [&]() { return Values{readUnit()}; },
        [&]() { return Values{fetchHalves(at, firstColumn)}; })[0];
  return isReal ? e.select(isReal, value, zero) : value;
}

Values TileCopy::fetch(Value firstRow) {
  int64_t threads = thread.kernel.tiles.threads();
  Values result;
  for (int64_t first = 0; first < total(); first += threads) {
    Value number = e.add(thread.id, first);
    // Threads behind the last unit repeat it.
    if (first + threads > total())
      number = e.min(number, e.i32(total() - 1));
    Value row = e.add(firstRow, e.div(number, unitsOfRow()));
    result.push_back(fetchUnit(row, e.rem(number, unitsOfRow())));
  }
  return result;
}

LogicalResult TileCopy::store(const Values &values, int64_t at, IsSeen isSeen) {
  LogicalResult stored = success();
  int64_t threads = thread.kernel.tiles.threads();
  for (auto [pass, value] : llvm::enumerate(values)) {
    int64_t first = pass * threads;
    Value number = e.add(thread.id, first);
    auto write = [&, value = value]() {
      Value row = e.div(number, unitsOfRow()), unit = value;
      Value place =
          e.add(e.mul(row, tile.pitch / kUnit), e.rem(number, unitsOfRow()));
      if (isSeen) {
        FailureOr<Value> seen = isSeen(row);
        if (failed(seen))
          stored = failure();
        else
          unit = e.select(*seen, unit, e.zero(unit.getType()));
      }
      thread.matrices.write(thread.tiles, e.add(place, at), unit);
    };
    if (first + threads <= total())
      write();
    else
      e.branch(e.less(number, e.i32(total())), write);
  }
  return stored;
}
