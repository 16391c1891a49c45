//===- VectorPacking.cpp - Operands of vector instructions ----------------===//
//
// Keys are packed once per key/value head as [block][panel][step][columns], so
// that the inner loop of the scores reads whole vectors in order. Values are
// read in place where the instruction can, else packed as
// [block][step][columns]. Queries are copied once per task, as words.
//
//===----------------------------------------------------------------------===//

#include "VectorProduct.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

static int64_t roundUp(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

void VectorProduct::allocate(Emitter &e, Value heads) {
  TiledForm &form = kernel.form;
  vector::TransferReadOp operand = form.key ? form.key : form.value;
  if (!operand)
    return;
  blocks = e.ceilDiv(sequenceLength(e, operand), form.blockKey);
  Value positions = e.mul(heads, blocks);
  auto allocate = [&](ArrayRef<int64_t> shape) -> Value {
    SmallVector<int64_t> sizes = {ShapedType::kDynamic};
    llvm::append_range(sizes, shape);
    return memref::AllocOp::create(e.b, e.loc,
                                   MemRefType::get(sizes, lanes->factor),
                                   positions, e.b.getI64IntegerAttr(64));
  };
  // A transpose of words makes as many steps as a register has lanes.
  int64_t steps =
      lanes->depth == 1 ? querySteps() : roundUp(querySteps(), kernel.width);
  if (packsKeys())
    packedKeys = allocate(
        {kernel.panels(), steps, kernel.registerColumns * lanes->depth});
  if (packsValues())
    packedValues = allocate(
        {lanes->steps(form.blockKey), kernel.valueColumns * lanes->depth});
}

void VectorProduct::deallocate(Emitter &e) {
  for (Value workspace : {packedKeys, packedValues})
    if (workspace)
      memref::DeallocOp::create(e.b, e.loc, workspace);
}

void VectorProduct::beginThread(Emitter &e) {
  query = LeftRows::allocate(e, kernel.rows, kernel.registerRows,
                             std::max<int64_t>(querySteps(), 1), kernel.vector);
  scores = LeftRows::allocate(e, kernel.rows, kernel.registerRows, kernel.keys,
                              kernel.vector);
}

void VectorProduct::pack(Emitter &e, IRMapping &scalars, Value head,
                         Value block) {
  TiledForm &form = kernel.form;
  Value position = e.add(e.mul(head, blocks), block);
  Value firstKey = e.mul(block, form.blockKey);
  if (packsKeys()) {
    Value view = scalars.lookupOrDefault(Value(form.key.getBase()));
    e.loop(e.index(0), e.index(kernel.panels()), 1, [&](Value panel) {
      packKeyPanel(e, view, position, panel,
                   e.add(firstKey, e.mul(panel, kernel.registerColumns)));
    });
  }
  if (!packsValues())
    return;
  Value view = scalars.lookupOrDefault(Value(form.value.getBase()));
  e.loop(e.index(0), e.index(lanes->steps(form.blockKey)), 1, [&](Value step) {
    Value key = e.add(firstKey, e.mul(step, lanes->depth));
    forEachPiece(
        e, form.valueDim, kernel.width, [&](Value column, int64_t count) {
          e.store(lanes->packValues(e, view, key, column, count), packedValues,
                  {position, step, e.mul(column, lanes->depth)});
        });
  });
}

void VectorProduct::packKeyPanel(Emitter &e, Value view, Value position,
                                 Value panel, Value firstKey) {
  e.loop(e.index(0), e.index(kernel.registerColumns), kernel.width,
         [&](Value group) {
           lanes->packKeys(
               e, view, e.add(firstKey, group), [&](Value step, Value factors) {
                 e.store(factors, packedKeys,
                         {position, panel, step, e.mul(group, lanes->depth)});
               });
         });
}

void VectorProduct::loadQuery(Task &task) {
  TiledForm &form = kernel.form;
  vector::TransferReadOp read = form.query;
  if (!read)
    return;
  Emitter &e = task.e;
  Value view = task.slicer.scalar(read.getBase());
  Value firstRow = task.slicer.scalar(read.getIndices()[0]);
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    forEachPiece(e, form.headDim, kernel.width * lanes->depth,
                 [&](Value column, int64_t count) {
                   Value words = lanes->loadQuery(e, view, e.add(firstRow, row),
                                                  column, count);
                   e.store(words, query.memory,
                           query.at(e, row, e.div(column, lanes->depth)));
                 });
  });
}
