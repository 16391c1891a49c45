//===- MatrixLayout.cpp - Which element of a matrix is which --------------===//

#include "MatrixLayout.h"
#include "attn/Target/CoopMatrixTiles.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

void MatrixLayout::bind(Value value, const Fragments &tile) {
  slicer.bind(value, [this, tile](const TileSlicer::Piece &) {
    return tile[currentMatrix][currentElement];
  });
}

void MatrixLayout::bindRows(Value value, const Values &rows) {
  slicer.bind(value, [this, rows](const TileSlicer::Piece &) {
    return rows[currentElement];
  });
}

FailureOr<Value> MatrixLayout::element(Value value, int64_t matrix,
                                       int64_t element) {
  currentMatrix = matrix;
  currentElement = element;
  Value column = e.add(columnNumbers[element], matrix * CoopMatrixTiles::kSide);
  return slicer.tile(value, {rowNumbers[element], column, /*width=*/0});
}

FailureOr<Fragments> MatrixLayout::tile(Value value, int64_t columns) {
  Fragments result(columns / CoopMatrixTiles::kSide);
  for (auto [matrix, elements] : llvm::enumerate(result))
    for (int64_t i = 0; i < count(); ++i) {
      FailureOr<Value> made = element(value, matrix, i);
      if (failed(made))
        return failure();
      elements.push_back(*made);
    }
  return result;
}

FailureOr<Values> MatrixLayout::rows(Value value) {
  Values result;
  for (int64_t i = 0; i < count(); ++i) {
    currentElement = i;
    FailureOr<Value> made =
        slicer.rowElement(value, {rowNumbers[i], columnNumbers[i], 0});
    if (failed(made))
      return failure();
    result.push_back(*made);
  }
  return result;
}
