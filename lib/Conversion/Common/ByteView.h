//===- ByteView.h - Booleans in memory as bytes -----------------*- C++ -*-===//
//
// A vector load of i1 would read packed bits, and memory holds one a byte.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_BYTEVIEW_H
#define ATTN_LIB_CONVERSION_COMMON_BYTEVIEW_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace attn {

/// The bytes of a memref of i1, through the same descriptor.
inline mlir::Value byteView(mlir::OpBuilder &b, mlir::Location loc,
                            mlir::Value booleans) {
  auto type = mlir::cast<mlir::MemRefType>(booleans.getType());
  auto bytes = mlir::MemRefType::get(type.getShape(), b.getI8Type(),
                                     type.getLayout(), type.getMemorySpace());
  return mlir::UnrealizedConversionCastOp::create(b, loc, bytes, booleans)
      .getResult(0);
}

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_BYTEVIEW_H
