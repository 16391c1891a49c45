//===- StridedBuffer.h - A tensor as a kernel wants to see it ---*- C++ -*-===//

#ifndef ATTN_LIB_RUNTIME_STRIDEDBUFFER_H
#define ATTN_LIB_RUNTIME_STRIDEDBUFFER_H

#include "attn/Artifact/LaunchDescription.h"
#include "attn/Runtime/HostTensor.h"

namespace attn {

/// The memory of a tensor with the strides and offset of a description. Where
/// they are those of the tensor it is the tensor's own; else a copy, which
/// `copyBack` writes back. The tensor has to live as long.
class StridedBuffer {
public:
  static llvm::Expected<StridedBuffer>
  create(const ArgumentDescription &description, HostTensor &tensor);

  /// Element `offset` is the first of the tensor.
  char *data() { return copy.data() ? copy.data() : tensor->data(); }
  int64_t bytes() const { return (copy.data() ? copy : *tensor).bytes(); }
  llvm::ArrayRef<int64_t> shape() const { return tensor->shape(); }
  llvm::ArrayRef<int64_t> strides() const { return strideList; }
  int64_t offset() const { return firstElement; }
  void copyBack();

private:
  void copyElements(bool toCopy);

  HostTensor *tensor = nullptr;
  HostTensor copy;
  llvm::SmallVector<int64_t> strideList;
  int64_t firstElement = 0;
};

} // namespace attn

#endif // ATTN_LIB_RUNTIME_STRIDEDBUFFER_H
