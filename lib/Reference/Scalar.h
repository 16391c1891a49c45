//===- Scalar.h - One lane of a value in the reference ---------*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_SCALAR_H
#define ATTN_LIB_REFERENCE_SCALAR_H

#include "mlir/IR/BuiltinTypes.h"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace attn::reference {

/// One lane: `f` for a float of any type, `i` for an integer or an index. An
/// integer is held sign-extended from its width, so i1 true is -1.
union Scalar {
  double f;
  int64_t i;
};

inline Scalar scalarOf(double value) {
  Scalar s;
  s.f = value;
  return s;
}
inline Scalar scalarOf(int64_t value) {
  Scalar s;
  s.i = value;
  return s;
}

/// The float formats that arithmetic is rounded to.
enum class Precision : uint8_t { f64, f32, bf16, f16 };

inline Precision precisionOf(mlir::Type type) {
  return type.isF32()    ? Precision::f32
         : type.isBF16() ? Precision::bf16
         : type.isF16()  ? Precision::f16
                         : Precision::f64;
}

/// Rounds to `bits` explicit mantissa bits, ties to even, straight from the
/// double: a step through f32 would round twice.
template <int bits, int minExponent, int maxExponent>
inline double roundMantissa(double x) {
  if (!std::isfinite(x))
    return x;
  const double minNormal = std::ldexp(1.0, minExponent);
  const double step = std::ldexp(1.0, minExponent - bits);
  if (std::fabs(x) < minNormal)
    return std::copysign(std::nearbyint(x / step) * step, x);
  constexpr int shift = 52 - bits;
  uint64_t word;
  std::memcpy(&word, &x, sizeof(word));
  word += (uint64_t(1) << (shift - 1)) - 1 + ((word >> shift) & 1);
  word &= ~((uint64_t(1) << shift) - 1);
  std::memcpy(&x, &word, sizeof(word));
  if (std::fabs(x) >= std::ldexp(1.0, maxExponent + 1))
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  return x;
}

inline double roundTo(double x, Precision precision) {
  switch (precision) {
  case Precision::f64:
    return x;
  case Precision::f32:
    return static_cast<double>(static_cast<float>(x));
  case Precision::bf16:
    return roundMantissa<7, -126, 127>(x);
  case Precision::f16:
    return roundMantissa<10, -14, 15>(x);
  }
  return x;
}

/// Keeps the low `width` bits, sign-extended.
inline int64_t wrap(int64_t value, unsigned width) {
  if (width >= 64)
    return value;
  unsigned shift = 64 - width;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift;
}

/// The low `width` bits read as an unsigned number.
inline uint64_t asUnsigned(int64_t value, unsigned width) {
  return width >= 64
             ? static_cast<uint64_t>(value)
             : static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
}

/// Bits of an integer type; an index has 64.
inline unsigned widthOf(mlir::Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

/// An array element as a lane of its type. A NaN among integers (a gap between
/// elements) is some integer.
inline Scalar scalarOfType(double value, mlir::Type type) {
  if (mlir::isa<mlir::FloatType>(type))
    return scalarOf(value);
  if (!(std::fabs(value) < 0x1p63))
    value = -0x1p63;
  return scalarOf(wrap(static_cast<int64_t>(value), widthOf(type)));
}

/// A lane as an array element; i1 true becomes 1.
inline double elementOf(Scalar value, mlir::Type type) {
  if (mlir::isa<mlir::FloatType>(type))
    return value.f;
  return type.isInteger(1) ? static_cast<double>(value.i & 1)
                           : static_cast<double>(value.i);
}

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_SCALAR_H
