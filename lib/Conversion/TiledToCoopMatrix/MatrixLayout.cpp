//===- MatrixLayout.cpp - Which element of a matrix is which --------------===//

#include "MatrixLayout.h"
#include "attn/Target/CoopMatrixTiles.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;

std::optional<KnownLayout> KnownLayout::of(const TargetDescription &target) {
  constexpr int64_t kBits = 8;
  static_assert(1 << kBits == kSide * kSide);
  ArrayRef<int64_t> bits = target.matrixLayout;
  int64_t lanes = target.subgroupSize;
  if (bits.size() != kBits || !llvm::isPowerOf2_64(lanes) ||
      lanes > kSide * kSide)
    return std::nullopt;
  // Each bit of a place once.
  int64_t all = 0;
  for (int64_t bit : bits)
    if (!llvm::isPowerOf2_64(bit) || bit >= kSide * kSide || (all & bit))
      return std::nullopt;
    else
      all |= bit;
  int64_t ofLane = llvm::Log2_64(lanes);
  KnownLayout layout;
  llvm::append_range(layout.elementBits, bits.drop_back(ofLane));
  llvm::append_range(layout.laneBits, bits.take_back(ofLane));
  return layout;
}

int64_t KnownLayout::placeOf(int64_t element) const {
  int64_t place = 0;
  for (auto [i, bit] : llvm::enumerate(elementBits))
    place += (element >> i & 1) * bit;
  return place;
}

Value KnownLayout::placeOf(GpuEmitter &e, Value lane) const {
  Value place = e.i32(0);
  for (auto [i, bit] : llvm::enumerate(laneBits))
    place =
        e.bitOr(place, e.mul(e.bitAnd(e.div(lane, int64_t(1) << i), 1), bit));
  return place;
}

SmallVector<int64_t> KnownLayout::lanesOfRow() const {
  SmallVector<int64_t> lanes;
  for (auto [i, bit] : llvm::enumerate(laneBits))
    if (bit < kSide)
      lanes.push_back(int64_t(1) << i);
  return lanes;
}

RowSharing::RowSharing(int64_t elements, const KnownLayout *layout) {
  llvm::SmallDenseMap<int64_t, int64_t> known;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t row = layout ? layout->placeOf(i) / kSide : i;
    auto [it, isNew] = known.try_emplace(row, elementOf.size());
    if (isNew)
      elementOf.push_back(i);
    rowOf.push_back(it->second);
  }
}

void MatrixLayout::bind(Value value, const Fragments &tile) {
  slicer.bind(value, [this, tile](const TileSlicer::Piece &) {
    return tile[currentMatrix][currentElement];
  });
}

void MatrixLayout::bindRows(Value value, const Values &rows) {
  slicer.bind(value, [this, rows](const TileSlicer::Piece &) {
    return rows[sharing.rowOf[currentElement]];
  });
}

FailureOr<Value> MatrixLayout::element(Value value, int64_t matrix,
                                       int64_t element) {
  currentMatrix = matrix;
  currentElement = element;
  Value column = e.add(columnNumbers[element], matrix * kSide);
  return slicer.tile(value, {rowNumbers[element], column, /*width=*/0});
}

FailureOr<Fragments> MatrixLayout::tile(Value value, int64_t columns) {
  Fragments result(columns / kSide);
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
  for (int64_t i : sharing.elementOf) {
    currentElement = i;
    FailureOr<Value> made =
        slicer.rowElement(value, {rowNumbers[i], columnNumbers[i], 0});
    if (failed(made))
      return failure();
    result.push_back(*made);
  }
  return result;
}
