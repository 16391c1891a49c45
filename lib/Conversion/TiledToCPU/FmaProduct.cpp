//===- FmaProduct.cpp - Tile products by vector multiply-add --------------===//
//
// Both products are loops around a register tile of accumulators:
//
//   scores   for panel of keys, for group of rows:
//              c = 0;  for d: c[r][v] += q[r][d] * K[panel][d][v]
//   output   for group of value columns, for group of rows:
//              c = acc alpha;  for j: c[r][v] += p[r][j] * V[j][v]
//
// The reduction is a loop, never unrolled SSA: unrolled, the operands of every
// step are alive at once and spill. Keys are packed once per key/value head as
// [block][panel][d][columns], so that the inner loop reads whole vectors in
// order. Values are read in place when they are already of the accumulator
// type in whole vectors, else packed as [block][key][columns].
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

namespace {

class FmaProduct : public TileProduct {
public:
  explicit FmaProduct(const CpuKernel &kernel) : kernel(kernel) {}

  void allocate(Emitter &e, Value heads) override;
  void pack(Emitter &e, IRMapping &scalars, Value head, Value block) override;
  void loadQuery(Task &task) override;
  void beginThread(Emitter &e) override;
  LogicalResult scores(Task &task, const KeyBlock &block) override;
  Value storeProbabilities(Task &task, Value row, Value column,
                           Value piece) override {
    task.e.store(piece, task.scratch.scores, {row, column});
    return piece;
  }
  void output(Task &task, const KeyBlock &block) override;
  void deallocate(Emitter &e) override;
  Value keyBlocks() const override { return blocks; }

private:
  void packKeyPanel(Emitter &e, Value view, Value position, Value panel,
                    Value firstKey);
  void packValueRow(Emitter &e, Value view, Value position, Value row,
                    Value firstKey);
  /// Part of a row of an operand, widened to the accumulator type.
  Value loadPiece(Emitter &e, Value view, Value row, Value column,
                  int64_t count);
  LogicalResult keepScores(Task &task, Value row, Value column,
                           ArrayRef<Value> raw);
  SmallVector<Value> multiplyScores(Task &task, Value position, Value panel,
                                    Value row);
  void multiplyOutput(Task &task, const KeyBlock &block, Value first,
                      Value column, int64_t vectors);

  bool packsValues() const {
    return kernel.form.elementType != kernel.type ||
           kernel.valueColumns != kernel.form.valueDim;
  }

  const CpuKernel &kernel;
  Value packedKeys;   // [head x block][panel][d][register columns]
  Value packedValues; // [head x block][key][value columns]
  Value blocks;       // key blocks of a head
  Value query;        // scratch: the query tile
};

} // namespace

std::unique_ptr<TileProduct> cpu::createFmaProduct(const CpuKernel &kernel) {
  return std::make_unique<FmaProduct>(kernel);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void FmaProduct::allocate(Emitter &e, Value heads) {
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
                                   MemRefType::get(sizes, kernel.type),
                                   positions, e.b.getI64IntegerAttr(64));
  };
  if (form.key)
    packedKeys =
        allocate({kernel.panels(), form.headDim, kernel.registerColumns});
  if (form.value && packsValues())
    packedValues = allocate({form.blockKey, kernel.valueColumns});
}

void FmaProduct::deallocate(Emitter &e) {
  for (Value workspace : {packedKeys, packedValues})
    if (workspace)
      memref::DeallocOp::create(e.b, e.loc, workspace);
}

void FmaProduct::beginThread(Emitter &e) {
  query = memref::AllocaOp::create(
      e.b, e.loc,
      MemRefType::get({kernel.rows, std::max<int64_t>(kernel.form.headDim, 1)},
                      kernel.type),
      e.b.getI64IntegerAttr(64));
}

Value FmaProduct::loadPiece(Emitter &e, Value view, Value row, Value column,
                            int64_t count) {
  auto type = VectorType::get(kernel.width, kernel.form.elementType);
  Value loaded = loadRowPiece(e, type, view, row, column, count);
  if (kernel.form.elementType != kernel.type)
    loaded = arith::ExtFOp::create(e.b, e.loc, kernel.vector, loaded);
  return loaded;
}

void FmaProduct::pack(Emitter &e, IRMapping &scalars, Value head, Value block) {
  TiledForm &form = kernel.form;
  Value position = e.add(e.mul(head, blocks), block);
  Value firstKey = e.mul(block, form.blockKey);
  if (form.key) {
    Value view = scalars.lookupOrDefault(Value(form.key.getBase()));
    e.loop(e.index(0), e.index(kernel.panels()), 1, [&](Value panel) {
      packKeyPanel(e, view, position, panel,
                   e.add(firstKey, e.mul(panel, kernel.registerColumns)));
    });
  }
  if (form.value && packsValues()) {
    Value view = scalars.lookupOrDefault(Value(form.value.getBase()));
    e.loop(e.index(0), e.index(form.blockKey), 1, [&](Value row) {
      packValueRow(e, view, position, row, e.add(firstKey, row));
    });
  }
}

/// width x width transposes from [key][d] to [d][key].
void FmaProduct::packKeyPanel(Emitter &e, Value view, Value position,
                              Value panel, Value firstKey) {
  int64_t width = kernel.width;
  auto square = VectorType::get({width, width}, kernel.type);
  e.loop(e.index(0), e.index(kernel.registerColumns), width, [&](Value group) {
    Value firstRow = e.add(firstKey, group);
    auto transpose = [&](Value d, int64_t count) {
      Value tile = e.constant(square, 0.0);
      for (int64_t k = 0; k < width; ++k) {
        Value piece = loadPiece(e, view, e.add(firstRow, k), d, count);
        tile = vector::InsertOp::create(e.b, e.loc, piece, tile, k);
      }
      Value transposed = vector::TransposeOp::create(e.b, e.loc, tile,
                                                     ArrayRef<int64_t>{1, 0});
      for (int64_t k = 0; k < count; ++k)
        e.store(vector::ExtractOp::create(e.b, e.loc, transposed, k),
                packedKeys, {position, panel, e.add(d, k), group});
    };
    forEachPiece(e, kernel.form.headDim, width, transpose);
  });
}

void FmaProduct::packValueRow(Emitter &e, Value view, Value position, Value row,
                              Value firstKey) {
  forEachPiece(e, kernel.form.valueDim, kernel.width,
               [&](Value column, int64_t count) {
                 e.store(loadPiece(e, view, firstKey, column, count),
                         packedValues, {position, row, column});
               });
}

void FmaProduct::loadQuery(Task &task) {
  TiledForm &form = kernel.form;
  vector::TransferReadOp read = form.query;
  if (!read)
    return;
  Emitter &e = task.e;
  Value view = task.slicer.scalar(read.getBase());
  Value firstRow = task.slicer.scalar(read.getIndices()[0]);
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    forEachPiece(
        e, form.headDim, kernel.width, [&](Value column, int64_t count) {
          Value piece = loadPiece(e, view, e.add(firstRow, row), column, count);
          storeRowPiece(e, piece, query, row, column, count);
        });
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Where the packed operands of a key block lie.
static Value packedPosition(Task &task, Value blocks, const KeyBlock &block) {
  Emitter &e = task.e;
  return e.add(e.mul(block.head, blocks),
               e.div(block.start, task.kernel.form.blockKey));
}

SmallVector<Value> FmaProduct::multiplyScores(Task &task, Value position,
                                              Value panel, Value row) {
  Emitter &e = task.e;
  int64_t vectors = kernel.registerColumns / kernel.width;
  SmallVector<Value> zeros(kernel.registerRows * vectors,
                           e.constant(kernel.vector, 0.0));
  if (!kernel.form.scores)
    return zeros;
  return e.loop(
      e.index(0), e.index(kernel.form.headDim), 1, zeros,
      [&](Value d, ValueRange sums) {
        SmallVector<Value> keys, next;
        for (int64_t v = 0; v < vectors; ++v)
          keys.push_back(
              e.load(kernel.vector, packedKeys,
                     {position, panel, d, e.index(v * kernel.width)}));
        for (int64_t r = 0; r < kernel.registerRows; ++r) {
          Value q =
              e.splat(kernel.vector,
                      memref::LoadOp::create(e.b, e.loc, query,
                                             ValueRange{e.add(row, r), d}));
          for (int64_t v = 0; v < vectors; ++v)
            next.push_back(vector::FMAOp::create(e.b, e.loc, q, keys[v],
                                                 sums[r * vectors + v]));
        }
        return next;
      });
}

/// Stores the finished pieces of one row of a register tile and keeps the lane
/// maxima.
LogicalResult FmaProduct::keepScores(Task &task, Value row, Value column,
                                     ArrayRef<Value> raw) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  int64_t vectors = raw.size() / kernel.registerRows;
  return branchOnEdge(task, [&](bool testElements) -> LogicalResult {
    for (int64_t r = 0; r < kernel.registerRows; ++r) {
      Value at = e.add(row, r);
      Value largest = e.load(kernel.vector, s.laneMax, {at, e.index(0)});
      for (int64_t v = 0; v < vectors; ++v) {
        Value c = e.add(column, v * kernel.width);
        FailureOr<Value> score =
            finishScore(task, at, c, raw[r * vectors + v], testElements);
        if (failed(score))
          return failure();
        e.store(*score, s.scores, {at, c});
        largest = e.maxLanes(largest, *score);
      }
      e.store(largest, s.laneMax, {at, e.index(0)});
    }
    return success();
  });
}

/// Panels outside, rows inside: a panel stays in L1 while all rows pass by.
LogicalResult FmaProduct::scores(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  Value position = packedKeys ? packedPosition(task, blocks, block) : Value();
  bool valid = true;
  Value panels =
      e.ceilDiv(block.limit(e.index(kernel.rows - 1)), kernel.registerColumns);
  e.loop(e.index(0), panels, 1, [&](Value panel) {
    Value column = e.mul(panel, kernel.registerColumns);
    auto multiply = [&](Value row) {
      SmallVector<Value> sums = multiplyScores(task, position, panel, row);
      valid &= succeeded(keepScores(task, row, column, sums));
    };
    e.loop(
        e.index(0), e.index(kernel.rows), kernel.registerRows, [&](Value row) {
          if (!kernel.form.rightBound)
            return multiply(row);
          Value isReached = arith::CmpIOp::create(
              e.b, e.loc, arith::CmpIPredicate::slt, column, block.limit(row));
          scf::IfOp::create(e.b, e.loc, isReached, [&](OpBuilder &, Location) {
            multiply(row);
            scf::YieldOp::create(e.b, e.loc);
          });
        });
  });
  return success(valid);
}

/// The step of the key when some row sees it: the value of a key that none
/// sees may be NaN, and 0 NaN is NaN.
static SmallVector<Value>
whereSeen(Task &task, Value key, ValueRange carried,
          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> step) {
  Emitter &e = task.e;
  Value seen = memref::LoadOp::create(e.b, e.loc, task.scratch.seen, key);
  Value zero = arith::ConstantOp::create(e.b, e.loc, e.b.getI8IntegerAttr(0));
  Value isSeen =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, seen, zero);
  auto branch = scf::IfOp::create(
      e.b, e.loc, isSeen,
      [&](OpBuilder &, Location) {
        scf::YieldOp::create(e.b, e.loc, step(key, carried));
      },
      [&](OpBuilder &, Location) {
        scf::YieldOp::create(e.b, e.loc, carried);
      });
  return SmallVector<Value>(branch.getResults());
}

/// acc alpha + P V for one column group and the keys [first, first + chunk).
void FmaProduct::multiplyOutput(Task &task, const KeyBlock &block, Value first,
                                Value column, int64_t vectors) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  vector::TransferReadOp value = kernel.form.value;
  int64_t step = kernel.outputRows(vectors);
  Value position = packedValues ? packedPosition(task, blocks, block) : Value();
  auto loadValue = [&](Value key, int64_t v) {
    Value c = e.add(column, v * kernel.width);
    return packedValues
               ? e.load(kernel.vector, packedValues, {position, key, c})
               : e.load(kernel.vector, task.slicer.scalar(value.getBase()),
                        {e.add(block.start, key), c});
  };
  Value one = e.constant(kernel.type, 1.0);
  Value isFirst = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                        first, e.index(0));
  e.loop(e.index(0), e.index(kernel.rows), step, [&](Value row) {
    auto place = [&](int64_t r, int64_t v) {
      return SmallVector<Value>{e.add(row, r), e.add(column, v * kernel.width)};
    };
    SmallVector<Value> sums;
    for (int64_t r = 0; r < step; ++r) {
      Value alpha = memref::LoadOp::create(e.b, e.loc, s.correction,
                                           ValueRange{e.add(row, r)});
      alpha = arith::SelectOp::create(e.b, e.loc, isFirst, alpha, one);
      for (int64_t v = 0; v < vectors; ++v)
        sums.push_back(arith::MulFOp::create(
            e.b, e.loc, e.load(kernel.vector, s.output, place(r, v)),
            e.splat(kernel.vector, alpha)));
    }
    Value last = e.min(e.add(first, kernel.valueChunk()), block.limit(row));
    auto multiply = [&](Value key, ValueRange carried) {
      SmallVector<Value> values, next;
      for (int64_t v = 0; v < vectors; ++v)
        values.push_back(loadValue(key, v));
      for (int64_t r = 0; r < step; ++r) {
        Value p = memref::LoadOp::create(e.b, e.loc, s.scores,
                                         ValueRange{e.add(row, r), key});
        for (int64_t v = 0; v < vectors; ++v)
          next.push_back(
              vector::FMAOp::create(e.b, e.loc, e.splat(kernel.vector, p),
                                    values[v], carried[r * vectors + v]));
      }
      return next;
    };
    sums = e.loop(first, last, 1, sums, [&](Value key, ValueRange carried) {
      return kernel.form.seenKeys ? whereSeen(task, key, carried, multiply)
                                  : multiply(key, carried);
    });
    for (int64_t r = 0; r < step; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        e.store(sums[r * vectors + v], s.output, place(r, v));
  });
}

/// Chunks of values outside, rows inside: a chunk stays in L1 meanwhile.
void FmaProduct::output(Task &task, const KeyBlock &block) {
  if (!kernel.form.value)
    return;
  Emitter &e = task.e;
  // Column groups of nearly equal width: 5 vectors as 3 + 2, not 4 + 1.
  int64_t total = kernel.valueColumns / kernel.width;
  int64_t most = kernel.registerColumns / kernel.width;
  int64_t groups = (total + most - 1) / most;
  int64_t narrow = total / groups, wideGroups = total % groups;
  int64_t wideEnd = wideGroups * (narrow + 1) * kernel.width;
  e.loop(e.index(0), block.limit(e.index(kernel.rows - 1)), kernel.valueChunk(),
         [&](Value first) {
           auto multiply = [&](int64_t begin, int64_t end, int64_t vectors) {
             if (begin == end)
               return;
             e.loop(e.index(begin), e.index(end), vectors * kernel.width,
                    [&](Value column) {
                      multiplyOutput(task, block, first, column, vectors);
                    });
           };
           multiply(0, wideEnd, narrow + 1);
           multiply(wideEnd, kernel.valueColumns, narrow);
         });
}
