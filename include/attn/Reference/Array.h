//===- Array.h - Host arrays of the reference ------------------*- C++ -*-===//
//
// What the reference computes on: a dense row-major array of doubles, and the
// ways between it and the bytes of an element type.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_REFERENCE_ARRAY_H
#define ATTN_REFERENCE_ARRAY_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <string>
#include <vector>

namespace attn {

/// A dense row-major array. Every element type is held as doubles: floats as
/// their value, integers as theirs (exact up to 2^53), booleans as 0 and 1.
struct Array {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;

  Array() = default;
  /// All elements are `fill`.
  explicit Array(llvm::ArrayRef<int64_t> shape, double fill = 0.0);

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  /// The element at these indices, one per dimension.
  double &at(llvm::ArrayRef<int64_t> indices);
  double at(llvm::ArrayRef<int64_t> indices) const;
};

/// "2x8x64"; "scalar" for no dimensions.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

/// The value of `type` nearest to `value`, ties to even; integers wrap.
double roundToType(double value, mlir::Type type);
void roundToType(Array &array, mlir::Type type);

/// Bytes that one element takes in memory; i1 takes one.
int64_t elementBytes(mlir::Type type);
/// Writes the elements to `bytes` (size() * elementBytes(type) of them) in the
/// machine's byte order, rounded to the type.
void encode(const Array &array, mlir::Type type, void *bytes);
/// Reads as many elements as `array` has.
void decode(const void *bytes, mlir::Type type, Array &array);

/// ||got - expected|| / ||expected|| (Frobenius), where an expected element
/// counts as no less than `least`. Equal infinities and two NaNs agree; any
/// other difference that is not finite is an infinite error, and so is a
/// difference from an all-zero expectation. The arrays have one shape.
double relativeError(const Array &got, const Array &expected, double least = 0);

/// got - expected, and 0 where that is not finite. The arrays have one shape.
Array difference(const Array &got, const Array &expected);

/// Over how many rows of `width` elements the norm of the array is spread: all
/// of them when they are alike, fewer when some are 0 or one exceeds the
/// others; (sum s)^2 / sum s^2 of their squared norms s, at least 1. Elements
/// that are not finite count as 0.
int64_t effectiveRows(const Array &array, int64_t width);

} // namespace attn

#endif // ATTN_REFERENCE_ARRAY_H
