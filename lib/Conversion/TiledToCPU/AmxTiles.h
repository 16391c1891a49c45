//===- AmxTiles.h - The tile registers of AMX -------------------*- C++ -*-===//
//
// tdpbf16ps multiplies 16 rows x 32 bf16 by 32 x 16 bf16 into 16 x 16 f32. The
// second operand holds pairs: row p is elements 2p and 2p + 1 of 16 columns.
//
// The registers tmm0-7 are named here and not allocated by LLVM: the intrinsics
// with explicit register numbers need no loop-carried tile values, so a
// reduction stays a loop of any length.
//
// The process must have asked the kernel for AMX state (arch_prctl
// ARCH_REQ_XCOMP_PERM) before the first task; lib/Runtime does.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOCPU_AMXTILES_H
#define ATTN_LIB_CONVERSION_TILEDTOCPU_AMXTILES_H

#include "CpuKernel.h"
#include <functional>

namespace attn::cpu {

constexpr int64_t kTileRows = 16;    // rows of every tile
constexpr int64_t kTileDepth = 32;   // bf16 of a row of an operand tile
constexpr int64_t kTileBytes = 1024; // a tile that lies in one piece

/// Aligned memory in the stack frame of the thread.
mlir::Value allocateTiles(Emitter &e, llvm::ArrayRef<int64_t> shape,
                          mlir::Type element);
/// The address of an element, an index.
mlir::Value tileAddress(Emitter &e, mlir::Value memref,
                        mlir::ValueRange indices);

/// Rows of a tile in memory are `strideBytes` apart: 64 where a tile lies in
/// one piece.
void loadTile(Emitter &e, int64_t tile, mlir::Value address,
              int64_t strideBytes = 64);
void storeTile(Emitter &e, int64_t tile, mlir::Value address,
               int64_t strideBytes = 64);
void zeroTile(Emitter &e, int64_t tile);
/// sum += a b.
void multiplyTiles(Emitter &e, int64_t sum, int64_t a, int64_t b);

/// Up to 2 x 2 tiles of sums in tmm0-3, their operands in tmm4-7.
struct TilePatch {
  int64_t rows = 2, columns = 2;
  /// Addresses of operand tiles in a step of the reduction.
  std::function<mlir::Value(int64_t row, mlir::Value step)> left;
  std::function<mlir::Value(int64_t column, mlir::Value step)> right;
  std::function<mlir::Value(int64_t row, int64_t column)> sums;
  int64_t leftStride = 64, sumStride = 64;
  /// Adds to what is there.
  bool startsAtSums = false;
};
/// sums (+)= sum over steps of left * right.
void multiplyPatch(Emitter &e, const TilePatch &patch, mlir::Value steps);

/// Two vectors of 16 as one of 32 bf16, the first in the low half.
mlir::Value roundPair(Emitter &e, const TargetDescription &target,
                      mlir::Value low, mlir::Value high);

/// Eight tiles of 16 rows x 64 bytes, for this thread.
void configureTiles(Emitter &e);
void releaseTiles(Emitter &e);

} // namespace attn::cpu

#endif // ATTN_LIB_CONVERSION_TILEDTOCPU_AMXTILES_H
