//===- PaddedRows.h - Numbers of rows past the end --------------*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_COMMON_PADDEDROWS_H
#define ATTN_LIB_CONVERSION_COMMON_PADDEDROWS_H

#include "GpuEmitter.h"
#include "TileSlicer.h"

namespace attn {

/// Reads of `block` of a number a row give their padding past the end; the
/// slicer by itself repeats the last row.
void bindPaddedRows(GpuEmitter &e, TileSlicer &slicer, mlir::IRMapping &scalars,
                    mlir::Block &block);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_PADDEDROWS_H
