//===- HostTensor.h - A dense array in host memory --------------*- C++ -*-===//
//
// What kernels read and write when they are launched from a tool: row-major,
// 64-byte aligned, one of the element types of the artifact.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_HOSTTENSOR_H
#define ATTN_RUNTIME_HOSTTENSOR_H

#include "attn/Artifact/ElementType.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <cstdlib>
#include <memory>
#include <vector>

namespace attn {

class HostTensor {
public:
  /// All bytes zero. An error when the sizes are negative, overflow, or ask
  /// for more memory than there is.
  static llvm::Expected<HostTensor> create(ElementType type,
                                           llvm::ArrayRef<int64_t> shape);
  HostTensor() = default;

  ElementType type() const { return elementType; }
  llvm::ArrayRef<int64_t> shape() const { return sizes; }
  int64_t size() const { return count; }
  int64_t bytes() const { return count * elementBytes(elementType); }
  char *data() { return storage.get(); }
  const char *data() const { return storage.get(); }

  /// Elements in row-major order, as doubles. Writing rounds to nearest, ties
  /// to even; an integer takes the nearest value of its range, an i1 whether
  /// the value is not zero.
  double get(int64_t index) const;
  void set(int64_t index, double value);
  std::vector<double> toDoubles() const;

  /// Standard normal numbers. Element i of a fill with `seed` comes from
  ///   r(k)  = splitmix64(seed * 0x9E3779B97F4A7C15 + k)       (64-bit words)
  ///   u(k)  = ((r(k) >> 11) + 0.5) / 2^53
  ///   value = sqrt(-2 ln u(2i)) * cos(2 pi u(2i+1))
  /// rounded to the element type, where splitmix64(x) is Steele, Lea and
  /// Flood's (2014): the finaliser applied to x + 0x9E3779B97F4A7C15. Any
  /// element can so be made again alone, in any language.
  void fillNormal(uint64_t seed);
  /// Integers low..high, both included: low + r(i) mod (high - low + 1).
  void fillIntegers(uint64_t seed, int64_t low, int64_t high);

  /// Fills with a pattern that no kernel writes by accident: a NaN of unusual
  /// payload, or 0xA5 bytes in integers (true in i1).
  void poison();
  /// How many float elements still hold exactly that pattern.
  int64_t countPoisoned() const;

private:
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  ElementType elementType = ElementType::f32;
  llvm::SmallVector<int64_t, 4> sizes;
  int64_t count = 0;
  std::unique_ptr<char, Free> storage;
};

/// IEEE half and bfloat16, by their bits, from a double in one rounding.
uint16_t encodeF16(double value);
uint16_t encodeBF16(double value);
double decodeF16(uint16_t bits);
double decodeBF16(uint16_t bits);

} // namespace attn

#endif // ATTN_RUNTIME_HOSTTENSOR_H
