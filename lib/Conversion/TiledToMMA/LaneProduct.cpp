//===- LaneProduct.cpp - Tile products by multiply-adds -------------------===//
//
// f32 and f64 in the accumulator's layout of mma.sync: a thread has two rows of
// a slab, and of each eight columns two neighbours. Nothing is rounded but by
// the multiply-adds. A step loads 16 bytes along the depth from each row of
// either side; the probabilities of a warp cross its lanes through shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static constexpr int64_t kVectorBytes = 16;

/// `count` neighbours from shared memory.
static SmallVector<Value> load(GpuEmitter &e, Value address, int64_t offset,
                               int64_t count, FloatType type) {
  bool isWide = type.isF64();
  std::string targets, constraints;
  for (int64_t i = 0; i < count; ++i) {
    targets += (i ? ", $" : "$") + std::to_string(i);
    constraints += isWide ? "=d," : "=f,";
  }
  std::string text =
      llvm::formatv("ld.shared.v{0}.{1} {{{2}}, [${0}+{3}];", count,
                    isWide ? "f64" : "f32", targets, offset);
  return e.ptx(text, constraints + "r,~{memory}",
               SmallVector<Type>(count, type), {address});
}

static Value multiplyAdd(GpuEmitter &e, Value x, Value y, Value sum) {
  return LLVM::FMAOp::create(e.b, e.loc, sum.getType(), x, y, sum);
}

/// All elements of all fragments in a row, and back.
static SmallVector<Value> flatten(ArrayRef<Fragment> fragments) {
  SmallVector<Value> values;
  for (const Fragment &fragment : fragments)
    llvm::append_range(values, fragment.elements);
  return values;
}
static void assign(MutableArrayRef<Fragment> fragments, ValueRange values) {
  size_t next = 0;
  for (Fragment &fragment : fragments)
    for (Value &element : fragment.elements)
      element = values[next++];
}

SmallVector<Fragment> lanes::multiplyRows(Thread &thread, SharedTile left,
                                          SharedTile right) {
  GpuEmitter &e = thread.e;
  const WarpKernel &kernel = thread.kernel;
  int64_t slabs = kernel.slabs;
  FloatType type = kernel.elementType;
  Fragment zero;
  zero.elements.assign(right.tile.rows / 2, e.zero(type));
  SmallVector<Fragment> sums(slabs, zero);
  Value line = e.add(left.address, e.mul(e.add(thread.warpRow, thread.row()),
                                         left.tile.pitch));
  Value other = e.add(right.address, e.mul(thread.column(), right.tile.pitch));
  int64_t depth = kVectorBytes / kernel.elementBytes();
  SmallVector<Value> all = e.loop(
      e.i32(0), e.i32(right.tile.columns / depth), e.i32(1), flatten(sums),
      [&](Value step, ValueRange carried) {
        assign(sums, carried);
        Value shift = e.mul(step, kVectorBytes);
        Value lineStep = e.add(line, shift), otherStep = e.add(other, shift);
        SmallVector<SmallVector<Value>> rows;
        for (int64_t row = 0; row < 2 * slabs; ++row)
          rows.push_back(
              load(e, lineStep, row * 8 * left.tile.pitch, depth, type));
        for (int64_t group = 0; group < zero.groups(); ++group)
          for (int64_t i : {0, 1}) {
            SmallVector<Value> column = load(
                e, otherStep, (8 * group + i) * right.tile.pitch, depth, type);
            for (int64_t d = 0; d < depth; ++d)
              for (int64_t row = 0; row < 2 * slabs; ++row) {
                Value &sum = sums[row / 2].at(group, row % 2, i);
                sum = multiplyAdd(e, rows[row][d], column[d], sum);
              }
          }
        return flatten(sums);
      });
  assign(sums, all);
  return sums;
}

/// The left sides of the warp's rows; returns the address of the thread's
/// first row.
static Value shareLeft(Thread &thread, ArrayRef<Registers> left) {
  GpuEmitter &e = thread.e;
  const WarpKernel &kernel = thread.kernel;
  const MmaTiles::Tile &tile = kernel.exchange;
  bool isWide = kernel.accumulatorType.isF64();
  int64_t bytes = isWide ? 8 : 4;
  Value first =
      e.add(e.mul(thread.warp, kernel.slabs * MmaTiles::kRows), thread.row());
  Value line =
      e.add(e.add(thread.shared, kernel.exchangeAt), e.mul(first, tile.pitch));
  Value target = e.add(line, e.mul(thread.column(), bytes));
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  for (auto [slab, values] : llvm::enumerate(left)) {
    Fragment fragment{values};
    for (int64_t group = 0; group < fragment.groups(); ++group)
      for (int64_t half : {0, 1}) {
        int64_t row = slab * MmaTiles::kRows + 8 * half;
        std::string text = llvm::formatv(
            "st.shared.v2.{0} [$0+{1}], {{$1, $2};", isWide ? "f64" : "f32",
            row * tile.pitch + 8 * group * bytes);
        e.ptx(
            text, isWide ? "r,d,d,~{memory}" : "r,f,f,~{memory}",
            {target, fragment.at(group, half, 0), fragment.at(group, half, 1)});
      }
  }
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  return line;
}

void lanes::multiplyColumns(Thread &thread, ArrayRef<Registers> left,
                            MutableArrayRef<Fragment> acc, SharedTile right) {
  GpuEmitter &e = thread.e;
  const WarpKernel &kernel = thread.kernel;
  int64_t groups = acc.front().groups(), slabs = kernel.slabs;
  FloatType type = kernel.accumulatorType;
  Value line = shareLeft(thread, left);
  Value first = e.add(e.mul(thread.part, 8 * groups), thread.column());
  Value other = e.add(right.address, e.mul(first, kernel.elementBytes()));
  int64_t depth = kVectorBytes * 8 / type.getWidth();
  SmallVector<Value> sums = e.loop(
      e.i32(0), e.i32(right.tile.rows / depth), e.i32(1), flatten(acc),
      [&](Value step, ValueRange carried) {
        SmallVector<Fragment> inner(acc);
        assign(inner, carried);
        Value lineStep = e.add(line, e.mul(step, kVectorBytes));
        Value otherStep = e.add(other, e.mul(step, depth * right.tile.pitch));
        SmallVector<SmallVector<Value>> rows;
        for (int64_t row = 0; row < 2 * slabs; ++row)
          rows.push_back(
              load(e, lineStep, row * 8 * kernel.exchange.pitch, depth, type));
        for (int64_t d = 0; d < depth; ++d)
          for (int64_t group = 0; group < groups; ++group) {
            SmallVector<Value> pair =
                load(e, otherStep,
                     d * right.tile.pitch + 8 * group * kernel.elementBytes(),
                     2, type);
            for (int64_t row = 0; row < 2 * slabs; ++row)
              for (int64_t i : {0, 1}) {
                Value &sum = inner[row / 2].at(group, row % 2, i);
                sum = multiplyAdd(e, rows[row][d], pair[i], sum);
              }
          }
        return flatten(inner);
      });
  assign(acc, sums);
}
