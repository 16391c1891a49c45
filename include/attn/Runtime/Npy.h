//===- Npy.h - NumPy's array files ------------------------------*- C++ -*-===//
//
// Reads format versions 1, 2 and 3; writes version 1. Little-endian f2, f4,
// f8, i1, i4, i8 and b1, and bfloat16 as the ml_dtypes package saves it (the
// two-byte void type "V2"). Arrays in Fortran order are turned to C order.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_NPY_H
#define ATTN_RUNTIME_NPY_H

#include "attn/Runtime/HostTensor.h"

namespace attn {

llvm::Expected<HostTensor> readNpy(llvm::StringRef path);
/// The same from bytes; `source` names them in errors.
llvm::Expected<HostTensor> parseNpy(llvm::StringRef bytes,
                                    llvm::StringRef source);

/// Nothing half-written is left behind on failure.
llvm::Error writeNpy(llvm::StringRef path, const HostTensor &tensor);

} // namespace attn

#endif // ATTN_RUNTIME_NPY_H
