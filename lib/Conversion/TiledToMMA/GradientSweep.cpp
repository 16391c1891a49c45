//===- GradientSweep.cpp - dK and dV, or dQ, by a sweep -------------------===//
//
// Scores are made again with what stays as rows, so that P and dX, packed as
// they come out of their products, are left sides of the gradients:
//
//   dK, dV: keys and values stay            dQ: queries and gradients stay
//     copy K, V; for each head of the group   copy Q, dO
//     for each query block that sees them     for each key block that is seen
//       S^T = K Q^T                             S = Q K^T
//       P^T = exp2(S^T - reference)             P = exp2(S - reference)
//       dV += P^T dO
//       dP^T = V dO^T                           dP = dO V^T
//       dX^T = P^T (dP^T - delta) ...           dX = P (dP - delta) ...
//       dK += dX^T Q                            dQ += dX K
//
// Blocks that pass come by asynchronous copies, with two stages or more ahead
// of their use. The arithmetic between the products is the tiled form's, cut to
// what a thread holds (BlockArithmetic).
//
// (Dao, "FlashAttention-2", 2023, section 3.2 and 3.3.)
//
//===----------------------------------------------------------------------===//

#include "../Common/GradientBlock.h"
#include "GradientKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

namespace {
/// What is carried from block to block.
struct SweepState {
  /// Blocks whose copies were issued, by first row (i32), the oldest first.
  SmallVector<Value> blocks;
  /// The stage of the oldest (i32).
  Value stage;
  /// Sums of dK or dQ, and of dV.
  Fragment head, value;

  SmallVector<Value> values() const {
    SmallVector<Value> all(blocks);
    all.push_back(stage);
    llvm::append_range(all, head.elements);
    llvm::append_range(all, value.elements);
    return all;
  }
  SweepState with(ValueRange values) const {
    SweepState state = *this;
    auto take = [&](MutableArrayRef<Value> targets) {
      llvm::copy(values.take_front(targets.size()), targets.begin());
      values = values.drop_front(targets.size());
    };
    take(state.blocks);
    take(state.stage);
    take(state.head.elements);
    take(state.value.elements);
    return state;
  }
};

/// `Layout` is TransposedLayout where keys stay.
template <typename Layout> class GradientSweep {
public:
  GradientSweep(Thread &thread, const GradientKernel &kernel, IRMapping &task)
      : thread(thread), e(thread.e), kernel(kernel), form(kernel.form),
        block(kernel.block()), task(task),
        blocks(thread, block.sweep, block.reach, block.seen,
               kernel.tiles.columns),
        seen(thread, form.queries.seenKeys, block.seen, block.masked,
             kernel.tiles.columns, kernel.seenAt, kernel.tiles.seenWords) {}

  LogicalResult emit();

private:
  /// Copies what stays.
  void start();
  /// One sweep after the scalars of a head, from the sums of `state` on.
  FailureOr<SweepState> sweep(IRMapping &head, SweepState state);
  FailureOr<SweepState> sweepAhead(IRMapping &head, SweepState state);
  FailureOr<SweepState> sweepInTurn(IRMapping &head, SweepState state);
  FailureOr<SweepState> visit(IRMapping &head, Value position, Value stage,
                              SweepState state);
  FailureOr<Value> findReached(IRMapping &head, Value position);
  LogicalResult write(const SweepState &state);

  /// The reads of what passes by, for the head.
  void copyBlock(IRMapping &head, Value position, Value stage);
  SharedTile passing(Value stage) {
    return {e.add(e.add(thread.shared, kernel.passesAt),
                  e.mul(stage, kernel.tiles.passes.bytes())),
            kernel.tiles.passes};
  }
  SharedTile passingValue(Value stage) {
    return {e.add(e.add(thread.shared, kernel.passesValueAt),
                  e.mul(stage, kernel.tiles.passesValue.bytes())),
            kernel.tiles.passesValue};
  }
  Value after(Value stage, int64_t distance);

  Layout makeLayout(TileSlicer &slicer);
  /// Reference or delta of the rows: of rows that pass, from memory.
  void bindRows(TransposedLayout &layout, IRMapping &scalars,
                vector::TransferReadOp read);
  void bindRows(AccumulatorLayout &layout, IRMapping &scalars,
                vector::TransferReadOp read);
  LogicalResult addPairs(TransposedLayout &, TileSlicer &, IRMapping &) {
    return success();
  }
  LogicalResult addPairs(AccumulatorLayout &layout, TileSlicer &slicer,
                         IRMapping &scalars) {
    return addPairGradients(thread, kernel, scalars, slicer, layout);
  }
  LogicalResult noteSeen(TransposedLayout &) { return success(); }
  LogicalResult noteSeen(AccumulatorLayout &layout) {
    return seen.note(layout, 0);
  }

  vector::TransferReadOp passes() {
    return kernel.isKeys ? block.query : block.key;
  }
  vector::TransferReadOp passesValue() {
    return kernel.isKeys ? block.outputGradient : block.value;
  }

  Thread &thread;
  GpuEmitter &e;
  const GradientKernel &kernel;
  GradientForm &form;
  GradientBlock &block;
  IRMapping &task;
  SweepBlocks blocks;
  SeenKeys seen;
  Value end;
  RowPair references, deltas;
};
} // namespace

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {
/// Where the thread's elements of a block begin (i32), made where it is used:
/// kept from block to block it would take registers of the accumulators.
struct Place {
  Value row, column;

  explicit Place(Thread &thread) {
    GpuEmitter &e = thread.e;
    Value id = thread.readId(), lane = e.bitAnd(id, MmaTiles::kLanes - 1);
    Value group = e.div(id, MmaTiles::kLanes * thread.kernel.split);
    row = e.add(e.mul(group, MmaTiles::kRows), e.div(lane, 4));
    column = e.mul(e.bitAnd(lane, 3), 2);
  }
};
} // namespace

template <>
TransposedLayout
GradientSweep<TransposedLayout>::makeLayout(TileSlicer &slicer) {
  Place place(thread);
  return TransposedLayout(e, slicer, place.row, place.column);
}

template <>
AccumulatorLayout
GradientSweep<AccumulatorLayout>::makeLayout(TileSlicer &slicer) {
  Place place(thread);
  return AccumulatorLayout(e, slicer, e.toIndex(place.row),
                           e.toIndex(place.column));
}

/// A number for each query of the thread, two at a time: scratch has whole
/// blocks of 16 rows.
static SmallVector<Value> readPerQuery(Thread &thread, IRMapping &scalars,
                                       vector::TransferReadOp read) {
  GpuEmitter &e = thread.e;
  Value view = scalars.lookup(read.getBase());
  Type element = read.getVectorType().getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, view);
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(
      e.b, e.loc, meta.getBaseBuffer());
  Value first =
      e.add(e.add(meta.getOffset(), scalars.lookup(read.getIndices()[0])),
            e.toIndex(Place(thread).column));
  address = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(),
                                       e.add(address, e.mul(first, bytes)));
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext(), 1);
  SmallVector<Value> numbers;
  for (int64_t query = 0; query < read.getVectorType().getDimSize(0);
       query += 8) {
    Value place = LLVM::IntToPtrOp::create(e.b, e.loc, pointer,
                                           e.add(address, query * bytes));
    Value pair = LLVM::LoadOp::create(e.b, e.loc, VectorType::get(2, element),
                                      place, 2 * bytes);
    for (int64_t i : {0, 1})
      numbers.push_back(vector::ExtractOp::create(e.b, e.loc, pair, i));
  }
  return numbers;
}

template <typename Layout>
void GradientSweep<Layout>::bindRows(TransposedLayout &layout,
                                     IRMapping &scalars,
                                     vector::TransferReadOp read) {
  if (read)
    layout.bindPerQuery(read, readPerQuery(thread, scalars, read));
}

template <typename Layout>
void GradientSweep<Layout>::bindRows(AccumulatorLayout &layout, IRMapping &,
                                     vector::TransferReadOp read) {
  if (read)
    layout.bind(read, read == block.reference ? references : deltas);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

template <typename Layout> void GradientSweep<Layout>::start() {
  const MmaGradientTiles::Sweep &tiles = kernel.tiles;
  auto copy = [&](vector::TransferReadOp read, const MmaTiles::Tile &tile,
                  int64_t GradientForm::*width, int64_t at) {
    if (!read)
      return;
    Value address = e.add(thread.shared, at);
    clearPadding(thread, tile, form.*width, address, tile.rows);
    TileCopy(thread, tile, read, task)
        .issue(address, task.lookup(read.getIndices()[0]));
  };
  copy(kernel.isKeys ? block.key : block.query, tiles.stays,
       &GradientForm::headDim, kernel.staysAt);
  copy(kernel.isKeys ? block.value : block.outputGradient, tiles.staysValue,
       &GradientForm::valueDim, kernel.staysValueAt);
  commitCopies(e);
  clearPadding(thread, tiles.passes, form.headDim,
               e.add(thread.shared, kernel.passesAt),
               kernel.stages * tiles.passes.rows);
  clearPadding(thread, tiles.passesValue, form.valueDim,
               e.add(thread.shared, kernel.passesValueAt),
               kernel.stages * tiles.passesValue.rows);
}

template <typename Layout>
void GradientSweep<Layout>::copyBlock(IRMapping &head, Value position,
                                      Value stage) {
  e.branch(e.less(position, end), [&]() {
    // The views of rows depend on the head, not on the block.
    IRMapping scalars(head);
    scalars.map(block.sweep.getInductionVar(), e.toIndex(position));
    cloneScalars(e, *block.sweep.getBody(), scalars);
    if (block.reach)
      cloneScalars(e, *block.reach.thenBlock(), scalars);
    auto copy = [&](vector::TransferReadOp read, SharedTile target) {
      if (read)
        TileCopy(thread, target.tile, read, scalars)
            .issue(target.address, scalars.lookup(read.getIndices()[0]));
    };
    copy(passes(), passing(stage));
    copy(passesValue(), passingValue(stage));
  });
}

template <typename Layout>
Value GradientSweep<Layout>::after(Value stage, int64_t distance) {
  Value next = e.add(stage, distance);
  return e.select(e.less(next, e.i32(kernel.stages)), next,
                  e.add(next, -kernel.stages));
}

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

template <typename Layout>
FailureOr<Value> GradientSweep<Layout>::findReached(IRMapping &head,
                                                    Value position) {
  auto anyVisible = [&](IRMapping &scalars) -> FailureOr<Value> {
    TileSlicer slicer(e.b, e.loc, scalars);
    Layout layout = makeLayout(slicer);
    vector::MultiDimReductionOp op = block.seen;
    FailureOr<Fragment> visible =
        layout.tile(op.getSource(), kernel.tiles.columns);
    if (failed(visible))
      return failure();
    return anyOf(e, *visible);
  };
  return blocks.findReached(head, position, end, anyVisible);
}

template <typename Layout>
FailureOr<SweepState> GradientSweep<Layout>::visit(IRMapping &head,
                                                   Value position, Value stage,
                                                   SweepState state) {
  FailureOr<IRMapping> scalars = blocks.enter(head, position);
  if (failed(scalars))
    return failure();
  TileSlicer slicer(e.b, e.loc, *scalars);
  Layout layout = makeLayout(slicer);
  BlockArithmetic<Layout> arithmetic(e, block, layout, *scalars,
                                     kernel.tiles.columns);
  bindRows(layout, *scalars, block.reference);
  const MmaGradientTiles::Sweep &tiles = kernel.tiles;
  auto multiply = [&](int64_t at, const MmaTiles::Tile &stays,
                      SharedTile other) {
    return multiplyRows(thread, {e.add(thread.shared, at), stays}, other)[0];
  };
  auto accumulate = [&](Fragment &left, Fragment &sum, SharedTile right) {
    Registers packed = packLeftSide(e, left, form.elementType);
    multiplyColumns(thread, packed, sum, right);
  };
  Fragment scores;
  if (block.scores)
    scores = multiply(kernel.staysAt, tiles.stays, passing(stage));
  FailureOr<Fragment> p =
      arithmetic.probabilities(scores, [&]() { return noteSeen(layout); });
  if (failed(p))
    return failure();
  if (!state.value.elements.empty())
    accumulate(*p, state.value, passingValue(stage));
  Fragment ofProbabilities;
  if (block.probabilityGradient)
    ofProbabilities =
        multiply(kernel.staysValueAt, tiles.staysValue, passingValue(stage));
  bindRows(layout, *scalars, block.delta);
  FailureOr<Fragment> dx = arithmetic.ofProducts(*p, ofProbabilities);
  if (failed(dx) || failed(addPairs(layout, slicer, *scalars)))
    return failure();
  if (state.head.elements.empty())
    return state;
  if (!kernel.isKeys && failed(seen.clear(slicer, *scalars, passing(stage))))
    return failure();
  accumulate(*dx, state.head, passing(stage));
  return state;
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

template <typename Layout>
FailureOr<SweepState> GradientSweep<Layout>::sweepAhead(IRMapping &head,
                                                        SweepState state) {
  bool valid = true;
  auto find = [&](Value position) {
    FailureOr<Value> found = findReached(head, position);
    valid &= succeeded(found);
    return valid ? *found : position;
  };
  Value position = e.toI32(head.lookup(block.sweep.getLowerBound()));
  for (int64_t i = 0; i < kernel.stages - 1; ++i) {
    position = find(i > 0 ? e.add(position, kernel.tiles.columns) : position);
    copyBlock(head, position, e.i32(i));
    commitCopies(e);
    state.blocks.push_back(position);
  }
  state.stage = e.i32(0);
  auto isBlock = [&](ValueRange carried) { return e.less(carried[0], end); };
  SmallVector<Value> last =
      e.repeatWhile(state.values(), isBlock, [&](ValueRange carried) {
        SweepState inner = state.with(carried);
        waitCopies(e, kernel.stages - 2);
        thread.barrier();
        Value next = find(e.add(inner.blocks.back(), kernel.tiles.columns));
        copyBlock(head, next, after(inner.stage, kernel.stages - 1));
        commitCopies(e);
        FailureOr<SweepState> done =
            visit(head, inner.blocks.front(), inner.stage, inner);
        valid &= succeeded(done);
        if (!valid)
          return SmallVector<Value>(carried);
        inner = *done;
        inner.blocks.erase(inner.blocks.begin());
        inner.blocks.push_back(next);
        inner.stage = after(inner.stage, 1);
        return inner.values();
      });
  if (!valid)
    return failure();
  state = state.with(last);
  state.blocks.clear();
  return state;
}

template <typename Layout>
FailureOr<SweepState> GradientSweep<Layout>::sweepInTurn(IRMapping &head,
                                                         SweepState state) {
  bool valid = true;
  auto find = [&](Value position) {
    FailureOr<Value> found = findReached(head, position);
    valid &= succeeded(found);
    return valid ? *found : position;
  };
  state.blocks = {find(e.toI32(head.lookup(block.sweep.getLowerBound())))};
  state.stage = e.i32(0);
  auto isBlock = [&](ValueRange carried) { return e.less(carried[0], end); };
  SmallVector<Value> last =
      e.repeatWhile(state.values(), isBlock, [&](ValueRange carried) {
        SweepState inner = state.with(carried);
        Value position = inner.blocks.front();
        copyBlock(head, position, inner.stage);
        commitCopies(e);
        waitCopies(e, 0);
        thread.barrier();
        FailureOr<SweepState> done = visit(head, position, inner.stage, inner);
        valid &= succeeded(done);
        if (!valid)
          return SmallVector<Value>(carried);
        inner = *done;
        thread.barrier();
        inner.blocks = {find(e.add(position, kernel.tiles.columns))};
        return inner.values();
      });
  if (!valid)
    return failure();
  state = state.with(last);
  state.blocks.clear();
  return state;
}

template <typename Layout>
FailureOr<SweepState> GradientSweep<Layout>::sweep(IRMapping &head,
                                                   SweepState state) {
  end = e.toI32(head.lookup(block.sweep.getUpperBound()));
  // The sweep before this one is done with its stages.
  waitCopies(e, 0);
  thread.barrier();
  return kernel.stages > 1 ? sweepAhead(head, state) : sweepInTurn(head, state);
}

template <typename Layout>
LogicalResult GradientSweep<Layout>::write(const SweepState &state) {
  TileSlicer slicer(e.b, e.loc, task);
  AccumulatorLayout layout(e, slicer,
                           e.toIndex(e.add(thread.warpRow, thread.row())),
                           e.toIndex(thread.column()));
  auto writeSum = [&](vector::TransferWriteOp output, Value sum,
                      const Fragment &fragment, int64_t columns) {
    if (!output)
      return success();
    if (sum)
      layout.bind(sum, fragment);
    return writeTile(thread, task, layout, output, columns);
  };
  if (!kernel.isKeys) {
    Value sum;
    if (block.sweep && block.sweep.getNumResults() != 0)
      sum = block.sweep.getResult(0);
    return writeSum(form.queries.output, sum, state.head,
                    kernel.tiles.headColumns);
  }
  scf::ForOp group = form.keys.group;
  ValueRange sums = group.getResults();
  return success(succeeded(writeSum(form.keys.keyOutput, sums.front(),
                                    state.head, kernel.tiles.headColumns)) &&
                 succeeded(writeSum(form.keys.valueOutput, sums.back(),
                                    state.value, kernel.tiles.valueColumns)));
}

template <typename Layout> LogicalResult GradientSweep<Layout>::emit() {
  SweepState state;
  if (!block.sweep)
    return write(state);
  start();
  Value zero = e.zero(form.accumulatorType);
  bool hasHead =
      kernel.isKeys ? bool(form.keys.keyOutput) : bool(form.queries.output);
  if (hasHead)
    state.head.elements.assign(kernel.tiles.headColumns / 2, zero);
  if (kernel.isKeys && form.keys.valueOutput)
    state.value.elements.assign(kernel.tiles.valueColumns / 2, zero);
  FailureOr<SweepState> done = failure();
  if (!kernel.isKeys) {
    TileSlicer slicer(e.b, e.loc, task);
    AccumulatorLayout layout(e, slicer,
                             e.toIndex(e.add(thread.warpRow, thread.row())),
                             e.toIndex(thread.column()));
    for (auto [read, rows] : {std::pair{block.reference, &references},
                              std::pair{block.delta, &deltas}}) {
      if (!read)
        continue;
      FailureOr<RowPair> numbers = layout.rows(read);
      if (failed(numbers))
        return failure();
      *rows = *numbers;
    }
    done = sweep(task, state);
    return failed(done) ? failure() : write(*done);
  }
  scf::ForOp group = form.keys.group;
  bool valid = true;
  SmallVector<Value> inits(state.head.elements);
  llvm::append_range(inits, state.value.elements);
  SmallVector<Value> sums = e.loop(
      task.lookup(group.getLowerBound()), task.lookup(group.getUpperBound()),
      task.lookup(group.getStep()), inits,
      [&](Value number, ValueRange carried) {
        IRMapping head(task);
        head.map(group.getInductionVar(), number);
        WarpScalars warp(e, head, e.toIndex(thread.lane));
        SweepState inner = state;
        size_t ofHead = inner.head.elements.size();
        llvm::copy(carried.take_front(ofHead), inner.head.elements.begin());
        llvm::copy(carried.drop_front(ofHead), inner.value.elements.begin());
        FailureOr<SweepState> next = failure();
        if (succeeded(warp.clone(*group.getBody())))
          next = sweep(head, inner);
        valid &= succeeded(next);
        if (!valid)
          return SmallVector<Value>(carried);
        SmallVector<Value> yielded(next->head.elements);
        llvm::append_range(yielded, next->value.elements);
        return yielded;
      });
  if (!valid)
    return failure();
  size_t ofHead = state.head.elements.size();
  llvm::copy(ArrayRef(sums).take_front(ofHead), state.head.elements.begin());
  llvm::copy(ArrayRef(sums).drop_front(ofHead), state.value.elements.begin());
  return write(state);
}

LogicalResult mma::emitGradientTask(Thread &thread,
                                    const GradientKernel &kernel,
                                    IRMapping &scalars) {
  if (kernel.isKeys)
    return GradientSweep<TransposedLayout>(thread, kernel, scalars).emit();
  return GradientSweep<AccumulatorLayout>(thread, kernel, scalars).emit();
}
