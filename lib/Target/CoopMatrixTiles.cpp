//===- CoopMatrixTiles.cpp - Memory of cooperative-matrix kernels ---------===//

#include "attn/Target/CoopMatrixTiles.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace attn;

static CoopMatrixTiles::Tile layOut(int64_t rows, int64_t columns) {
  CoopMatrixTiles::Tile tile;
  if (columns == 0)
    return tile;
  tile.rows = rows;
  tile.columns = llvm::alignTo(columns, CoopMatrixTiles::kSide);
  tile.pitch = tile.columns + CoopMatrixTiles::kUnit;
  return tile;
}

CoopMatrixTiles::CoopMatrixTiles(const Tiling &tiling, int64_t headDim,
                                 int64_t valueDim, int64_t subgroupSize,
                                 bool hidesKeys)
    : subgroups(tiling.groups), lanes(subgroupSize) {
  slabs = std::max<int64_t>(1, tiling.blockQuery / (tiling.groups * kSide));
  query = layOut(tiling.blockQuery, headDim);
  key = layOut(tiling.blockKey, headDim);
  value = layOut(tiling.blockKey, valueDim);
  if (hidesKeys)
    seenWords = llvm::divideCeil(tiling.blockKey, 32);
}

int64_t CoopMatrixTiles::tileBytes() const {
  return std::max(query.bytes(), key.bytes() + value.bytes());
}
