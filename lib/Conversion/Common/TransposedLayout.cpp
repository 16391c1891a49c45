//===- TransposedLayout.cpp - Score tiles with keys as rows ---------------===//

#include "TransposedLayout.h"

using namespace mlir;
using namespace attn;

void TransposedLayout::bind(Value value, Fragment fragment) {
  slicer.bind(value, [this, fragment](const TileSlicer::Piece &) mutable {
    return fragment.at(group, half, element);
  });
}

void TransposedLayout::bindPerQuery(Value value, SmallVector<Value> numbers) {
  slicer.bind(value, [this, numbers](const TileSlicer::Piece &) {
    return numbers[2 * group + element];
  });
}

FailureOr<Fragment> TransposedLayout::tile(Value value, int64_t queries) {
  // Opaque, so that nothing is made of them in front of the sweep.
  SmallVector<Type> types(2, e.b.getI32Type());
  SmallVector<Value> own = e.ptx("mov.b32 $0, $2; mov.b32 $1, $3;", "=r,=r,r,r",
                                 types, {key, query});
  Value firstKey = e.toIndex(own[0]), firstQuery = e.toIndex(own[1]);
  Fragment fragment;
  for (group = 0; group < queries / 8; ++group)
    for (half = 0; half < 2; ++half)
      for (element = 0; element < 2; ++element) {
        FailureOr<Value> made =
            slicer.tile(value, {e.add(firstQuery, 8 * group + element),
                                e.add(firstKey, 8 * half), /*width=*/0,
                                firstKey, 8 * half});
        if (failed(made))
          return failure();
        fragment.elements.push_back(*made);
      }
  return fragment;
}
