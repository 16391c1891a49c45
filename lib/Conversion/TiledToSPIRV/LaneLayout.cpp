//===- LaneLayout.cpp - Tiles cut to the elements of a thread -------------===//

#include "LaneLayout.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

void LaneLayout::bindTile(Value value, Registers elements) {
  size_t columns = elements.size() / rowsOf.size();
  slicer.bind(value, [this, columns, elements = std::move(elements)](
                         const TileSlicer::Piece &) {
    return elements[row * columns + column];
  });
}

void LaneLayout::bindRows(Value value, Registers rows) {
  slicer.bind(value, [this, rows = std::move(rows)](const TileSlicer::Piece &) {
    return rows[row];
  });
}

FailureOr<Registers> LaneLayout::tile(Value value, ArrayRef<Value> columns) {
  Registers elements;
  for (row = 0; row < rowsOf.size(); ++row)
    for (column = 0; column < columns.size(); ++column) {
      FailureOr<Value> element =
          slicer.tile(value, {rowsOf[row], columns[column], 0});
      if (failed(element))
        return failure();
      elements.push_back(*element);
    }
  return elements;
}

FailureOr<Value> LaneLayout::pair(Value value, size_t ofRow, size_t ofKey) {
  row = ofRow;
  column = ofKey;
  return slicer.tile(value, {rowsOf[row], keysOf[column], 0});
}

FailureOr<Value> LaneLayout::rowOf(Value value, size_t ofRow) {
  row = ofRow;
  return slicer.rowElement(value, {rowsOf[row], rowsOf[row], 0});
}

FailureOr<Registers> LaneLayout::rows(Value value) {
  Registers elements;
  for (size_t i = 0; i < rowsOf.size(); ++i) {
    FailureOr<Value> element = rowOf(value, i);
    if (failed(element))
      return failure();
    elements.push_back(*element);
  }
  return elements;
}
