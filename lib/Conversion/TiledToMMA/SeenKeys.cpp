//===- SeenKeys.cpp - Rows of shared memory whose key nobody sees ---------===//

#include "MmaKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

Value SeenKeys::addressOf(Value slab) {
  return e.add(e.add(thread.shared, at), e.mul(slab, words * 4));
}

LogicalResult SeenKeys::note(AccumulatorLayout &layout, int64_t slab) {
  if (!keys || !seen)
    return success();
  FailureOr<Fragment> visible = layout.tile(seen.getSource(), blockKey);
  if (failed(visible))
    return failure();
  Value target =
      addressOf(e.add(e.mul(thread.warp, thread.kernel.slabs), slab));
  Type word = e.b.getI32Type();
  for (int64_t w = 0; w < words; ++w) {
    Value bits = e.i32(0);
    for (int64_t group = 4 * w;
         group < std::min(visible->groups(), 4 * (w + 1)); ++group)
      for (int64_t i : {0, 1}) {
        Value either =
            e.bitOr(visible->at(group, 0, i), visible->at(group, 1, i));
        either = arith::ExtUIOp::create(e.b, e.loc, word, either);
        either = arith::ShLIOp::create(e.b, e.loc, either,
                                       e.i32(8 * (group % 4) + i));
        bits = e.bitOr(bits, either);
      }
    bits = arith::ShLIOp::create(e.b, e.loc, bits, thread.column());
    bits = e.ptx("redux.sync.or.b32 $0, $1, 0xffffffff;", "=r,r", {word},
                 {bits})[0];
    e.branch(e.equals(thread.lane, 0), [&]() {
      e.ptx("st.shared.b32 [$0], $1;", "r,r,~{memory}",
            {e.add(target, 4 * w), bits});
    });
  }
  return success();
}

FailureOr<Value> SeenKeys::isSeen(TileSlicer &slicer, Value key) {
  if (!seen) {
    Value place = e.toIndex(key);
    FailureOr<Value> lane = slicer.lanes(keys, {place, place, 1});
    if (failed(lane))
      return failure();
    return Value(vector::ExtractOp::create(e.b, e.loc, *lane, 0));
  }
  int64_t noted = thread.kernel.warps * thread.kernel.slabs;
  Value word = e.mul(e.div(key, 32), 4), bits = e.i32(0);
  for (int64_t slab = 0; slab < noted; ++slab)
    bits = e.bitOr(bits, e.ptx("ld.shared.b32 $0, [$1];", "=r,r,~{memory}",
                               {e.b.getI32Type()},
                               {e.add(addressOf(e.i32(slab)), word)})[0]);
  bits = arith::ShRUIOp::create(e.b, e.loc, bits, e.bitAnd(key, 31));
  return e.equals(e.bitAnd(bits, 1), 1);
}

/// A warp a row.
LogicalResult SeenKeys::clearRows(TileSlicer &slicer, SharedTile stage) {
  bool valid = true;
  thread.barrier();
  e.loop(thread.warp, e.i32(stage.tile.rows), e.i32(thread.kernel.warps), {},
         [&](Value row, ValueRange) {
           FailureOr<Value> isKept = isSeen(slicer, row);
           valid &= succeeded(isKept);
           if (!valid)
             return SmallVector<Value>();
           e.branch(e.bitXor(*isKept, e.like(*isKept, 1)), [&]() {
             Value line = e.add(stage.address, e.mul(row, stage.tile.pitch));
             e.loop(e.mul(thread.lane, 16), e.i32(stage.tile.pitch),
                    e.i32(32 * 16), {}, [&](Value shift, ValueRange) {
                      Value zero = e.i32(0);
                      e.ptx("st.shared.v4.b32 [$0], {$1, $1, $1, $1};",
                            "r,r,~{memory}", {e.add(line, shift), zero});
                      return SmallVector<Value>();
                    });
           });
           return SmallVector<Value>();
         });
  thread.barrier();
  return success(valid);
}

LogicalResult SeenKeys::clear(TileSlicer &slicer, IRMapping &scalars,
                              SharedTile stage) {
  if (!keys)
    return success();
  LogicalResult cleared = success();
  auto clearAll = [&]() { cleared = clearRows(slicer, stage); };
  // Where the masks were not tested, every key is seen.
  if (seen && masked && masked->isAncestor(seen))
    e.branch(scalars.lookup(masked.getCondition()), clearAll);
  else
    clearAll();
  return cleared;
}
