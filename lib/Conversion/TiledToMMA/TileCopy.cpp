//===- TileCopy.cpp - Tiles from main memory to shared memory -------------===//
//
// All threads of the block copy a tile together. A unit of up to 16 bytes that
// divides a row goes by cp.async, past the registers, where address and stride
// turn out to be multiples of it: a branch that all threads take alike. It
// fills rows past the end with zeros. What is not aligned goes element by
// element through registers.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

/// Copies that are written one after the other; more of them loop.
static constexpr int64_t kMaxUnrolled = 16;

static Value toI64(GpuEmitter &e, Value index) {
  return arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), index);
}

TileCopy::TileCopy(Thread &thread, const MmaTiles::Tile &tile,
                   vector::TransferReadOp read, IRMapping &scalars)
    : thread(thread), e(thread.e), tile(tile),
      source(cast<FloatType>(read.getVectorType().getElementType())),
      columns(read.getVectorType().getDimSize(1)),
      elementBytes(thread.kernel.elementBytes()),
      sourceBytes(source.getWidth() / 8), isWhole(read.isDimInBounds(0)) {
  Value view = scalars.lookup(read.getBase());
  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, view);
  Value pointer = memref::ExtractAlignedPointerAsIndexOp::create(
      e.b, e.loc, meta.getBaseBuffer());
  Value offset = e.mul(meta.getOffset(), sourceBytes);
  base = toI64(e, e.add(pointer, offset));
  rowBytes = toI64(e, e.mul(meta.getStrides()[0], sourceBytes));
  columnBytes = toI64(e, e.mul(meta.getStrides()[1], sourceBytes));
  rows = memref::DimOp::create(e.b, e.loc, view, int64_t(0));

  SmallVector<int64_t> strides =
      cast<MemRefType>(read.getBase().getType()).getStridesAndOffset().first;
  auto divides = [&](int64_t bytes) {
    bool fitsStride = ShapedType::isDynamic(strides[0]) ||
                      strides[0] * elementBytes % bytes == 0;
    return strides[1] == 1 && columns * elementBytes % bytes == 0 && fitsStride;
  };
  for (int64_t bytes : {16, 8, 4})
    if (unit == 0 && source == thread.kernel.elementType && divides(bytes))
      unit = bytes;
  if (unit == 0)
    return;
  Value low = e.bitAnd(e.bitOr(base, rowBytes), unit - 1);
  isAligned = e.equals(low, 0);
}

void TileCopy::issueUnits(Value address, Value firstRow) {
  int64_t units = columns * elementBytes / unit,
          threads = thread.kernel.threads();
  int64_t total = tile.rows * units, passes = llvm::divideCeil(total, threads);
  Value rest;
  if (!isWhole)
    rest = e.sub(e.toI32(rows), e.toI32(firstRow));
  Value from = e.add(base, e.mul(toI64(e, firstRow), rowBytes));
  std::string copy = llvm::formatv("cp.async.{0}.shared.global [$0], [$1], {1}",
                                   unit == 16 ? "cg" : "ca", unit);
  auto copyUnit = [&](Value row, Value target, Value source) {
    if (isWhole) {
      e.ptx(copy + ";", "r,l,~{memory}", {target, source});
      return;
    }
    Value bytes = e.select(e.less(row, rest), e.i32(unit), e.i32(0));
    e.ptx(copy + ", $2;", "r,l,r,~{memory}", {target, source, bytes});
  };
  auto place = [&](Value number) {
    Value row = e.div(number, units), column = e.rem(number, units);
    Value target =
        e.add(address, e.add(e.mul(row, tile.pitch), e.mul(column, unit)));
    Value shift = arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                         e.mul(column, unit));
    Value line = arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), row);
    Value source = e.add(e.add(from, e.mul(line, rowBytes)), shift);
    return std::array{row, target, source};
  };
  if (threads % units == 0 && passes <= kMaxUnrolled) {
    // A thread stays in its column.
    int64_t step = threads / units;
    std::array<Value, 3> first = place(thread.readId());
    Value row = first[0], target = first[1], source = first[2];
    Value sourceStep = e.mul(rowBytes, step);
    for (int64_t pass = 0; pass < passes; ++pass) {
      auto work = [&]() { copyUnit(row, target, source); };
      if ((pass + 1) * threads <= total)
        work();
      else
        e.branch(e.less(row, e.i32(tile.rows)), work);
      row = e.add(row, step);
      target = e.add(target, step * tile.pitch);
      source = e.add(source, sourceStep);
    }
    return;
  }
  e.loop(thread.readId(), e.i32(total), e.i32(threads), {},
         [&](Value number, ValueRange) {
           auto [row, target, source] = place(number);
           copyUnit(row, target, source);
           return SmallVector<Value>();
         });
}

Value TileCopy::convert(Value bits) {
  FloatType target = thread.kernel.elementType;
  if (source == target)
    return bits;
  Value number = arith::BitcastOp::create(e.b, e.loc, source, bits);
  auto widen = [&](FloatType type) {
    number = arith::ExtFOp::create(e.b, e.loc, type, number);
  };
  // f16 and bf16 meet in f32.
  if (source.getWidth() == target.getWidth())
    widen(e.b.getF32Type());
  else if (source.getWidth() < target.getWidth())
    widen(target);
  if (number.getType() != target)
    number = arith::TruncFOp::create(e.b, e.loc, target, number);
  return arith::BitcastOp::create(
      e.b, e.loc, e.b.getIntegerType(target.getWidth()), number);
}

void TileCopy::issueElements(Value address, Value firstRow) {
  Type word = e.b.getIntegerType(8 * sourceBytes);
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext(), 1);
  Value rest = e.sub(e.toI32(rows), e.toI32(firstRow));
  // Where there may be units, clearPadding has been here.
  int64_t width = unit == 0 ? tile.columns : columns;
  Value first = e.add(base, e.mul(toI64(e, firstRow), rowBytes));
  std::string store =
      llvm::formatv("st.shared.b{0} [$0], $1;", 8 * elementBytes);
  const char *constraints = elementBytes == 2   ? "r,h,~{memory}"
                            : elementBytes == 4 ? "r,r,~{memory}"
                                                : "r,l,~{memory}";
  e.loop(thread.readId(), e.i32(tile.rows * width),
         e.i32(thread.kernel.threads()), {}, [&](Value number, ValueRange) {
           Value row = e.div(number, width);
           Value column = e.rem(number, width);
           Value isReal = e.less(row, rest);
           if (columns != width)
             isReal = e.both(isReal, e.less(column, e.i32(columns)));
           Value element = e.branch(isReal, e.zero(word), [&]() {
             Type i64 = e.b.getI64Type();
             Value line = arith::ExtUIOp::create(e.b, e.loc, i64, row);
             Value shift = arith::ExtUIOp::create(e.b, e.loc, i64, column);
             Value from = e.add(e.add(first, e.mul(line, rowBytes)),
                                e.mul(shift, columnBytes));
             from = LLVM::IntToPtrOp::create(e.b, e.loc, pointer, from);
             return SmallVector<Value>{LLVM::LoadOp::create(
                 e.b, e.loc, word, from, /*alignment=*/sourceBytes)};
           })[0];
           element = convert(element);
           Value target = e.add(address, e.add(e.mul(row, tile.pitch),
                                               e.mul(column, elementBytes)));
           e.ptx(store, constraints, {target, element});
           return SmallVector<Value>();
         });
}

void TileCopy::issue(Value address, Value firstRow) {
  if (unit == 0)
    return issueElements(address, firstRow);
  scf::IfOp::create(
      e.b, e.loc, isAligned,
      [&](OpBuilder &, Location) {
        issueUnits(address, firstRow);
        scf::YieldOp::create(e.b, e.loc);
      },
      [&](OpBuilder &, Location) {
        issueElements(address, firstRow);
        scf::YieldOp::create(e.b, e.loc);
      });
}

void mma::clearPadding(Thread &thread, const MmaTiles::Tile &tile,
                       int64_t columns, Value address, int64_t count) {
  GpuEmitter &e = thread.e;
  int64_t elementBytes = thread.kernel.elementBytes();
  int64_t width = tile.columns - columns;
  if (width == 0 || columns * elementBytes % 4 != 0)
    return;
  // In steps of four bytes, which is what divides any unit.
  int64_t words = width * elementBytes / 4;
  e.loop(thread.readId(), e.i32(count * words), e.i32(thread.kernel.threads()),
         {}, [&](Value number, ValueRange) {
           Value row = e.div(number, words), word = e.rem(number, words);
           Value target = e.add(e.add(address, columns * elementBytes),
                                e.add(e.mul(row, tile.pitch), e.mul(word, 4)));
           e.ptx("st.shared.b32 [$0], $1;", "r,r,~{memory}",
                 {target, e.i32(0)});
           return SmallVector<Value>();
         });
}

void mma::commitCopies(GpuEmitter &e) {
  e.ptx("cp.async.commit_group;", "~{memory}", {});
}

void mma::waitCopies(GpuEmitter &e, int64_t pending) {
  e.ptx(llvm::formatv("cp.async.wait_group {0};", pending).str(), "~{memory}",
        {});
}
