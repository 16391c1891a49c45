//===- VectorizeRegion.h - A scalar region on a tile ------------*- C++ -*-===//

#ifndef ATTN_LIB_TRANSFORMS_VECTORIZEREGION_H
#define ATTN_LIB_TRANSFORMS_VECTORIZEREGION_H

#include "TileBuilder.h"
#include "mlir/IR/Region.h"

namespace attn {

/// Clones the body of score_mod, mask_mod or a derivative for a whole tile and
/// returns what it yields. `arguments` stand for the block arguments in front
/// of the captures; the last four are the positions, of which there are
/// `counts`. Each op runs on the least extent that its operands have; reads of
/// captures become gathers, or one load where every index is uniform.
///
/// The tile has pairs that no query sees. Where one might read beside a capture
/// or divide by zero, the index or divisor is brought into range: a visible
/// pair's is, and what comes out for a hidden one is not used.
llvm::SmallVector<TileValue>
vectorizeRegion(TileBuilder &b, mlir::Region &region,
                llvm::ArrayRef<TileValue> arguments,
                llvm::ArrayRef<Index> counts, mlir::ValueRange captures);

/// Whether the region reads a capture by position, or divides: then positions
/// outside of the sequences are out of its range.
bool readsByPosition(mlir::Region &region, mlir::ValueRange captures);

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_VECTORIZEREGION_H
