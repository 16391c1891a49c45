//===- OperandTile.cpp - Tiles of arguments as TMA copies them ------------===//

#include "OperandTile.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

TensorMap OperandTile::tensorMap() const {
  SmallVector<int64_t> box(memref::SubViewOp(view).getSourceType().getRank(),
                           1);
  box[rowDim] = rows;
  box[columnDim] = kChunk;
  return {argument, box};
}

SmallVector<Value> OperandTile::coordinates(GpuEmitter &e, IRMapping &scalars,
                                            Value row, int64_t column) const {
  SmallVector<Value> result;
  for (auto [dim, offset] :
       llvm::enumerate(memref::SubViewOp(view).getMixedOffsets())) {
    Value at;
    if (auto value = dyn_cast<Value>(offset))
      at = e.toI32(scalars.lookupOrDefault(value));
    else
      at = e.i32(cast<IntegerAttr>(cast<Attribute>(offset)).getInt());
    if (dim == rowDim)
      at = e.add(at, row);
    else if (dim == columnDim)
      at = e.add(at, column);
    result.push_back(at);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

FailureOr<OperandTile> hopper::findOperand(VectorTransferOpInterface access,
                                           int64_t rows) {
  OperandTile tile;
  tile.rows = rows;
  tile.columns = access.getVectorType().getDimSize(1);
  tile.view = access.getBase().getDefiningOp<memref::SubViewOp>();
  auto argument =
      tile.view ? dyn_cast<BlockArgument>(tile.view.getSource()) : nullptr;
  if (!argument)
    return access.emitError("expects a view of a kernel argument for TMA");
  tile.argument = argument.getArgNumber();
  llvm::SmallBitVector dropped = tile.view.getDroppedDims();
  SmallVector<unsigned> kept;
  for (unsigned d = 0, n = tile.view.getSourceType().getRank(); d < n; ++d)
    if (!dropped.test(d))
      kept.push_back(d);
  if (kept.size() != 2)
    return access.emitError("expects a matrix for TMA");
  tile.rowDim = kept[0];
  tile.columnDim = kept[1];
  return tile;
}

void OperandTile::load(GpuEmitter &e, Value map, IRMapping &scalars, Value row,
                       Value address, Value barrier) const {
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    SmallVector<Value> operands = {
        e.add(address, chunk * rows * kChunkRowBytes), map};
    llvm::append_range(operands, coordinates(e, scalars, row, chunk * kChunk));
    operands.push_back(barrier);
    e.ptx("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
          "complete_tx::bytes [$0], [$1, {$2, $3, $4, $5}], [$6];",
          "r,l,r,r,r,r,r,~{memory}", operands);
  }
}

void OperandTile::store(GpuEmitter &e, Value map, IRMapping &scalars, Value row,
                        Value address) const {
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    SmallVector<Value> operands = {
        map, e.add(address, chunk * rows * kChunkRowBytes)};
    llvm::append_range(operands, coordinates(e, scalars, row, chunk * kChunk));
    e.ptx("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group "
          "[$0, {$2, $3, $4, $5}], [$1];",
          "l,r,r,r,r,r,~{memory}", operands);
  }
}
