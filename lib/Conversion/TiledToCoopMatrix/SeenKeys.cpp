//===- SeenKeys.cpp - Which keys and blocks some row sees -----------------===//
//
// A value that no row sees may be anything, a NaN as well, and 0 times that
// must not reach the product. So subgroups note which keys their rows see, a
// bit each in words of the workgroup, and the values of other keys are stored
// as zeros.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;
static constexpr int64_t kWordBits = 32;

/// Where the masks were not tested, every key is seen.
bool SeenKeys::dropValues(bool isTested) const {
  return thread.kernel.dropsUnseen() &&
         (isTested || !form.seen || !isTestedInBranch());
}

void SeenKeys::clear() {
  if (!form.seen)
    return;
  Value words = e.i32(thread.kernel.tiles.seenWords);
  e.branch(e.less(thread.id, words),
           [&]() { thread.matrices.write(thread.seen, thread.id, e.i32(0)); });
}

LogicalResult SeenKeys::note(Slab &slab) {
  if (!thread.kernel.dropsUnseen() || !form.seen)
    return success();
  FailureOr<Fragments> visible =
      slab.layout.tile(form.seen.getSource(), form.blockKey);
  if (failed(visible))
    return failure();
  int64_t inWord = kWordBits / kSide;
  for (int64_t word = 0; word < thread.kernel.tiles.seenWords; ++word) {
    Value bits = e.i32(0);
    ArrayRef<Values> matrices = ArrayRef(*visible).drop_front(word * inWord);
    for (auto [m, matrix] : llvm::enumerate(matrices.take_front(inWord)))
      for (auto [element, column] : llvm::zip(matrix, thread.elementColumns)) {
        Value bit = e.select(element, e.i32(1 << (m * kSide)), e.i32(0));
        bits = e.bitOr(bits, arith::ShLIOp::create(e.b, e.loc, bit, column));
      }
    thread.matrices.addBits(thread.seen, e.i32(word), bits);
  }
  return success();
}

FailureOr<Value> SeenKeys::isSeen(Value key) {
  if (!form.seen) {
    Value at = e.toIndex(key);
    return slabs[0].slicer.lanes(form.seenKeys, {at, at, 0});
  }
  Value word = thread.matrices.read(thread.seen, e.div(key, kWordBits));
  Value bit =
      arith::ShRUIOp::create(e.b, e.loc, word, e.bitAnd(key, kWordBits - 1));
  Value isSeen = e.equals(e.bitAnd(bit, 1), 1);
  if (!isTestedInBranch())
    return isSeen;
  Value isTested = slabs[0].scalars.lookup(form.masked.getCondition());
  return e.bitOr(isSeen, e.equals(isTested, 0));
}

FailureOr<Value> SeenKeys::isAnySeen() {
  Value any;
  for (Slab &slab : slabs) {
    FailureOr<Fragments> visible =
        slab.layout.tile(form.seen.getSource(), form.blockKey);
    if (failed(visible))
      return failure();
    for (const Values &matrix : *visible)
      for (Value element : matrix)
        any = any ? e.bitOr(any, element) : element;
  }
  Matrices &matrices = thread.matrices;
  Value vote = e.i32(thread.kernel.tiles.seenWords);
  // What was read there before was read by all.
  matrices.workgroupBarrier();
  e.branch(e.equals(thread.id, 0),
           [&]() { matrices.write(thread.seen, vote, e.i32(0)); });
  matrices.workgroupBarrier();
  e.branch(any, [&]() { matrices.addBits(thread.seen, vote, e.i32(1)); });
  matrices.workgroupBarrier();
  return e.equals(matrices.read(thread.seen, vote), 1);
}
