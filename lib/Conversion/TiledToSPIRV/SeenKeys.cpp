//===- SeenKeys.cpp - Which keys of a block some row sees -----------------===//

#include "SeenKeys.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

FailureOr<Value> SeenKeys::voteAny() {
  FailureOr<Registers> visible = layout.scores(form.seen.getSource());
  if (failed(visible))
    return failure();
  Value any;
  for (Value element : *visible)
    any = any ? e.bitOr(any, element) : element;
  return voteAny(any);
}

LogicalResult SeenKeys::note() {
  if (!form.seen)
    return success();
  FailureOr<Registers> visible = layout.scores(form.seen.getSource());
  if (failed(visible))
    return failure();
  ArrayRef<Value> keys = layout.keyNumbers();
  Value line = e.mul(row, form.blockKey);
  auto store = [&]() {
    for (auto [j, key] : llvm::enumerate(keys)) {
      Value any;
      for (size_t i = j; i < visible->size(); i += keys.size())
        any = any ? e.bitOr(any, (*visible)[i]) : (*visible)[i];
      Value word = e.select(any, e.i32(1), e.i32(0));
      Value at = e.add(line, key);
      if (form.hasPaddedKeys)
        e.branch(e.less(key, e.index(form.blockKey)),
                 [&]() { words.store(e, word, at); });
      else
        words.store(e, word, at);
    }
  };
  if (isWriter)
    e.branch(isWriter, store);
  else
    store();
  return success();
}

FailureOr<Value> SeenKeys::isSeen(Value key) {
  if (!form.seen)
    return layout.element(form.flags, key);
  auto ask = [&]() {
    Value any;
    for (int64_t line = 0; line < form.rowThreads; ++line) {
      Value word = words.load(e, e.add(key, line * form.blockKey));
      any = any ? e.bitOr(any, word) : word;
    }
    return Registers{e.equals(any, 1)};
  };
  // Where the masks were not tested, every key is seen.
  if (form.masked && form.masked->isAncestor(form.seen)) {
    Value tested = scalars.lookup(form.masked.getCondition());
    Value yes = e.like(e.zero(e.b.getI1Type()), 1);
    return e.branch(tested, yes, ask)[0];
  }
  return ask()[0];
}
