//===- Values.h - What SSA values hold in the interpreter ------*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_VALUES_H
#define ATTN_LIB_REFERENCE_VALUES_H

#include "Scalar.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <vector>

namespace attn::reference {

using Shape = llvm::SmallVector<int64_t, 4>;

inline int64_t elementCount(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Row-major strides of a dense shape.
inline Shape denseStrides(llvm::ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

inline int64_t dot(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  int64_t sum = 0;
  for (size_t d = 0; d < a.size(); ++d)
    sum += a[d] * b[d];
  return sum;
}

/// Calls `visit(indices)` for every index of the shape, the last dimension
/// fastest; once for no dimensions.
template <typename Visit>
void forEachIndex(llvm::ArrayRef<int64_t> shape, Visit &&visit) {
  if (elementCount(shape) == 0)
    return;
  Shape indices(shape.size(), 0);
  while (true) {
    visit(llvm::ArrayRef<int64_t>(indices));
    int64_t d = static_cast<int64_t>(shape.size()) - 1;
    while (d >= 0 && ++indices[d] == shape[d])
      indices[d--] = 0;
    if (d < 0)
      return;
  }
}

/// A vector, row-major; a scalar has no shape and one lane.
struct Lanes {
  Shape shape;
  llvm::SmallVector<Scalar, 1> lanes;

  Lanes() = default;
  explicit Lanes(llvm::ArrayRef<int64_t> shape)
      : shape(shape.begin(), shape.end()), lanes(elementCount(shape)) {}
  static Lanes scalar(Scalar value) {
    Lanes lanes;
    lanes.lanes.push_back(value);
    return lanes;
  }
  int64_t size() const { return static_cast<int64_t>(lanes.size()); }
};

/// One allocation. Fresh memory is NaN.
struct Buffer {
  std::vector<Scalar> elements;
  bool isFreed = false;

  explicit Buffer(int64_t count)
      : elements(count, scalarOf(std::numeric_limits<double>::quiet_NaN())) {}
};

/// A memref descriptor; offset and strides count elements.
struct MemRef {
  std::shared_ptr<Buffer> buffer;
  int64_t offset = 0;
  Shape sizes, strides;
};

/// What an SSA value holds: one of the two.
struct Datum {
  std::shared_ptr<const Lanes> lanes;
  std::shared_ptr<const MemRef> memref;

  Datum() = default;
  Datum(Lanes value) : lanes(std::make_shared<Lanes>(std::move(value))) {}
  Datum(MemRef value) : memref(std::make_shared<MemRef>(std::move(value))) {}
};

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_VALUES_H
