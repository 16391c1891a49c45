//===- Results.cpp - Output and lse ---------------------------------------===//
//
// Every thread writes the elements that it holds. Of those that share a row the
// one in the first column writes the row's lse.
//
//===----------------------------------------------------------------------===//

#include "CoopKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::coop;

static constexpr int64_t kSide = CoopMatrixTiles::kSide;

namespace {
/// A result's view in main memory and the task's first row of it.
struct ResultRows {
  Value view, firstRow, length;

  ResultRows(GpuEmitter &e, vector::TransferWriteOp write,
             const IRMapping &scalars)
      : view(scalars.lookup(write.getBase())),
        firstRow(scalars.lookup(write.getIndices()[0])),
        length(memref::DimOp::create(e.b, e.loc, view, int64_t(0))) {}
};
} // namespace

static LogicalResult writeOutput(Thread &thread, const ResultRows &rows,
                                 Slab &slab) {
  GpuEmitter &e = thread.e;
  TiledForm &form = thread.kernel.form;
  bool valid = true;
  for (int64_t i = 0; i < slab.layout.count(); ++i) {
    Value row = e.add(rows.firstRow, slab.layout.rowOf(i));
    e.branch(e.less(row, rows.length), [&]() {
      for (int64_t first = 0; first < form.valueDim; first += kSide) {
        Value column = e.add(slab.layout.columnOf(i), first);
        auto write = [&]() {
          FailureOr<Value> element =
              slab.layout.element(form.output.getVector(), first / kSide, i);
          valid &= succeeded(element);
          if (valid)
            memref::StoreOp::create(e.b, e.loc, *element, rows.view,
                                    ValueRange{row, column});
        };
        if (first + kSide <= form.valueDim)
          write();
        else
          e.branch(e.less(column, e.index(form.valueDim)), write);
      }
    });
  }
  return success(valid);
}

static LogicalResult writeLse(Thread &thread, const ResultRows &rows,
                              Slab &slab) {
  GpuEmitter &e = thread.e;
  FailureOr<Values> values =
      slab.layout.rows(thread.kernel.form.lse.getVector());
  if (failed(values))
    return failure();
  for (auto [i, value] : llvm::enumerate(*values)) {
    Value row = e.add(rows.firstRow, slab.layout.rowOf(i));
    Value isFirst = e.equals(thread.elementColumns[i], 0);
    e.branch(e.both(isFirst, e.less(row, rows.length)), [&, value = value]() {
      memref::StoreOp::create(e.b, e.loc, value, rows.view, row);
    });
  }
  return success();
}

LogicalResult coop::emitResults(Thread &thread, IRMapping &scalars,
                                std::deque<Slab> &slabs) {
  TiledForm &form = thread.kernel.form;
  for (Slab &slab : slabs) {
    if (form.output &&
        failed(writeOutput(thread, ResultRows(thread.e, form.output, scalars),
                           slab)))
      return failure();
    if (form.lse &&
        failed(writeLse(thread, ResultRows(thread.e, form.lse, scalars), slab)))
      return failure();
  }
  return success();
}
