//===- StridedBuffer.cpp - A tensor as a kernel wants to see it -----------===//

#include "StridedBuffer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using namespace llvm;
using namespace attn;

/// Row-major strides; those that the description fixes are kept. `span` is
/// the number of elements from the first to behind the last.
static SmallVector<int64_t> chooseStrides(const ArgumentDescription &argument,
                                          ArrayRef<int64_t> shape,
                                          int64_t &span, bool &overflow) {
  SmallVector<int64_t> strides(shape.size());
  span = 1;
  overflow = false;
  for (size_t d = shape.size(); d-- > 0;) {
    bool isFixed =
        !argument.strides.empty() && argument.strides[d] != kAnyStride;
    strides[d] = isFixed ? argument.strides[d] : span;
    int64_t reach;
    overflow |=
        MulOverflow(std::max<int64_t>(shape[d] - 1, 0), strides[d], reach) ||
        AddOverflow(span, reach, span);
  }
  return strides;
}

/// Strides of dimensions of one element do not matter.
static bool isRowMajor(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (auto [size, stride] : zip(reverse(shape), reverse(strides))) {
    if (size > 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

Expected<StridedBuffer>
StridedBuffer::create(const ArgumentDescription &description,
                      HostTensor &tensor) {
  StridedBuffer d;
  d.tensor = &tensor;
  d.firstElement = description.offset;
  int64_t span;
  bool overflow;
  d.strideList = chooseStrides(description, tensor.shape(), span, overflow);
  if (isRowMajor(tensor.shape(), d.strideList) && !d.firstElement)
    return d;
  if (overflow || AddOverflow(span, d.firstElement, span))
    return createStringError("argument '" + description.name +
                             "': the strides reach beyond 64 bits");
  Expected<HostTensor> copy = HostTensor::create(tensor.type(), {span});
  if (!copy)
    return copy.takeError();
  d.copy = std::move(*copy);
  d.copyElements(/*toCopy=*/true);
  return d;
}

void StridedBuffer::copyElements(bool toCopy) {
  ArrayRef<int64_t> shape = tensor->shape();
  int64_t width = elementBytes(tensor->type()), position = firstElement;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < tensor->size(); ++i) {
    char *inTensor = tensor->data() + i * width;
    char *inCopy = copy.data() + position * width;
    std::memcpy(toCopy ? inCopy : inTensor, toCopy ? inTensor : inCopy, width);
    for (size_t d = shape.size(); d-- > 0;) {
      position += strideList[d];
      if (++index[d] < shape[d])
        break;
      position -= strideList[d] * shape[d];
      index[d] = 0;
    }
  }
}

void StridedBuffer::copyBack() {
  if (copy.data())
    copyElements(/*toCopy=*/false);
}
