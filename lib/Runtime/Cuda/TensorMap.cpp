//===- TensorMap.cpp - Descriptors of TMA ---------------------------------===//
//
// cuda.h counts dimensions from the innermost one on and strides in bytes,
// without the innermost, which is one element.
//
//===----------------------------------------------------------------------===//

#include "TensorMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <optional>

using namespace llvm;
using namespace attn;
using namespace attn::cuda;

static constexpr int64_t kTmaAlignment = 16;

/// CUtensorMapDataType. Only the width and the fill depend on it.
static int dataType(ElementType type) {
  switch (type) {
  case ElementType::i1:
  case ElementType::i8:
    return 0;
  case ElementType::i32:
    return 3;
  case ElementType::i64:
    return 5;
  case ElementType::f16:
    return 6;
  case ElementType::f32:
    return 7;
  case ElementType::f64:
    return 8;
  case ElementType::bf16:
    return 9;
  }
  llvm_unreachable("unknown element type");
}

/// CUtensorMapSwizzle.
static std::optional<int> swizzleMode(int64_t bytes) {
  switch (bytes) {
  case 0:
    return 0;
  case 32:
    return 1;
  case 64:
    return 2;
  case 128:
    return 3;
  }
  return std::nullopt;
}

Expected<TensorMap> attn::cuda::encodeTensorMap(
    const Driver &driver, const ArgumentDescription &argument,
    const TensorMapDescription &map, const DeviceTensor &tensor) {
  std::optional<int> swizzle = swizzleMode(map.swizzle);
  if (!swizzle)
    return createStringError("tensor map of '" + argument.name +
                             "': no swizzle of " + Twine(map.swizzle) +
                             " bytes; expected 0, 32, 64 or 128");
  auto refuse = [&](const Twine &what) {
    return createStringError(
        "argument '" + argument.name + "': TMA needs " + what +
        "; give the rows a multiple of 16 bytes, or leave strides and offset "
        "open in the types, which adds a kernel that copies without TMA");
  };
  int64_t width = elementBytes(argument.type);
  if (tensor.base % kTmaAlignment)
    return refuse("an address that is a multiple of 16 bytes, got " +
                  Twine(tensor.base));
  SmallVector<uint64_t, 5> sizes, strides;
  SmallVector<uint32_t, 5> box, steps(tensor.shape.size(), 1);
  int64_t reach = width;
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    // The encoder minds also a stride that no address depends on.
    int64_t stride = tensor.shape[d] > 1 ? tensor.strides[d] * width
                                         : alignTo(reach, kTmaAlignment);
    bool isInnermost = sizes.empty();
    if (!isInnermost && stride % kTmaAlignment)
      return refuse("strides that are multiples of 16 bytes, got " +
                    Twine(stride));
    // A size of 0 cannot be encoded, and is not read.
    sizes.push_back(std::max<int64_t>(tensor.shape[d], 1));
    box.push_back(map.box[d]);
    if (isInnermost)
      reach = sizes.back() * width;
    else {
      strides.push_back(stride);
      reach = std::max(reach, stride * int64_t(sizes.back()));
    }
  }
  TensorMap encoded;
  if (Error error = driver.check(
          driver.cuTensorMapEncodeTiled(
              &encoded, dataType(argument.type), sizes.size(),
              reinterpret_cast<void *>(tensor.base), sizes.data(),
              strides.data(), box.data(), steps.data(), /*interleave=*/0,
              *swizzle, kPromote256Bytes, /*fill=*/0),
          "tensor map of '" + argument.name + "'"))
    return error;
  return encoded;
}
