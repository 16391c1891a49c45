//===- PaddedRows.cpp - Numbers of rows past the end ----------------------===//

#include "PaddedRows.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;

void attn::bindPaddedRows(GpuEmitter &e, TileSlicer &slicer, IRMapping &scalars,
                          Block &block) {
  for (auto read : block.getOps<vector::TransferReadOp>()) {
    // Scratch of the tiled form may be no argument of the kernel.
    if (read.getVectorType().getRank() != 1 ||
        !scalars.contains(read.getBase()))
      continue;
    slicer.bind(
        read, [&e, read, &scalars](const TileSlicer::Piece &piece) -> Value {
          vector::TransferReadOp access = read;
          Value view = scalars.lookup(access.getBase());
          Value row =
              e.add(scalars.lookupOrDefault(access.getIndices()[0]), piece.row);
          Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
          Value last = e.sub(length, e.index(1));
          Value loaded =
              memref::LoadOp::create(e.b, e.loc, view, e.min(row, last));
          return e.select(e.less(row, length), loaded,
                          scalars.lookup(access.getPadding()));
        });
  }
}
