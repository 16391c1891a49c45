//===- Results.cpp - Output and lse ---------------------------------------===//
//
// Every thread writes what it holds: quads of neighbours, as far as they are
// columns of the output. Of the threads that share a row the first writes the
// lse.
//
//===----------------------------------------------------------------------===//

#include "LaneKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::spv;

LogicalResult spv::writeTile(LaneThread &thread, IRMapping &scalars,
                             LaneLayout &layout, vector::TransferWriteOp write,
                             int64_t columnThreads) {
  GpuEmitter &e = thread.e;
  FailureOr<Registers> elements = layout.accumulator(write.getVector());
  if (failed(elements))
    return failure();
  Value view = scalars.lookup(write.getBase());
  Value firstRow = scalars.lookup(write.getIndices()[0]);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  int64_t width = write.getVectorType().getDimSize(1);
  auto viewType = cast<MemRefType>(view.getType());
  bool isPacked = viewType.getStridesAndOffset().first.back() == 1;
  ArrayRef<Value> columns = layout.columnNumbers();
  constexpr int64_t kQuad = LaneTiles::kQuad;
  auto quadType = VectorType::get(kQuad, viewType.getElementType());
  auto storeElement = [&](Value element, Value row, Value column) {
    memref::StoreOp::create(e.b, e.loc, element, view, ValueRange{row, column});
  };
  auto storeQuad = [&](ValueRange quad, Value row, Value column) {
    if (isPacked) {
      Value vector = vector::FromElementsOp::create(e.b, e.loc, quadType, quad);
      vector::StoreOp::create(e.b, e.loc, vector, view,
                              ValueRange{row, column});
      return;
    }
    for (auto [i, element] : llvm::enumerate(quad))
      storeElement(element, row, e.add(column, i));
  };
  int64_t wholeQuads = width / kQuad, rest = width % kQuad;
  bool isWhole = int64_t(columns.size()) * columnThreads == width;
  for (size_t i = 0; i < layout.numRows(); ++i) {
    Value row = e.add(firstRow, layout.rowNumbers()[i]);
    e.branch(e.less(row, length), [&]() {
      for (size_t j = 0; j < columns.size(); j += kQuad) {
        Value column = columns[j];
        ArrayRef<Value> quad =
            ArrayRef(*elements).slice(i * columns.size() + j, kQuad);
        if (isWhole) {
          storeQuad(quad, row, column);
          continue;
        }
        Value end = e.index(wholeQuads * kQuad);
        e.branch(e.less(column, end), [&]() { storeQuad(quad, row, column); });
        // The last columns of all.
        if (rest != 0)
          e.branch(e.equals(column, wholeQuads * kQuad), [&]() {
            for (int64_t d = 0; d < rest; ++d)
              storeElement(quad[d], row, e.add(column, d));
          });
      }
    });
  }
  return success();
}

LogicalResult spv::writePerRow(LaneThread &thread, IRMapping &scalars,
                               LaneLayout &layout,
                               vector::TransferWriteOp write, Value isWriter) {
  GpuEmitter &e = thread.e;
  FailureOr<Registers> values = layout.rows(write.getVector());
  if (failed(values))
    return failure();
  Value view = scalars.lookup(write.getBase());
  Value firstRow = scalars.lookup(write.getIndices()[0]);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  e.branch(isWriter, [&]() {
    for (auto [value, rowNumber] : llvm::zip(*values, layout.rowNumbers())) {
      Value row = e.add(firstRow, rowNumber), number = value;
      e.branch(e.less(row, length), [&]() {
        memref::StoreOp::create(e.b, e.loc, number, view, row);
      });
    }
  });
  return success();
}

LogicalResult spv::emitResults(Thread &thread, IRMapping &scalars,
                               LaneLayout &layout) {
  TiledForm &form = thread.kernel.form;
  if (form.output && failed(writeTile(thread, scalars, layout, form.output,
                                      thread.kernel.tiles.columnThreads)))
    return failure();
  if (form.lse && failed(writePerRow(thread, scalars, layout, form.lse,
                                     thread.e.equals(thread.column, 0))))
    return failure();
  return success();
}
