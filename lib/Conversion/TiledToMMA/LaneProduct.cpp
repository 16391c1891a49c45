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

SmallVector<Fragment> lanes::multiplyQueryKey(Thread &thread, Value key) {
  GpuEmitter &e = thread.e;
  const MmaKernel &kernel = thread.kernel;
  const MmaTiles &tiles = kernel.tiles;
  FloatType type = kernel.form.elementType;
  Fragment zero;
  zero.elements.assign(kernel.form.blockKey / 2, e.zero(type));
  SmallVector<Fragment> scores(tiles.slabs, zero);
  Value query =
      e.add(e.add(thread.shared, kernel.queryAt),
            e.mul(e.add(thread.warpRow, thread.row()), tiles.query.pitch));
  key = e.add(key, e.mul(thread.column(), tiles.key.pitch));
  int64_t depth = kVectorBytes / kernel.elementBytes();
  SmallVector<Value> sums = e.loop(
      e.i32(0), e.i32(tiles.key.columns / depth), e.i32(1), flatten(scores),
      [&](Value step, ValueRange carried) {
        assign(scores, carried);
        Value shift = e.mul(step, kVectorBytes);
        Value queryStep = e.add(query, shift), keyStep = e.add(key, shift);
        SmallVector<SmallVector<Value>> rows;
        for (int64_t row = 0; row < 2 * tiles.slabs; ++row)
          rows.push_back(
              load(e, queryStep, row * 8 * tiles.query.pitch, depth, type));
        for (int64_t group = 0; group < zero.groups(); ++group)
          for (int64_t i : {0, 1}) {
            SmallVector<Value> column = load(
                e, keyStep, (8 * group + i) * tiles.key.pitch, depth, type);
            for (int64_t d = 0; d < depth; ++d)
              for (int64_t row = 0; row < 2 * tiles.slabs; ++row) {
                Value &sum = scores[row / 2].at(group, row % 2, i);
                sum = multiplyAdd(e, rows[row][d], column[d], sum);
              }
          }
        return flatten(scores);
      });
  assign(scores, sums);
  return scores;
}

/// The probabilities of the warp's rows; returns the address of the thread's
/// first row.
static Value shareProbabilities(Thread &thread,
                                ArrayRef<Registers> probabilities) {
  GpuEmitter &e = thread.e;
  const MmaKernel &kernel = thread.kernel;
  const MmaTiles::Tile &tile = kernel.tiles.probabilities;
  bool isWide = kernel.form.accumulatorType.isF64();
  int64_t bytes = isWide ? 8 : 4;
  Value first = e.add(e.mul(thread.warp, kernel.tiles.slabs * MmaTiles::kRows),
                      thread.row());
  Value line = e.add(e.add(thread.shared, kernel.probabilitiesAt),
                     e.mul(first, tile.pitch));
  Value target = e.add(line, e.mul(thread.column(), bytes));
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  for (auto [slab, values] : llvm::enumerate(probabilities)) {
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

void lanes::multiplyProbabilitiesValue(Thread &thread,
                                       ArrayRef<Registers> probabilities,
                                       MutableArrayRef<Fragment> acc,
                                       Value value) {
  GpuEmitter &e = thread.e;
  const MmaKernel &kernel = thread.kernel;
  const MmaTiles &tiles = kernel.tiles;
  FloatType type = kernel.form.accumulatorType;
  Value line = shareProbabilities(thread, probabilities);
  Value first =
      e.add(e.mul(thread.part, tiles.accumulatorColumns), thread.column());
  value = e.add(value, e.mul(first, kernel.elementBytes()));
  int64_t depth = kVectorBytes * 8 / type.getWidth();
  SmallVector<Value> sums = e.loop(
      e.i32(0), e.i32(kernel.form.blockKey / depth), e.i32(1), flatten(acc),
      [&](Value step, ValueRange carried) {
        SmallVector<Fragment> inner(acc);
        assign(inner, carried);
        Value lineStep = e.add(line, e.mul(step, kVectorBytes));
        Value valueStep = e.add(value, e.mul(step, depth * tiles.value.pitch));
        SmallVector<SmallVector<Value>> rows;
        for (int64_t row = 0; row < 2 * tiles.slabs; ++row)
          rows.push_back(load(e, lineStep, row * 8 * tiles.probabilities.pitch,
                              depth, type));
        for (int64_t d = 0; d < depth; ++d)
          for (int64_t group = 0; group < tiles.accumulatorColumns / 8;
               ++group) {
            SmallVector<Value> pair =
                load(e, valueStep,
                     d * tiles.value.pitch + 8 * group * kernel.elementBytes(),
                     2, type);
            for (int64_t row = 0; row < 2 * tiles.slabs; ++row)
              for (int64_t i : {0, 1}) {
                Value &sum = inner[row / 2].at(group, row % 2, i);
                sum = multiplyAdd(e, rows[row][d], pair[i], sum);
              }
          }
        return flatten(inner);
      });
  assign(acc, sums);
}
