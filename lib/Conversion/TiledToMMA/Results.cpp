//===- Results.cpp - Output and lse ---------------------------------------===//
//
// Every thread writes what it holds: pairs of neighbours where two elements are
// aligned, four lanes a row, else one by one.
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

namespace {
/// Where the rows of a slab's output lie.
struct OutputRows {
  /// i64: address of the thread's first element. i1: the row is real.
  Value address[2], isReal[2];
  /// i1: pairs are aligned.
  Value hasPairs;
  /// i64.
  Value columnBytes;
};
} // namespace

static Value toI64(GpuEmitter &e, Value index) {
  return arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), index);
}

static Value pointerAt(GpuEmitter &e, Value address) {
  auto type = LLVM::LLVMPointerType::get(e.b.getContext(), 1);
  return LLVM::IntToPtrOp::create(e.b, e.loc, type, address);
}

LogicalResult mma::writeTile(Thread &thread, IRMapping &scalars,
                             AccumulatorLayout &layout,
                             vector::TransferWriteOp write, int64_t columns) {
  GpuEmitter &e = thread.e;
  Value view = scalars.lookup(write.getBase());
  Value firstRow = scalars.lookup(write.getIndices()[0]);
  Type element = write.getVectorType().getElementType();
  int64_t width = write.getVectorType().getDimSize(1);
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;

  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, view);
  Value pointer = memref::ExtractAlignedPointerAsIndexOp::create(
      e.b, e.loc, meta.getBaseBuffer());
  Value base = toI64(e, e.add(pointer, e.mul(meta.getOffset(), bytes)));
  Value rowBytes = toI64(e, e.mul(meta.getStrides()[0], bytes));
  Value columnBytes = toI64(e, e.mul(meta.getStrides()[1], bytes));
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  Value firstColumn = e.add(e.mul(thread.part, columns), thread.column());
  Value start =
      e.add(base, e.mul(toI64(e, e.toIndex(firstColumn)), columnBytes));
  OutputRows rows;
  for (int64_t half : {0, 1}) {
    Value row = e.add(firstRow, layout.rowOf(half));
    rows.isReal[half] = e.less(row, length);
    rows.address[half] = e.add(start, e.mul(toI64(e, row), rowBytes));
  }
  auto isPacked = e.equals(columnBytes, bytes);
  Value low = e.bitAnd(e.bitOr(base, rowBytes), 2 * bytes - 1);
  Value hasPairs = e.both(isPacked, e.equals(low, 0));

  auto storeElements = [&](int64_t group, int64_t half, Value pair) {
    for (int64_t i : {0, 1}) {
      Value column = e.add(firstColumn, 8 * group + i);
      e.branch(e.less(column, e.i32(width)), [&]() {
        Value at = e.add(rows.address[half], e.mul(columnBytes, 8 * group + i));
        Value single = vector::ExtractOp::create(e.b, e.loc, pair, i);
        LLVM::StoreOp::create(e.b, e.loc, single, pointerAt(e, at), bytes);
      });
    }
  };
  auto storePair = [&](int64_t group, int64_t half, Value pair) {
    auto store = [&]() {
      Value at = e.add(rows.address[half], 8 * group * bytes);
      LLVM::StoreOp::create(e.b, e.loc, pair, pointerAt(e, at), 2 * bytes);
    };
    if (columns * thread.kernel.split == width)
      return store();
    Value column = e.add(firstColumn, 8 * group);
    e.branch(e.less(column, e.i32(width)), store);
  };
  // Made once for both ways of writing them.
  SmallVector<Value> pairs;
  if (failed(layout.forEachPair(
          write.getVector(), columns,
          [&](int64_t, int64_t, Value pair) { pairs.push_back(pair); })))
    return failure();
  auto storeAll = [&](function_ref<void(int64_t, int64_t, Value)> store) {
    for (int64_t half : {0, 1})
      e.branch(rows.isReal[half], [&]() {
        for (int64_t group = 0; group < columns / 8; ++group)
          store(group, half, pairs[2 * group + half]);
      });
  };
  if (width % 2 != 0) {
    storeAll(storeElements);
    return success();
  }
  scf::IfOp::create(
      e.b, e.loc, hasPairs,
      [&](OpBuilder &, Location) {
        storeAll(storePair);
        scf::YieldOp::create(e.b, e.loc);
      },
      [&](OpBuilder &, Location) {
        storeAll(storeElements);
        scf::YieldOp::create(e.b, e.loc);
      });
  return success();
}

static LogicalResult writeLse(Thread &thread, TiledForm &form,
                              IRMapping &scalars, Slab &slab) {
  GpuEmitter &e = thread.e;
  FailureOr<RowPair> values = slab.layout.rows(form.lse.getVector());
  if (failed(values))
    return failure();
  Value view = scalars.lookup(form.lse.getBase());
  Value firstRow = scalars.lookup(form.lse.getIndices()[0]);
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  Value writes = e.both(thread.isRowLeader(), e.equals(thread.part, 0));
  for (int64_t half : {0, 1}) {
    Value row = e.add(firstRow, slab.layout.rowOf(half));
    e.branch(e.both(writes, e.less(row, length)), [&]() {
      memref::StoreOp::create(e.b, e.loc, (*values)[half], view, row);
    });
  }
  return success();
}

LogicalResult mma::emitResults(Thread &thread, const MmaKernel &kernel,
                               IRMapping &scalars, std::deque<Slab> &slabs) {
  TiledForm &form = kernel.form;
  for (Slab &slab : slabs) {
    if (form.output &&
        failed(writeTile(thread, scalars, slab.layout, form.output,
                         kernel.tiles.accumulatorColumns)))
      return failure();
    if (form.lse && failed(writeLse(thread, form, scalars, slab)))
      return failure();
  }
  return success();
}
