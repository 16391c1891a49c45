//===- Array.cpp - Host arrays of the reference ---------------------------===//

#include "attn/Reference/Array.h"
#include "Scalar.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

Array::Array(ArrayRef<int64_t> shape, double fill)
    : shape(shape.begin(), shape.end()) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  data.assign(elements, fill);
}

static int64_t linearIndex(ArrayRef<int64_t> shape, ArrayRef<int64_t> indices) {
  int64_t linear = 0;
  for (auto [size, index] : llvm::zip_equal(shape, indices))
    linear = linear * size + index;
  return linear;
}

double &Array::at(ArrayRef<int64_t> indices) {
  return data[linearIndex(shape, indices)];
}

double Array::at(ArrayRef<int64_t> indices) const {
  return data[linearIndex(shape, indices)];
}

std::string attn::shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      shape, os,
      [&](int64_t size) {
        if (ShapedType::isDynamic(size))
          os << '?';
        else
          os << size;
      },
      "x");
  return text.empty() ? "scalar" : text;
}

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

static bool isNativeFloat(Type type) {
  return type.isF64() || type.isF32() || type.isBF16() || type.isF16();
}

/// The formats that arithmetic never uses (fp8, tf32) take the slow road.
static APFloat toFormat(double value, FloatType type) {
  APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return number;
}

static double fromFormat(APFloat number) {
  bool losesInfo;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return number.convertToDouble();
}

double attn::roundToType(double value, Type type) {
  if (isNativeFloat(type))
    return roundTo(value, precisionOf(type));
  if (auto format = dyn_cast<FloatType>(type))
    return fromFormat(toFormat(value, format));
  return elementOf(scalarOfType(value, type), type);
}

void attn::roundToType(Array &array, Type type) {
  if (type.isF64())
    return;
  for (double &element : array.data)
    element = roundToType(element, type);
}

int64_t attn::elementBytes(Type type) {
  return llvm::divideCeil(widthOf(type), 8);
}

/// The bits of one element, in the low end of a word.
static uint64_t encodeElement(double value, Type type) {
  if (auto format = dyn_cast<FloatType>(type))
    return toFormat(value, format).bitcastToAPInt().getZExtValue();
  int64_t integer = scalarOfType(value, type).i;
  return type.isInteger(1) ? integer & 1 : asUnsigned(integer, widthOf(type));
}

static double decodeElement(uint64_t word, Type type) {
  if (auto format = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = format.getFloatSemantics();
    return fromFormat(
        APFloat(semantics, APInt(APFloat::semanticsSizeInBits(semantics), word,
                                 /*isSigned=*/false,
                                 /*implicitTrunc=*/true)));
  }
  if (type.isInteger(1))
    return word & 0xff ? 1.0 : 0.0;
  return static_cast<double>(wrap(static_cast<int64_t>(word), widthOf(type)));
}

void attn::encode(const Array &array, Type type, void *bytes) {
  char *out = static_cast<char *>(bytes);
  int64_t width = elementBytes(type);
  for (double element : array.data) {
    if (type.isF32()) {
      float single = static_cast<float>(element);
      std::memcpy(out, &single, sizeof(single));
    } else {
      uint64_t word = encodeElement(element, type);
      // Little-endian hosts only, as every target of this project is.
      std::memcpy(out, &word, width);
    }
    out += width;
  }
}

void attn::decode(const void *bytes, Type type, Array &array) {
  const char *in = static_cast<const char *>(bytes);
  int64_t width = elementBytes(type);
  for (double &element : array.data) {
    if (type.isF32()) {
      float single;
      std::memcpy(&single, in, sizeof(single));
      element = single;
    } else {
      uint64_t word = 0;
      std::memcpy(&word, in, width);
      element = decodeElement(word, type);
    }
    in += width;
  }
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

double attn::relativeError(const Array &got, const Array &expected,
                           double least) {
  const double infinite = std::numeric_limits<double>::infinity();
  if (got.shape != expected.shape)
    return infinite;
  // Scaled by the largest element, so that squares neither overflow nor vanish.
  double largest = least;
  for (double e : expected.data)
    if (std::isfinite(e))
      largest = std::max(largest, std::fabs(e));
  double scale = largest > 0 ? 1 / largest : 1;
  double difference = 0, norm = 0;
  for (auto [g, e] : llvm::zip_equal(got.data, expected.data)) {
    if (!std::isfinite(g) || !std::isfinite(e)) {
      bool agree = g == e || (std::isnan(g) && std::isnan(e));
      if (!agree)
        return infinite;
      continue;
    }
    difference += (g - e) * scale * ((g - e) * scale);
    double size = std::max(std::fabs(e), least) * scale;
    norm += size * size;
  }
  if (difference == 0)
    return 0;
  return norm == 0 ? infinite : std::sqrt(difference / norm);
}

Array attn::difference(const Array &got, const Array &expected) {
  Array result(expected.shape);
  for (auto [r, g, e] : llvm::zip_equal(result.data, got.data, expected.data))
    r = std::isfinite(g - e) ? g - e : 0;
  return result;
}

int64_t attn::effectiveRows(const Array &array, int64_t width) {
  double sum = 0, sumOfSquares = 0;
  for (int64_t first = 0; width > 0 && first + width <= array.size();
       first += width) {
    double square = 0;
    for (double element : ArrayRef(array.data).slice(first, width))
      square += std::isfinite(element) ? element * element : 0;
    sum += square;
    sumOfSquares += square * square;
  }
  return sumOfSquares == 0 ? 1 : static_cast<int64_t>(sum * sum / sumOfSquares);
}
