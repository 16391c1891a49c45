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

SmallVector<Fragment> tensorcore::multiplyRows(Thread &thread, SharedTile left,
                                               SharedTile right) {
  GpuEmitter &e = thread.e;
  const WarpKernel &kernel = thread.kernel;
  int64_t columns = right.tile.rows, slabs = kernel.slabs;
  Fragment zero;
  zero.elements.assign(columns / 2, e.f32(0));
  SmallVector<Fragment> sums(slabs, zero);
  Value warp = e.div(thread.readId(), MmaTiles::kLanes);
  Value firstRow = e.mul(e.div(warp, kernel.split), slabs * MmaTiles::kRows);
  Value rows = e.add(left.address, e.mul(firstRow, left.tile.pitch));
  rows = laneAddress(thread, rows, left.tile.pitch, /*isBelowFirst=*/true);
  Value others = laneAddress(thread, right.address, right.tile.pitch,
                             /*isBelowFirst=*/false);
  for (int64_t step = 0; step < right.tile.columns / kStep; ++step) {
    SmallVector<Registers> factors;
    for (int64_t slab = 0; slab < slabs; ++slab)
      factors.push_back(loadMatrices(
          e, rows, slab * kStep * left.tile.pitch + step * kStepBytes,
          /*isTransposed=*/false));
    for (int64_t column = 0; column < columns / kStep; ++column) {
      Registers other = loadMatrices(
          e, others, column * kStep * right.tile.pitch + step * kStepBytes,
          /*isTransposed=*/false);
      for (int64_t slab = 0; slab < slabs; ++slab)
        for (int64_t half : {0, 1})
          multiplyAdd(e, sums[slab], 2 * column + half, factors[slab],
                      ArrayRef(other).slice(2 * half, 2), kernel.elementType);
    }
  }
  return sums;
}

void tensorcore::multiplyColumns(Thread &thread, ArrayRef<Registers> left,
                                 MutableArrayRef<Fragment> acc,
                                 SharedTile right) {
  GpuEmitter &e = thread.e;
  const WarpKernel &kernel = thread.kernel;
  int64_t columns = 8 * acc.front().groups();
  Value rows = e.add(right.address, e.mul(thread.part, columns * 2));
  rows = laneAddress(thread, rows, right.tile.pitch, /*isBelowFirst=*/true);
  for (int64_t row = 0; row < right.tile.rows / kStep; ++row)
    for (int64_t step = 0; step < columns / kStep; ++step) {
      Registers other = loadMatrices(
          e, rows, row * kStep * right.tile.pitch + step * kStepBytes,
          /*isTransposed=*/true);
      for (int64_t slab = 0; slab < kernel.slabs; ++slab)
        for (int64_t half : {0, 1})
          multiplyAdd(e, acc[slab], 2 * step + half,
                      ArrayRef(left[slab]).slice(4 * row, 4),
                      ArrayRef(other).slice(2 * half, 2), kernel.elementType);
    }
}
