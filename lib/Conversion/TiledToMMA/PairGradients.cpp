//===- PairGradients.cpp - Gradients of bias and captures -----------------===//
//
// A thread has terms of the pairs that are its elements of a block. Terms for
// one element of the destination are first summed up over the sides of the tile
// that no index varies along: within the thread, then by shuffles. What is left
// is added in main memory,
//
// - atomically, where the order does not matter;
// - else in order. A warp at a time leaves its terms, with the address of the
//   element that each is for, in shared memory; all threads go through them,
//   and each adds those whose address is its own. So every element is added to
//   by one thread, in the order of the pairs.
//
//===----------------------------------------------------------------------===//

#include "GradientKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;
using namespace attn::mma;

namespace {
/// A number for an element in main memory. A thread adds it where `isMine`.
struct Term {
  /// The number; i64: its element's address; i1, null: always.
  Value number, address, isMine;
};

class PairSum {
public:
  PairSum(Thread &thread, const GradientKernel &kernel, IRMapping &scalars,
          TileSlicer &slicer, AccumulatorLayout &layout, PairGradient &pair);
  LogicalResult emit();

private:
  FailureOr<SmallVector<Term>> collect();
  FailureOr<Term> makeTerm(Value number, Value row, Value column);
  FailureOr<Value> index(unsigned dimension, const TileSlicer::Piece &piece);
  Value sumOverLanes(Value number, ArrayRef<int64_t> distances);
  void addAtomically(const Term &term);
  void addInOrder(ArrayRef<Term> terms);

  Thread &thread;
  GpuEmitter &e;
  const GradientKernel &kernel;
  TileSlicer &slicer;
  AccumulatorLayout &layout;
  PairGradient &pair;
  /// Whether an element of the destination is one row's, one column's.
  bool perRow = true, perColumn = true;
  FloatType type;
  Value view, base;
  SmallVector<Value> sizes, strides;
};
} // namespace

static Value toI64(GpuEmitter &e, Value index) {
  return arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), index);
}

PairSum::PairSum(Thread &thread, const GradientKernel &kernel,
                 IRMapping &scalars, TileSlicer &slicer,
                 AccumulatorLayout &layout, PairGradient &pair)
    : thread(thread), e(thread.e), kernel(kernel), slicer(slicer),
      layout(layout), pair(pair) {
  if (pair.terms != pair.tile) {
    auto sum = pair.terms.getDefiningOp<vector::MultiDimReductionOp>();
    perRow = !sum.isReducedDim(0);
    perColumn = !sum.isReducedDim(1);
  }
  view = scalars.lookup(pair.destination);
  type = cast<FloatType>(cast<MemRefType>(view.getType()).getElementType());
  auto meta = memref::ExtractStridedMetadataOp::create(e.b, e.loc, view);
  Value pointer = memref::ExtractAlignedPointerAsIndexOp::create(
      e.b, e.loc, meta.getBaseBuffer());
  base = e.add(pointer, e.mul(meta.getOffset(), type.getWidth() / 8));
  sizes = SmallVector<Value>(meta.getSizes());
  strides = SmallVector<Value>(meta.getStrides());
}

/// Of a bias the indices are where the block begins, in the order of rows and
/// columns that it has.
FailureOr<Value> PairSum::index(unsigned dimension,
                                const TileSlicer::Piece &piece) {
  Value index = pair.indices[dimension];
  if (pair.isPlace) {
    bool isRow = perRow && dimension == 0;
    return e.add(slicer.scalar(index), isRow ? piece.row : piece.column);
  }
  auto vector = dyn_cast<VectorType>(index.getType());
  if (!vector)
    return slicer.scalar(index);
  if (vector.getRank() == 2)
    return slicer.tile(index, piece);
  return perRow ? slicer.rowElement(index, piece) : slicer.lanes(index, piece);
}

FailureOr<Term> PairSum::makeTerm(Value number, Value row, Value column) {
  TileSlicer::Piece piece{row, column, 0};
  Term term{number, base, {}};
  for (unsigned dimension = 0; dimension < pair.indices.size(); ++dimension) {
    FailureOr<Value> place = index(dimension, piece);
    if (failed(place))
      return failure();
    Value bytes = e.mul(strides[dimension], type.getWidth() / 8);
    term.address = e.add(term.address, e.mul(*place, bytes));
    // Only blocks of a bias reach past the end.
    if (!pair.isPlace)
      continue;
    Value isReal = e.less(*place, sizes[dimension]);
    term.isMine = term.isMine ? e.both(term.isMine, isReal) : isReal;
  }
  term.address = toI64(e, term.address);
  return term;
}

Value PairSum::sumOverLanes(Value number, ArrayRef<int64_t> distances) {
  for (int64_t distance : distances)
    number =
        arith::AddFOp::create(e.b, e.loc, number, e.fromLane(number, distance));
  return number;
}

FailureOr<SmallVector<Term>> PairSum::collect() {
  FailureOr<Fragment> tile = layout.tile(pair.tile, kernel.tiles.columns);
  if (failed(tile))
    return failure();
  auto add = [&](Value x, Value y) -> Value {
    return x ? Value(arith::AddFOp::create(e.b, e.loc, x, y)) : y;
  };
  // [group][half][element] of what is left, by the first where it is summed.
  int64_t groups = perColumn ? tile->groups() : 1, halves = perRow ? 2 : 1,
          elements = perColumn ? 2 : 1;
  SmallVector<Value> sums(groups * halves * elements);
  for (int64_t group = 0; group < tile->groups(); ++group)
    for (int64_t half : {0, 1})
      for (int64_t i : {0, 1}) {
        int64_t place =
            ((perColumn ? group : 0) * halves + (perRow ? half : 0)) *
                elements +
            (perColumn ? i : 0);
        sums[place] = add(sums[place], tile->at(group, half, i));
      }
  SmallVector<int64_t> distances;
  if (!perColumn)
    distances.append({1, 2});
  if (!perRow)
    distances.append({4, 8, 16});
  Value isLeader;
  auto require = [&](Value lane) {
    isLeader = isLeader ? e.both(isLeader, lane) : lane;
  };
  if (!perColumn)
    require(e.equals(e.bitAnd(thread.lane, 3), 0));
  if (!perRow)
    require(e.less(thread.lane, e.i32(4)));
  if (kernel.split != 1)
    require(e.equals(thread.part, 0));
  SmallVector<Term> terms;
  Value column = e.toIndex(thread.column());
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t half = 0; half < halves; ++half)
      for (int64_t i = 0; i < elements; ++i) {
        Value sum = sums[(group * halves + half) * elements + i];
        FailureOr<Term> term =
            makeTerm(sumOverLanes(sum, distances), layout.rowOf(half),
                     e.add(column, 8 * group + i));
        if (failed(term))
          return failure();
        if (isLeader)
          term->isMine =
              term->isMine ? e.both(term->isMine, isLeader) : isLeader;
        terms.push_back(*term);
      }
  return terms;
}

void PairSum::addAtomically(const Term &term) {
  bool isWide = type.isF64();
  auto emit = [&]() {
    e.ptx(isWide ? "red.global.add.f64 [$0], $1;"
                 : "red.global.add.f32 [$0], $1;",
          isWide ? "l,d,~{memory}" : "l,f,~{memory}",
          {term.address, term.number});
  };
  if (term.isMine)
    e.branch(term.isMine, emit);
  else
    emit();
}

/// Each thread of a warp has places of its own for its terms.
void PairSum::addInOrder(ArrayRef<Term> terms) {
  int64_t count = terms.size(), lanes = MmaTiles::kLanes;
  bool isWide = type.isF64();
  int64_t bytes = type.getWidth() / 8;
  Value memory = e.add(thread.shared, kernel.termsAt);
  auto i64 = [&](int64_t number) -> Value {
    return arith::ConstantIntOp::create(e.b, e.loc, number, 64);
  };
  e.loop(
      e.i32(0), e.i32(kernel.warps), e.i32(kernel.split), {},
      [&](Value turn, ValueRange) {
        thread.barrier();
        Value isMyTurn = e.compare(arith::CmpIPredicate::eq, turn, thread.warp);
        e.branch(isMyTurn, [&]() {
          for (auto [number, term] : llvm::enumerate(terms)) {
            Value address = term.address;
            if (term.isMine)
              address = e.select(term.isMine, address, i64(0));
            Value place =
                e.add(e.add(memory, int64_t(number) * lanes *
                                        MmaGradientTiles::kTermBytes),
                      e.mul(thread.lane, MmaGradientTiles::kTermBytes));
            e.ptx("st.shared.b64 [$0], $1;", "r,l,~{memory}", {place, address});
            e.ptx(isWide ? "st.shared.f64 [$0+8], $1;"
                         : "st.shared.f32 [$0+8], $1;",
                  isWide ? "r,d,~{memory}" : "r,f,~{memory}",
                  {place, term.number});
          }
        });
        thread.barrier();
        e.loop(
            e.i32(0), e.i32(count * lanes), e.i32(1), {},
            [&](Value number, ValueRange) {
              Value place =
                  e.add(memory, e.mul(number, MmaGradientTiles::kTermBytes));
              Value address = e.ptx("ld.shared.b64 $0, [$1];", "=l,r,~{memory}",
                                    {e.b.getI64Type()}, {place})[0];
              Value owner = arith::RemUIOp::create(
                  e.b, e.loc, e.div(address, bytes), i64(kernel.threads()));
              Value me = arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(),
                                                thread.id);
              Value isMine = e.compare(arith::CmpIPredicate::eq, owner, me);
              Value isTerm =
                  e.compare(arith::CmpIPredicate::ne, address, i64(0));
              e.branch(e.both(isMine, isTerm), [&]() {
                Value term = e.ptx(isWide ? "ld.shared.f64 $0, [$1+8];"
                                          : "ld.shared.f32 $0, [$1+8];",
                                   isWide ? "=d,r,~{memory}" : "=f,r,~{memory}",
                                   {type}, {place})[0];
                auto pointer = LLVM::LLVMPointerType::get(e.b.getContext(), 1);
                Value element =
                    LLVM::IntToPtrOp::create(e.b, e.loc, pointer, address);
                Value sum =
                    LLVM::LoadOp::create(e.b, e.loc, type, element, bytes);
                sum = arith::AddFOp::create(e.b, e.loc, sum, term);
                LLVM::StoreOp::create(e.b, e.loc, sum, element, bytes);
              });
              return SmallVector<Value>();
            });
        return SmallVector<Value>();
      });
}

LogicalResult PairSum::emit() {
  FailureOr<SmallVector<Term>> terms = collect();
  if (failed(terms))
    return failure();
  if (kernel.ordersTerms()) {
    addInOrder(*terms);
    return success();
  }
  for (const Term &term : *terms)
    addAtomically(term);
  return success();
}

LogicalResult mma::addPairGradients(Thread &thread,
                                    const GradientKernel &kernel,
                                    IRMapping &scalars, TileSlicer &slicer,
                                    AccumulatorLayout &layout) {
  for (PairGradient &pair : kernel.form.queries.pairs)
    if (failed(PairSum(thread, kernel, scalars, slicer, layout, pair).emit()))
      return failure();
  return success();
}
