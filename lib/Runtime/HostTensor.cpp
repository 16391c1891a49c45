//===- HostTensor.cpp - A dense array in host memory ----------------------===//

#include "attn/Runtime/HostTensor.h"
#include "attn/Artifact/LaunchDescription.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace llvm;
using namespace attn;

//===----------------------------------------------------------------------===//
// Small floats
//===----------------------------------------------------------------------===//

/// Rounds once, from the double: going through f32 would round twice.
template <int kExponentBits, int kMantissaBits>
static uint16_t encodeSmallFloat(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint64_t kInfinity = ((uint64_t(1) << kExponentBits) - 1)
                                 << kMantissaBits;
  uint64_t bits = bit_cast<uint64_t>(value);
  uint16_t sign = uint16_t(bits >> 63) << 15;
  int exponent = int(bits >> 52 & 0x7FF) - 1023;
  uint64_t mantissa = bits & ((uint64_t(1) << 52) - 1);
  if (exponent == 1024) {
    uint64_t payload = mantissa >> (52 - kMantissaBits);
    // A NaN must stay one: set the quiet bit.
    if (mantissa)
      payload |= uint64_t(1) << (kMantissaBits - 1);
    return sign | uint16_t(kInfinity | payload);
  }
  int shift = 52 - kMantissaBits;
  uint64_t biased = 0;
  if (exponent < 1 - kBias)
    shift += 1 - kBias - exponent; // the result is subnormal
  else
    biased = uint64_t(exponent + kBias - 1) << kMantissaBits;
  if (shift > 54)
    return sign; // below half of the smallest number
  mantissa |= uint64_t(1) << 52;
  uint64_t kept = mantissa >> shift;
  uint64_t rest = mantissa & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1));
  // The hidden bit in `kept`, or a carry, adds one to the exponent.
  return sign | uint16_t(std::min(biased + kept, kInfinity));
}

uint16_t attn::encodeF16(double value) {
  return encodeSmallFloat<5, 10>(value);
}
uint16_t attn::encodeBF16(double value) {
  return encodeSmallFloat<8, 7>(value);
}

double attn::decodeBF16(uint16_t bits) {
  return bit_cast<float>(uint32_t(bits) << 16);
}

double attn::decodeF16(uint16_t bits) {
  uint64_t sign = uint64_t(bits >> 15) << 63;
  uint64_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 0) {
    double value = std::ldexp(double(mantissa), -24);
    return sign ? -value : value;
  }
  uint64_t wide = exponent == 31 ? 0x7FF : exponent - 15 + 1023;
  return bit_cast<double>(sign | wide << 52 | mantissa << 42);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Expected<HostTensor> HostTensor::create(ElementType type,
                                        ArrayRef<int64_t> shape) {
  constexpr size_t kAlignment = 64;
  HostTensor tensor;
  tensor.elementType = type;
  tensor.sizes.assign(shape.begin(), shape.end());
  int64_t bytes = elementBytes(type);
  bool overflow = false, isEmpty = false;
  for (int64_t size : shape) {
    isEmpty |= size == 0;
    overflow |= size < 0 || (size != 0 && MulOverflow(bytes, size, bytes));
  }
  if (isEmpty)
    bytes = 0;
  tensor.count = bytes / elementBytes(type);
  // At least one line, so that an empty tensor has an address too.
  if (!overflow && bytes <= std::numeric_limits<int64_t>::max() - 64) {
    size_t rounded = alignTo(std::max<int64_t>(bytes, 1), kAlignment);
    tensor.storage.reset(
        static_cast<char *>(std::aligned_alloc(kAlignment, rounded)));
    if (tensor.storage) {
      std::memset(tensor.storage.get(), 0, rounded);
      return tensor;
    }
  }
  return createStringError("cannot allocate a tensor of shape " +
                           formatShape(shape) + " and type " +
                           elementTypeName(type));
}

template <typename T> static double load(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

template <typename T> static void store(char *data, int64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
static void storeInteger(char *data, int64_t index, double value) {
  using Limits = std::numeric_limits<T>;
  // 2^63 itself is a double, the largest int64 is not: compare before casting.
  double rounded = std::nearbyint(value);
  T result = std::isnan(rounded)                 ? T(0)
             : rounded >= -double(Limits::min()) ? Limits::max()
             : rounded <= double(Limits::min())  ? Limits::min()
                                                 : T(rounded);
  store<T>(data, index, result);
}

double HostTensor::get(int64_t index) const {
  const char *p = storage.get();
  switch (elementType) {
  case ElementType::f16:
    return decodeF16(uint16_t(load<uint16_t>(p, index)));
  case ElementType::bf16:
    return decodeBF16(uint16_t(load<uint16_t>(p, index)));
  case ElementType::f32:
    return load<float>(p, index);
  case ElementType::f64:
    return load<double>(p, index);
  case ElementType::i1:
    return p[index] != 0;
  case ElementType::i8:
    return load<int8_t>(p, index);
  case ElementType::i32:
    return load<int32_t>(p, index);
  case ElementType::i64:
    return load<int64_t>(p, index);
  }
  llvm_unreachable("unknown element type");
}

void HostTensor::set(int64_t index, double value) {
  char *p = storage.get();
  switch (elementType) {
  case ElementType::f16:
    return store<uint16_t>(p, index, encodeF16(value));
  case ElementType::bf16:
    return store<uint16_t>(p, index, encodeBF16(value));
  case ElementType::f32:
    return store<float>(p, index, static_cast<float>(value));
  case ElementType::f64:
    return store<double>(p, index, value);
  case ElementType::i1:
    return store<char>(p, index, value != 0);
  case ElementType::i8:
    return storeInteger<int8_t>(p, index, value);
  case ElementType::i32:
    return storeInteger<int32_t>(p, index, value);
  case ElementType::i64:
    return storeInteger<int64_t>(p, index, value);
  }
  llvm_unreachable("unknown element type");
}

std::vector<double> HostTensor::toDoubles() const {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = get(i);
  return values;
}

//===----------------------------------------------------------------------===//
// Fills
//===----------------------------------------------------------------------===//

static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

static uint64_t splitmix64(uint64_t x) {
  x += kGolden;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

static double unitInterval(uint64_t word) {
  return (double(word >> 11) + 0.5) * 0x1p-53;
}

void HostTensor::fillNormal(uint64_t seed) {
  constexpr double kTwoPi = 6.283185307179586;
  uint64_t base = seed * kGolden;
  for (int64_t i = 0; i < count; ++i) {
    double radius =
        std::sqrt(-2 * std::log(unitInterval(splitmix64(base + 2 * i))));
    double angle = kTwoPi * unitInterval(splitmix64(base + 2 * i + 1));
    set(i, radius * std::cos(angle));
  }
}

void HostTensor::fillIntegers(uint64_t seed, int64_t low, int64_t high) {
  uint64_t base = seed * kGolden;
  uint64_t range = uint64_t(high) - uint64_t(low) + 1; // 0: all 64 bits
  for (int64_t i = 0; i < count; ++i) {
    uint64_t word = splitmix64(base + i);
    int64_t value = int64_t(uint64_t(low) + (range ? word % range : word));
    // A double does not hold every int64.
    if (elementType == ElementType::i64)
      store<int64_t>(data(), i, value);
    else
      set(i, double(value));
  }
}

/// The poison of one element, in its low bytes.
static uint64_t poisonPattern(ElementType type) {
  switch (type) {
  case ElementType::f16:
    return 0x7E5A;
  case ElementType::bf16:
    return 0x7FDA;
  case ElementType::f32:
    return 0x7FDA5A5A;
  case ElementType::f64:
    return 0x7FFDA5A5A5A5A5A5;
  case ElementType::i1:
    return 1;
  default:
    return 0xA5A5A5A5A5A5A5A5;
  }
}

void HostTensor::poison() {
  uint64_t pattern = poisonPattern(elementType);
  int64_t width = elementBytes(elementType);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(data() + i * width, &pattern, width);
}

int64_t HostTensor::countPoisoned() const {
  if (!isFloat(elementType))
    return 0;
  uint64_t pattern = poisonPattern(elementType);
  int64_t width = elementBytes(elementType), poisoned = 0;
  for (int64_t i = 0; i < count; ++i)
    poisoned += std::memcmp(data() + i * width, &pattern, width) == 0;
  return poisoned;
}
