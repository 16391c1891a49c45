//===- MmaProduct.cpp - Tile products of a warp by mma.sync ---------------===//
//
// mma.m16n8k16 with factors of 16 bits. ldmatrix gives each lane of four groups
// of eight the address of one row of an 8 x 8 matrix; four matrices are a left
// side of 16 x 16, or a right side of 16 columns. Rows of keys are columns of
// the right side; rows of values are its rows, and are transposed on the way.
//
// In the text of an address the row and column of a matrix within its tile are
// constants: a register holds the lane's part.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static constexpr int64_t kStep = 16, kStepBytes = 32;

static Registers loadMatrices(GpuEmitter &e, Value address, int64_t offset,
                              bool isTransposed) {
  Type word = e.b.getI32Type();
  std::string text =
      llvm::formatv("ldmatrix.sync.aligned.m8n8.x4{0}.shared.b16 "
                    "{{$0, $1, $2, $3}, [$4+{1}];",
                    isTransposed ? ".trans" : "", offset);
  return e.ptx(text, "=r,=r,=r,=r,r,~{memory}", {word, word, word, word},
               {address});
}

/// acc[group] += left * right, of 8 columns.
static void multiplyAdd(GpuEmitter &e, Fragment &acc, int64_t group,
                        ArrayRef<Value> left, ArrayRef<Value> right,
                        FloatType type) {
  const char *name = type.isBF16() ? "bf16" : "f16";
  std::string text =
      llvm::formatv("mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 "
                    "{{$0, $1, $2, $3}, {{$4, $5, $6, $7}, {{$8, $9}, "
                    "{{$10, $11, $12, $13};",
                    name);
  SmallVector<Value> operands(left);
  llvm::append_range(operands, right);
  MutableArrayRef<Value> cells =
      MutableArrayRef(acc.elements).slice(4 * group, 4);
  llvm::append_range(operands, cells);
  Type f32 = e.b.getF32Type();
  SmallVector<Value> sums = e.ptx(text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
                                  {f32, f32, f32, f32}, operands);
  llvm::copy(sums, cells.begin());
}

/// Where lane 8 m + r finds row r of matrix m, of which two lie below each
/// other and two beside: `isBelowFirst` counts downwards first.
static Value laneAddress(Thread &thread, Value address, int64_t pitch,
                         bool isBelowFirst) {
  GpuEmitter &e = thread.e;
  Value lane = e.bitAnd(thread.readId(), 31);
  Value matrix = e.div(lane, 8), row = e.bitAnd(lane, 7);
  Value first = e.bitAnd(matrix, 1), second = e.div(matrix, 2);
  Value below = isBelowFirst ? first : second;
  Value beside = isBelowFirst ? second : first;
  row = e.add(row, e.mul(below, 8));
  return e.add(e.add(address, e.mul(row, pitch)), e.mul(beside, 16));
}

SmallVector<Fragment> tensorcore::multiplyQueryKey(Thread &thread, Value key) {
  GpuEmitter &e = thread.e;
  const MmaKernel &kernel = thread.kernel;
  const MmaTiles &tiles = kernel.tiles;
  FloatType type = kernel.form.elementType;
  Fragment zero;
  zero.elements.assign(kernel.form.blockKey / 2, e.f32(0));
  SmallVector<Fragment> scores(tiles.slabs, zero);
  Value warp = e.div(thread.readId(), MmaTiles::kLanes);
  Value firstRow =
      e.mul(e.div(warp, tiles.split), tiles.slabs * MmaTiles::kRows);
  Value query = e.add(e.add(thread.shared, kernel.queryAt),
                      e.mul(firstRow, tiles.query.pitch));
  query = laneAddress(thread, query, tiles.query.pitch, /*isBelowFirst=*/true);
  key = laneAddress(thread, key, tiles.key.pitch, /*isBelowFirst=*/false);
  for (int64_t step = 0; step < tiles.key.columns / kStep; ++step) {
    SmallVector<Registers> left;
    for (int64_t slab = 0; slab < tiles.slabs; ++slab)
      left.push_back(loadMatrices(
          e, query, slab * kStep * tiles.query.pitch + step * kStepBytes,
          /*isTransposed=*/false));
    for (int64_t keys = 0; keys < kernel.form.blockKey / kStep; ++keys) {
      Registers right = loadMatrices(
          e, key, keys * kStep * tiles.key.pitch + step * kStepBytes,
          /*isTransposed=*/false);
      for (int64_t slab = 0; slab < tiles.slabs; ++slab)
        for (int64_t half : {0, 1})
          multiplyAdd(e, scores[slab], 2 * keys + half, left[slab],
                      ArrayRef(right).slice(2 * half, 2), type);
    }
  }
  return scores;
}

void tensorcore::multiplyProbabilitiesValue(Thread &thread,
                                            ArrayRef<Registers> probabilities,
                                            MutableArrayRef<Fragment> acc,
                                            Value value) {
  GpuEmitter &e = thread.e;
  const MmaKernel &kernel = thread.kernel;
  const MmaTiles &tiles = kernel.tiles;
  FloatType type = kernel.form.elementType;
  value = e.add(value, e.mul(thread.part, tiles.accumulatorColumns * 2));
  value = laneAddress(thread, value, tiles.value.pitch, /*isBelowFirst=*/true);
  for (int64_t keys = 0; keys < kernel.form.blockKey / kStep; ++keys)
    for (int64_t step = 0; step < tiles.accumulatorColumns / kStep; ++step) {
      Registers right = loadMatrices(
          e, value, keys * kStep * tiles.value.pitch + step * kStepBytes,
          /*isTransposed=*/true);
      for (int64_t slab = 0; slab < tiles.slabs; ++slab)
        for (int64_t half : {0, 1})
          multiplyAdd(e, acc[slab], 2 * step + half,
                      ArrayRef(probabilities[slab]).slice(4 * keys, 4),
                      ArrayRef(right).slice(2 * half, 2), type);
    }
}
