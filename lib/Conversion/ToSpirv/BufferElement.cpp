//===- BufferElement.cpp - An element of a storage buffer -----------------===//

#include "BufferElement.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SPIRV/IR/TargetAndABI.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace attn;

/// Of OpenCL, where arrays have a length: no buffer holds more words.
static constexpr int64_t kMostWords = int64_t(1) << 29;

static Type arrayOf(Type word, int64_t words, bool isKernel) {
  Type element = words == 1 ? word : VectorType::get(words, word);
  if (isKernel)
    return spirv::ArrayType::get(element, kMostWords / words);
  constexpr unsigned kBytes = 4;
  return spirv::RuntimeArrayType::get(element, kBytes * words);
}

static Type wordOf(Type element) {
  return element.isF32() ? element
                         : Type(IntegerType::get(element.getContext(), 32));
}

Type BufferElement::arrayType(Type element, bool isKernel) {
  return arrayOf(wordOf(element), 1, isKernel);
}

Type BufferElement::quadArrayType(Type element, bool isKernel) {
  return arrayOf(wordOf(element), element.getIntOrFloatBitWidth() / 8,
                 isKernel);
}

bool attn::isOpenCL(OpBuilder &b) {
  Operation *around = b.getInsertionBlock()->getParentOp();
  spirv::TargetEnvAttr environment = spirv::lookupTargetEnv(around);
  return environment && environment.getClientAPI() == spirv::ClientAPI::OpenCL;
}

int64_t attn::knownFactor(Value index) {
  constexpr int64_t kMost = 16;
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return constant.isZero()
               ? kMost
               : std::min<int64_t>(kMost, int64_t(1) << constant.countr_zero());
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument == loop.getInductionVar())
      return std::min(knownFactor(loop.getLowerBound()),
                      knownFactor(loop.getStep()));
    return 1;
  }
  Operation *op = index.getDefiningOp();
  auto of = [&](unsigned i) { return knownFactor(op->getOperand(i)); };
  if (isa<arith::MulIOp>(op))
    return std::min(kMost, of(0) * of(1));
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op))
    return std::min(of(0), of(1));
  if (isa<arith::SelectOp>(op))
    return std::min(of(1), of(2));
  return isa<arith::IndexCastOp>(op) ? of(0) : 1;
}

Value BufferElement::i32(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, 32);
}

Value BufferElement::cast(Value value, Type to) {
  return UnrealizedConversionCastOp::create(b, loc, to, value).getResult(0);
}

/// The number of the only member of a buffer.
Value BufferElement::member() {
  return spirv::ConstantOp::getZero(b.getI32Type(), loc, b);
}

Value BufferElement::word(Value index) {
  return spirv::AccessChainOp::create(b, loc, variable,
                                      ValueRange{member(), index});
}

Value BufferElement::loadWord(Value index) {
  return spirv::LoadOp::create(b, loc, word(index));
}

/// Of a part of a word, `index / parts` is the word's number; returns how far
/// the part lies up in it.
static std::pair<Value, Value> placePart(OpBuilder &b, Location loc,
                                         Value index, int64_t parts) {
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  Value number =
      arith::ShRUIOp::create(b, loc, index, i32(llvm::Log2_64(parts)));
  Value part = arith::AndIOp::create(b, loc, index, i32(parts - 1));
  return {number, arith::MulIOp::create(b, loc, part, i32(32 / parts))};
}

Value BufferElement::loadPart(Value index, int64_t parts) {
  auto [number, shift] = placePart(b, loc, index, parts);
  return arith::ShRUIOp::create(b, loc, loadWord(number), shift);
}

Value BufferElement::loadWide(Value index) {
  Value first = arith::MulIOp::create(b, loc, index, i32(2));
  Value second = arith::AddIOp::create(b, loc, first, i32(1));
  Value low = loadWord(first), high = loadWord(second);
  if (type.isF64() && !hasDouble)
    return cast(narrowDouble(b, loc, low, high), type);
  Type pair = VectorType::get(2, b.getI32Type());
  Value both =
      spirv::CompositeConstructOp::create(b, loc, pair, ValueRange{low, high});
  return type.isF64() || hasLong
             ? spirv::BitcastOp::create(b, loc, type, both).getResult()
             : cast(both, type);
}

Value BufferElement::load(Value index) {
  Value at = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  if (type.isF32() || type.isInteger(32))
    return loadWord(at);
  if (type.isF16() || type.isBF16())
    return cast(widenHalf(b, loc, loadPart(at, 2), mlir::cast<FloatType>(type)),
                type);
  if (type.getIntOrFloatBitWidth() == 64)
    return loadWide(at);
  Value byte = arith::AndIOp::create(b, loc, loadPart(at, 4), i32(255));
  if (type.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, byte,
                                 i32(0));
  return arith::TruncIOp::create(b, loc, type, byte);
}

Value BufferElement::unpackQuad(Value low, Value high) {
  auto half = mlir::cast<FloatType>(type);
  SmallVector<Value> elements;
  for (Value word : {low, high}) {
    elements.push_back(widenHalf(b, loc, word, half));
    Value upper = arith::ShRUIOp::create(b, loc, word, i32(16));
    elements.push_back(widenHalf(b, loc, upper, half));
  }
  auto wide = VectorType::get(elements.size(), b.getF32Type());
  Value quad = vector::FromElementsOp::create(b, loc, wide, elements);
  return cast(quad, wide.clone(type));
}

/// From an odd element on, a quad lies in three words. The third one is read
/// in any case, and is the second where there is no other.
Value BufferElement::loadQuad(Value index) {
  if (!type.isF16() && !type.isBF16())
    return {};
  Value at = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  auto plus = [&](Value x, int64_t y) -> Value {
    return arith::AddIOp::create(b, loc, x, i32(y));
  };
  Value number = arith::ShRUIOp::create(b, loc, at, i32(1));
  Value low = loadWord(number), middle = loadWord(plus(number, 1));
  if (knownFactor(index) >= 2)
    return unpackQuad(low, middle);
  Value last = arith::ShRUIOp::create(b, loc, plus(at, 3), i32(1));
  Value high = loadWord(last);
  Value isOdd = arith::TruncIOp::create(b, loc, b.getI1Type(), at);
  auto join = [&](Value lower, Value upper) -> Value {
    Value crossed = arith::OrIOp::create(
        b, loc, arith::ShRUIOp::create(b, loc, lower, i32(16)),
        arith::ShLIOp::create(b, loc, upper, i32(16)));
    return arith::SelectOp::create(b, loc, isOdd, crossed, lower);
  };
  return unpackQuad(join(low, middle), join(middle, high));
}

Value BufferElement::loadWholeQuad(Value quads, Value index) {
  Value at = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value number = arith::ShRUIOp::create(b, loc, at, i32(2));
  Value pointer =
      spirv::AccessChainOp::create(b, loc, quads, ValueRange{member(), number});
  Value loaded = spirv::LoadOp::create(b, loc, pointer);
  if (type.isF32())
    return loaded;
  auto word = [&](int32_t i) -> Value {
    return spirv::CompositeExtractOp::create(b, loc, loaded, i);
  };
  return unpackQuad(word(0), word(1));
}

/// The other half may be another thread's.
void BufferElement::storeHalf(Value bits, Value index) {
  auto [number, shift] = placePart(b, loc, index, 2);
  Value pointer = word(number);
  Value kept = arith::XOrIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, i32(0xffff), shift), i32(-1));
  Value placed = arith::ShLIOp::create(b, loc, bits, shift);
  Type word = b.getI32Type();
  auto scope = spirv::Scope::Device;
  auto semantics = spirv::MemorySemantics::None;
  spirv::AtomicAndOp::create(b, loc, word, pointer, scope, semantics, kept);
  spirv::AtomicOrOp::create(b, loc, word, pointer, scope, semantics, placed);
}

/// What is rounded here needs no rounding before.
Value BufferElement::halfBits(Value value) {
  auto truncated = value.getDefiningOp<arith::TruncFOp>();
  Value wide = truncated && truncated.getIn().getType().isF32()
                   ? truncated.getIn()
                   : cast(value, b.getF32Type());
  return roundToHalf(b, loc, wide, mlir::cast<FloatType>(type));
}

LogicalResult BufferElement::store(Operation *op, Value value, Value index) {
  Value at = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  if (type.isF32() || type.isInteger(32)) {
    spirv::StoreOp::create(b, loc, word(at), value);
    return success();
  }
  if (type.isF16() || type.isBF16()) {
    storeHalf(halfBits(value), at);
    return success();
  }
  if (type.isF64()) {
    Type pair = VectorType::get(2, b.getI32Type());
    Value both = spirv::BitcastOp::create(b, loc, pair, value);
    Value first = arith::MulIOp::create(b, loc, at, i32(2));
    for (int32_t i : {0, 1}) {
      Value half = spirv::CompositeExtractOp::create(b, loc, both, i);
      spirv::StoreOp::create(
          b, loc, word(arith::AddIOp::create(b, loc, first, i32(i))), half);
    }
    return success();
  }
  return op->emitOpError("cannot store ")
         << type << " on a Vulkan device; expected f16, bf16, f32, f64 or i32";
}

/// Pairs that fill a word go there at once.
LogicalResult BufferElement::storeAll(Operation *op, ValueRange values,
                                      Value index) {
  auto at = [&](int64_t i) -> Value {
    Value shift = arith::ConstantIndexOp::create(b, loc, i);
    return arith::AddIOp::create(b, loc, index, shift);
  };
  auto storeSingly = [&]() {
    for (auto [i, value] : llvm::enumerate(values))
      if (failed(store(op, value, at(i))))
        return failure();
    return success();
  };
  if ((!type.isF16() && !type.isBF16()) || values.size() % 2 != 0)
    return storeSingly();
  auto storePairs = [&]() {
    Value first = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
    Value number = arith::ShRUIOp::create(b, loc, first, i32(1));
    for (size_t i = 0; i < values.size(); i += 2) {
      Value upper =
          arith::ShLIOp::create(b, loc, halfBits(values[i + 1]), i32(16));
      Value both = arith::OrIOp::create(b, loc, halfBits(values[i]), upper);
      Value target = arith::AddIOp::create(b, loc, number, i32(i / 2));
      spirv::StoreOp::create(b, loc, word(target), both);
    }
  };
  if (knownFactor(index) >= 2) {
    storePairs();
    return success();
  }
  Value first = arith::IndexCastOp::create(b, loc, b.getI32Type(), index);
  Value isOdd = arith::TruncIOp::create(b, loc, b.getI1Type(), first);
  auto branch = scf::IfOp::create(b, loc, isOdd, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  LogicalResult stored = storeSingly();
  b.setInsertionPointToStart(branch.elseBlock());
  storePairs();
  return stored;
}

namespace {
/// Integer arithmetic on the bits of a float.
struct Bits {
  OpBuilder &b;
  Location loc;

  Value i32(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value all(Value x, int64_t mask) {
    return arith::AndIOp::create(b, loc, x, i32(mask));
  }
  Value any(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value right(Value x, Value shift) {
    return arith::ShRUIOp::create(b, loc, x, shift);
  }
  Value above(Value x, int64_t bound) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, x,
                                 i32(bound));
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// x / 2^shift to the nearest, to the even one of two.
  Value roundRight(Value x, Value shift) {
    Value odd = all(right(x, shift), 1);
    Value one = arith::ShLIOp::create(b, loc, i32(1), shift);
    Value belowHalf = sub(right(one, i32(1)), i32(1));
    return right(add(x, add(belowHalf, odd)), shift);
  }
};
} // namespace

/// An exponent of 5 bits becomes one of 8; below the normal numbers the
/// mantissa counts units of 2^-24.
static Value widenByIntegers(OpBuilder &b, Location loc, Value half) {
  Bits e{b, loc};
  auto left = [&](Value x, int64_t by) -> Value {
    return arith::ShLIOp::create(b, loc, x, e.i32(by));
  };
  Value sign = left(e.all(half, 0x8000), 16);
  Value magnitude = e.all(half, 0x7fff);
  Value normal = e.add(left(magnitude, 13), e.i32((127 - 15) << 23));
  // The exponent of infinities and NaNs has all bits set.
  normal = e.select(e.above(magnitude, 0x7bff),
                    e.any(normal, e.i32(0x7f800000)), normal);
  Value units = arith::UIToFPOp::create(b, loc, b.getF32Type(), magnitude);
  Value unit =
      arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f / (1 << 24)));
  Value small = arith::BitcastOp::create(
      b, loc, b.getI32Type(), arith::MulFOp::create(b, loc, units, unit));
  Value bits = e.select(e.above(magnitude, 0x3ff), normal, small);
  return arith::BitcastOp::create(b, loc, b.getF32Type(), e.any(sign, bits));
}

Value attn::widenHalf(OpBuilder &b, Location loc, Value bits, FloatType type) {
  if (type.isF16() && isOpenCL(b))
    return widenByIntegers(b, loc, bits);
  if (type.isF16()) {
    Type pair = VectorType::get(2, b.getF32Type());
    Value both = spirv::GLUnpackHalf2x16Op::create(b, loc, pair, bits);
    return spirv::CompositeExtractOp::create(b, loc, both, 0);
  }
  Value sixteen = arith::ConstantIntOp::create(b, loc, 16, 32);
  return arith::BitcastOp::create(b, loc, b.getF32Type(),
                                  arith::ShLIOp::create(b, loc, bits, sixteen));
}

/// Not GLSL's PackHalf2x16, which may round to either side.
Value attn::roundToHalf(OpBuilder &b, Location loc, Value value,
                        FloatType type) {
  Bits e{b, loc};
  constexpr int64_t kInfinity = 0x7f800000;
  Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), value);
  Value magnitude = e.all(bits, 0x7fffffff);
  Value sign = e.right(e.sub(bits, magnitude), e.i32(16));
  Value isNan = e.above(magnitude, kInfinity);
  if (type.isBF16()) {
    Value rounded = e.roundRight(magnitude, e.i32(16));
    return e.any(sign, e.select(isNan, e.i32(0x7fc0), rounded));
  }
  // f16 has an exponent of 5 bits with the bias 15, and 10 bits behind it.
  constexpr int64_t kSmallestNormal = 113 << 23, kOverflow = 0x477fefff;
  Value normal =
      e.roundRight(e.sub(magnitude, e.i32((127 - 15) << 23)), e.i32(13));
  // Below, the mantissa with its leading one is shifted to units of 2^-24; from
  // 25 bits on nothing is left.
  Value exponent = e.right(magnitude, e.i32(23));
  Value mantissa = e.any(e.all(magnitude, 0x7fffff), e.i32(1 << 23));
  Value distance = e.sub(e.i32(126), exponent);
  Value shift = e.select(e.above(distance, 25), e.i32(25), distance);
  Value subnormal = e.roundRight(mantissa, shift);
  Value isNormal = e.above(magnitude, kSmallestNormal - 1);
  Value rounded = e.select(isNormal, normal, subnormal);
  rounded = e.select(e.above(magnitude, kOverflow), e.i32(0x7c00), rounded);
  rounded = e.select(isNan, e.i32(0x7e00), rounded);
  return e.any(sign, rounded);
}

Value attn::narrowDouble(OpBuilder &b, Location loc, Value low, Value high) {
  Bits e{b, loc};
  constexpr int64_t kInfinity = 0x7f800000;
  auto left = [&](Value x, int64_t by) -> Value {
    return arith::ShLIOp::create(b, loc, x, e.i32(by));
  };
  Value magnitude = e.all(high, 0x7fffffff);
  Value sign = e.sub(high, magnitude);
  // Exponent and 23 bits behind it, counted from the bias of an f32; 29 bits
  // are left over.
  Value exponent = e.right(magnitude, e.i32(20));
  Value upper = e.sub(magnitude, e.i32((1023 - 127) << 20));
  Value kept = e.any(left(upper, 3), e.right(low, e.i32(29)));
  Value rest = e.all(low, (1 << 29) - 1);
  Value half = e.add(rest, e.add(e.i32((1 << 28) - 1), e.all(kept, 1)));
  Value rounded = e.add(kept, e.right(half, e.i32(29)));
  rounded = e.select(e.above(exponent, 1023 + 127), e.i32(kInfinity), rounded);
  rounded = e.select(e.above(exponent, 1023 - 127), rounded, e.i32(0));
  // An exponent of all ones with anything behind it is no number.
  Value isLowZero =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, low, e.i32(0));
  Value least = e.select(isLowZero, e.i32(0x7ff00001), e.i32(0x7ff00000));
  Value isNan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge,
                                      magnitude, least);
  return arith::BitcastOp::create(
      b, loc, b.getF32Type(),
      e.any(sign, e.select(isNan, e.i32(0x7fc00000), rounded)));
}
