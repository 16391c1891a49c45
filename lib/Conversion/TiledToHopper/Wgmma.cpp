//===- Wgmma.cpp - Tile products of a warpgroup ---------------------------===//

#include "Wgmma.h"
#include "HopperKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

/// High word of both descriptors: the stride of 8 rows in units of 16 bytes,
/// and 1 for the 128-byte swizzle in the two highest bits.
static constexpr uint32_t kDescriptorHigh = (1u << 30) | (1024 >> 4);

Value hopper::descriptor(GpuEmitter &e, Value address) {
  return arith::ShRUIOp::create(e.b, e.loc, address, e.i32(4));
}

/// "{$first, $first+1, ...}"
static std::string operandList(int64_t first, int64_t count) {
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

static std::string repeat(StringRef constraint, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (text.empty() ? "" : ",") + constraint.str();
  return text;
}

static std::string tied(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += "," + std::to_string(i);
  return text;
}

static std::string mnemonic(int64_t columns, FloatType type) {
  std::string name = type.isBF16() ? ".bf16" : ".f16";
  return "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) +
         "k16.f32" + name + name + " ";
}

/// A line that sets the descriptor `name` to `operand` + `offset` bytes.
static std::string setDescriptor(StringRef name, int64_t operand,
                                 int64_t offset, uint32_t leading) {
  return ("add.u32 t, $" + Twine(operand) + ", " +
          Twine(offset / 16 + (int64_t(leading) << 16)) + ";\n\tmov.b64 " +
          name + ", {t, h};\n\t")
      .str();
}

/// Both sides from shared memory. The offsets of A and B at a depth are theirs
/// to say; `transposes` are the last two immediates.
static Fragment multiplyShared(GpuEmitter &e, Value aTile, Value bTile,
                               int64_t columns, int64_t depth,
                               function_ref<int64_t(int64_t)> offsetOfA,
                               function_ref<int64_t(int64_t)> offsetOfB,
                               StringRef transposes, FloatType type) {
  int64_t count = columns / 2;
  std::string text = "{\n\t.reg .b64 a, b;\n\t.reg .b32 t, h;\n\t"
                     ".reg .pred p;\n\tmov.b32 h, " +
                     std::to_string(kDescriptorHigh) + ";\n\t";
  for (int64_t k = 0; k < depth; k += kDepth) {
    text += setDescriptor("a", count, offsetOfA(k), 1);
    text += setDescriptor("b", count + 1, offsetOfB(k), 1);
    // The first product overwrites.
    if (k <= kDepth)
      text += k == 0 ? "setp.ne.b32 p, h, h;\n\t" : "setp.eq.b32 p, h, h;\n\t";
    text += mnemonic(columns, type) + operandList(0, count) +
            ", a, b, p, 1, 1, " + transposes.str() + ";\n\t";
  }
  SmallVector<Type> results(count, e.b.getF32Type());
  return {e.ptx(text + "}", repeat("=f", count) + ",r,r,~{memory}", results,
                {aTile, bTile})};
}

/// Where depth `k` of a tile of `rows` rows begins, the depth within its rows.
static int64_t offsetInRows(int64_t k, int64_t rows) {
  return k / kChunk * rows * kChunkRowBytes + 2 * (k % kChunk);
}

Fragment hopper::multiplyQueryKey(GpuEmitter &e, Value query, Value key,
                                  int64_t columns, int64_t depth,
                                  int64_t rowsOfQuery, FloatType type) {
  return multiplyShared(
      e, query, key, columns, depth,
      [&](int64_t k) { return offsetInRows(k, rowsOfQuery); },
      [&](int64_t k) { return offsetInRows(k, columns); }, "0, 0", type);
}

Fragment hopper::multiplyTransposed(GpuEmitter &e, Value a, Value b,
                                    int64_t columns, int64_t depth,
                                    int64_t rowsOfB, FloatType type) {
  return multiplyShared(
      e, a, b, columns, depth, [](int64_t k) { return k * kChunkRowBytes; },
      [&](int64_t k) { return offsetInRows(k, rowsOfB); }, "1, 0", type);
}

Fragment hopper::multiplyProbabilitiesValue(GpuEmitter &e, Fragment acc,
                                            const Registers &probabilities,
                                            Value value, int64_t columns,
                                            int64_t depth, FloatType type) {
  int64_t count = columns / 2, used = probabilities.size();
  std::string text = "{\n\t.reg .b64 b;\n\t.reg .b32 t, h;\n\t.reg .pred p;\n\t"
                     "mov.b32 h, " +
                     std::to_string(kDescriptorHigh) +
                     ";\n\tsetp.eq.b32 p, h, h;\n\t";
  uint32_t leading = depth * kChunkRowBytes / 16;
  int64_t first = 2 * count; // operands behind the tied accumulator
  for (int64_t k = 0; k < depth; k += kDepth) {
    text += setDescriptor("b", first + used, k * kChunkRowBytes, leading);
    text += mnemonic(columns, type) + operandList(0, count) + ", " +
            operandList(first + k / 4, 4) + ", b, p, 1, 1, 1;\n\t";
  }
  SmallVector<Value> operands(acc.elements);
  llvm::append_range(operands, probabilities);
  operands.push_back(value);
  SmallVector<Type> results(count, e.b.getF32Type());
  return {e.ptx(text + "}",
                repeat("=f", count) + tied(count) + "," + repeat("r", used) +
                    ",r,~{memory}",
                results, operands)};
}

void hopper::fence(GpuEmitter &e) {
  NVVM::WgmmaFenceAlignedOp::create(e.b, e.loc);
}

void hopper::commit(GpuEmitter &e) {
  NVVM::WgmmaGroupSyncAlignedOp::create(e.b, e.loc);
}

void hopper::wait(GpuEmitter &e, int64_t pending,
                  ArrayRef<Fragment *> fragments) {
  SmallVector<Value> all;
  for (Fragment *fragment : fragments)
    llvm::append_range(all, fragment->elements);
  SmallVector<Type> results(all.size(), e.b.getF32Type());
  std::string text =
      "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";";
  SmallVector<Value> after =
      e.ptx(text, repeat("=f", all.size()) + tied(all.size()) + ",~{memory}",
            results, all);
  size_t next = 0;
  for (Fragment *fragment : fragments)
    for (Value &element : fragment->elements)
      element = after[next++];
}
