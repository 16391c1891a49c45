//===- MmaKernel.cpp - Shared memory and threads of a kernel --------------===//
//
// Shared memory, laid out by MmaTiles:
//
//   query | key stages | value stages | probabilities | seen keys
//
//===----------------------------------------------------------------------===//

#include "MmaKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

static LogicalResult verifyMappable(TiledForm &form) {
  const Tiling &t = form.tiling;
  auto refuse = [&](const Twine &what) {
    return form.tasks.emitOpError("cannot map tiles to warps: ") << what;
  };
  bool isNarrow = form.elementType.getWidth() == 16;
  if (t.product == "mma" && !isNarrow && form.sweep)
    return refuse("expected elements of f16 or bf16 for product = \"mma\"");
  if (t.product == "fma" && isNarrow && form.sweep)
    return refuse("expected elements of f32 or f64 for product = \"fma\"");
  int64_t rows = t.groups * MmaTiles::kRows;
  if (form.blockQuery % MmaTiles::kRows != 0 ||
      (form.blockQuery % rows != 0 && rows % form.blockQuery != 0))
    return refuse("expected block_query = 16 * groups, or a multiple or a "
                  "whole part of it in steps of 16");
  if (t.stages < 1)
    return refuse("expected one stage or more");
  if (form.sweep && form.blockKey % (t.product == "mma" ? 16 : 8) != 0)
    return refuse("expected a block_key that is a multiple of 16, or of 8 for "
                  "product = \"fma\"");
  if (t.groups * MmaTiles::kLanes > 1024)
    return refuse("expected at most 32 groups");
  return success();
}

FailureOr<MmaKernel> MmaKernel::plan(TiledForm &form) {
  if (failed(verifyMappable(form)))
    return failure();
  return MmaKernel(form);
}

MmaKernel::MmaKernel(TiledForm &form)
    : form(form), tiles(form.tiling, form.headDim, form.valueDim,
                        form.elementType.getWidth() / 8,
                        form.accumulatorType.getWidth() / 8) {
  elementType = form.elementType;
  accumulatorType = form.accumulatorType;
  usesTensorCores = form.tiling.product == "mma";
  warps = form.tiling.groups;
  stages = form.tiling.stages;
  split = tiles.split;
  slabs = tiles.slabs;
  exchange = tiles.probabilities;
  keyAt = queryAt + tiles.query.bytes();
  valueAt = keyAt + stages * tiles.key.bytes();
  exchangeAt = valueAt + stages * tiles.value.bytes();
  seenAt = exchangeAt + exchange.bytes();
  sharedBytes = tiles.sharedBytes(form.tiling);
}

Thread::Thread(GpuEmitter e, const WarpKernel &kernel, Value shared)
    : e(e), kernel(kernel), shared(shared) {
  id = NVVM::ThreadIdXOp::create(e.b, e.loc, e.b.getI32Type());
  lane = e.bitAnd(id, 31);
  // The same in all lanes, and known to be.
  warp = NVVM::ShflOp::create(e.b, e.loc, id.getType(), e.i32(-1),
                              e.div(id, MmaTiles::kLanes), e.i32(0), e.i32(31),
                              NVVM::ShflKind::idx, UnitAttr());
  part = e.rem(warp, kernel.split);
  warpRow = e.mul(e.div(warp, kernel.split), kernel.slabs * MmaTiles::kRows);
}

Value Thread::readId() {
  return e.ptx("mov.u32 $0, %tid.x;", "=r", {e.b.getI32Type()}, {})[0];
}

void Thread::barrier() { NVVM::Barrier0Op::create(e.b, e.loc); }

Slab::Slab(Thread &t, TiledForm &form, int64_t number)
    : slicer(t.e.b, t.e.loc, scalars),
      layout(t.e, slicer,
             t.e.toIndex(t.e.add(t.e.add(t.warpRow, t.row()),
                                 number * MmaTiles::kRows)),
             t.e.toIndex(t.column())),
      softmax(t.e, form, layout, scalars) {}

SmallVector<Fragment> mma::multiplyRows(Thread &thread, SharedTile left,
                                        SharedTile right) {
  return thread.kernel.usesTensorCores
             ? tensorcore::multiplyRows(thread, left, right)
             : lanes::multiplyRows(thread, left, right);
}

void mma::multiplyColumns(Thread &thread, ArrayRef<Registers> left,
                          MutableArrayRef<Fragment> acc, SharedTile right) {
  if (thread.kernel.usesTensorCores)
    tensorcore::multiplyColumns(thread, left, acc, right);
  else
    lanes::multiplyColumns(thread, left, acc, right);
}
