//===- OperandTile.h - Tiles of arguments as TMA copies them ----*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_OPERANDTILE_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_OPERANDTILE_H

#include "../Common/KernelOutline.h"
#include "Ring.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/VectorInterfaces.h"
#include "llvm/Support/MathExtras.h"

namespace attn::hopper {

constexpr int64_t kWarpgroup = 128;
/// Rows of a wgmma, and its depth for 16-bit elements.
constexpr int64_t kRows = 64, kDepth = 16;
/// A row of swizzled shared memory: 128 bytes.
constexpr int64_t kChunk = 64, kChunkRowBytes = 128;

/// A tile of the tiled form as TMA copies it: a box of `rows` x 64 elements of
/// one argument for every 64 columns.
struct OperandTile {
  unsigned argument = 0;
  mlir::memref::SubViewOp view;
  /// Dimensions of the argument that count rows and columns of the view.
  unsigned rowDim = 0, columnDim = 0;
  int64_t rows = 0, columns = 0;

  TensorMap tensorMap() const;
  /// Where the box starts, innermost dimension first. `scalars` maps the
  /// scalars of the tiled form; row and column count within the view.
  llvm::SmallVector<mlir::Value> coordinates(GpuEmitter &e,
                                             mlir::IRMapping &scalars,
                                             mlir::Value row,
                                             int64_t column) const;

  int64_t chunks() const { return llvm::divideCeil(columns, kChunk); }
  int64_t bytes() const { return rows * chunks() * kChunkRowBytes; }
  /// Copies the tile that starts at `row` of the view to the shared memory at
  /// `address`, and tells `barrier` of its bytes; or back out of there, in a
  /// bulk group.
  void load(GpuEmitter &e, mlir::Value map, mlir::IRMapping &scalars,
            mlir::Value row, mlir::Value address, mlir::Value barrier) const;
  void store(GpuEmitter &e, mlir::Value map, mlir::IRMapping &scalars,
             mlir::Value row, mlir::Value address) const;
};

/// The operand behind the head view that `access` reads or writes a tile of
/// `rows` rows through; an error that says what TMA misses.
mlir::FailureOr<OperandTile> findOperand(mlir::VectorTransferOpInterface access,
                                         int64_t rows);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_OPERANDTILE_H
