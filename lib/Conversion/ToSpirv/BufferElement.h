//===- BufferElement.h - An element of a storage buffer ---------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TOSPIRV_BUFFERELEMENT_H
#define ATTN_LIB_CONVERSION_TOSPIRV_BUFFERELEMENT_H

#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "mlir/IR/Builders.h"

namespace attn {

/// Elements of one type in the buffer at `variable`; see KernelMemory.h for how
/// they lie in its words.
struct BufferElement {
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Value variable;
  mlir::Type type;
  /// The device has f64; else one is loaded as the f32 nearest to it.
  bool hasDouble = false;
  /// The device has i64; else one is a vector of two words.
  bool hasLong = false;

  /// What the buffer is declared to hold, for Vulkan or (`isKernel`) OpenCL.
  static mlir::Type arrayType(mlir::Type element, bool isKernel);

  /// The element number `index` (an index value).
  mlir::Value load(mlir::Value index);
  /// Four elements from `index` on, as a vector; null where there is nothing
  /// better than loading them one by one.
  mlir::Value loadQuad(mlir::Value index);
  /// The same where `index` is a multiple of four, from a buffer of quads.
  mlir::Value loadWholeQuad(mlir::Value quads, mlir::Value index);
  static mlir::Type quadArrayType(mlir::Type element, bool isKernel);
  /// `op` is what an error speaks of.
  mlir::LogicalResult store(mlir::Operation *op, mlir::Value value,
                            mlir::Value index);
  /// Elements that are stored to neighbours, from `index` on.
  mlir::LogicalResult storeAll(mlir::Operation *op, mlir::ValueRange values,
                               mlir::Value index);

private:
  /// The address of word number `index` (i32).
  mlir::Value word(mlir::Value index);
  mlir::Value loadWord(mlir::Value index);
  /// `parts` elements share a word: the bits of one of them, the lowest first.
  mlir::Value loadPart(mlir::Value index, int64_t parts);
  /// Four elements out of two words.
  mlir::Value unpackQuad(mlir::Value low, mlir::Value high);
  mlir::Value halfBits(mlir::Value value);
  mlir::Value loadWide(mlir::Value index);
  void storeHalf(mlir::Value bits, mlir::Value index);
  mlir::Value member();
  mlir::Value i32(int64_t value);
  mlir::Value cast(mlir::Value value, mlir::Type to);
};

/// Whether what is built at `b` is a kernel of OpenCL and no shader of Vulkan.
bool isOpenCL(mlir::OpBuilder &b);

/// The f32 nearest to the f64 of two words; what is less than the normal
/// numbers becomes 0.
mlir::Value narrowDouble(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value low, mlir::Value high);

/// The greatest power of two, up to 16, that is known to divide an index.
int64_t knownFactor(mlir::Value index);

/// The bits of `value` (f32), rounded to the nearest f16 or bf16, in the lower
/// half of an i32.
mlir::Value roundToHalf(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value value, mlir::FloatType type);
/// The f32 of the f16 or bf16 whose bits are the lower half of an i32. What is
/// above them is ignored.
mlir::Value widenHalf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value bits,
                      mlir::FloatType type);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_TOSPIRV_BUFFERELEMENT_H
