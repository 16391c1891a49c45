//===- Wgmma.cpp - Tile products of a warpgroup ---------------------------===//

#include "Wgmma.h"
#include "Consumer.h"
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

void hopper::storeOnes(GpuEmitter &e, Value address, Value thread) {
  Value own = e.add(address, e.mul(thread, 16));
  Value pair = e.i32(0x3f803f80); // bf16
  e.branch(e.less(thread, e.i32(kOnesBytes / 16)), [&]() {
    e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", "r,r,~{memory}",
          {own, pair});
    fenceAsyncProxy(e);
  });
}

/// The chunk that ones follow is a product of its own: its leading offset leads
/// from each 16 keys of it to the ones. (Eight columns by themselves cost more:
/// 3 to 10 % at 128 columns on an H200.)
Fragment hopper::multiplyProbabilitiesValue(GpuEmitter &e, Fragment acc,
                                            const Registers &probabilities,
                                            Value value, int64_t columns,
                                            int64_t depth, FloatType type,
                                            Value ones) {
  int64_t count = acc.elements.size(), used = probabilities.size();
  std::string text = "{\n\t.reg .b64 b;\n\t.reg .b32 t, h;\n\t.reg .pred p;\n\t"
                     "mov.b32 h, " +
                     std::to_string(kDescriptorHigh) +
                     ";\n\tsetp.eq.b32 p, h, h;\n\t";
  uint32_t leading = depth * kChunkRowBytes / 16;
  int64_t first = 2 * count; // operands behind the tied accumulator
  int64_t plain = ones ? columns - kChunk : columns;
  for (int64_t k = 0; k < depth; k += kDepth) {
    auto multiply = [&](int64_t column, int64_t width) {
      text += mnemonic(width, type) + operandList(column / 2, width / 2) +
              ", " + operandList(first + k / 4, 4) + ", b, p, 1, 1, 1;\n\t";
    };
    if (plain > 0) {
      text += setDescriptor("b", first + used, k * kChunkRowBytes, leading);
      multiply(0, plain);
    }
    if (ones) {
      // (address, ones - address) in the two halves, address being that of the
      // keys: address + (ones - address) * 2^16.
      int64_t at = (plain / kChunk * depth + k) * kChunkRowBytes / 16;
      text += "add.u32 t, $" + std::to_string(first + used + 1) + ", " +
              std::to_string(static_cast<int32_t>(at * (1 - (1 << 16)))) +
              ";\n\tmov.b64 b, {t, h};\n\t";
      multiply(plain, kChunk + 8);
    }
  }
  SmallVector<Value> operands(acc.elements);
  llvm::append_range(operands, probabilities);
  operands.push_back(value);
  if (ones)
    operands.push_back(
        e.add(e.mul(value, 1 - (1 << 16)), e.mul(ones, 1 << 16)));
  SmallVector<Type> results(count, e.b.getF32Type());
  return {e.ptx(text + "}",
                repeat("=f", count) + tied(count) + "," +
                    repeat("r", used + (ones ? 2 : 1)) + ",~{memory}",
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
