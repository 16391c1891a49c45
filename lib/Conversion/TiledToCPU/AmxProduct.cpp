//===- AmxProduct.cpp - Tile products by AMX tile registers ---------------===//
//
// tdpbf16ps multiplies 16 rows x 32 bf16 by 32 x 16 bf16 into 16 x 16 f32. The
// second operand holds pairs: row p is elements 2p and 2p + 1 of 16 columns.
// All operands are kept as 1 KiB tiles, contiguous in memory:
//
//   query   [row tile][D / 32]           row: 32 consecutive d of one query
//   keys    [head x block][key / 16][D / 32]   row p: the d pair 2p of 16 keys
//   values  [head x block][key / 32][Dv / 16]  row p: the key pair 2p of 16
//                                              columns
//   P       rows x keys, bf16, read as tiles by its row stride
//
// Keys and values are packed once per key/value head; the key pack is a
// transpose of 32-bit words, the value pack an interleave of two rows.
//
// Both products hold 2 x 2 accumulators in tmm0-3 and operands in tmm4-7. The
// tile registers are named here and not allocated by LLVM: the intrinsics with
// explicit register numbers need no loop-carried tile values, so the reduction
// stays a loop of any length. The configuration (eight tiles of 16 rows x 64
// bytes) is loaded once a thread.
//
// A tile cannot skip a key, and 0 NaN is NaN: packing notes which blocks hold a
// value that is not finite, and from those (rare) the keys that no row of the
// task sees are copied out as zeros.
//
// The process must have asked the kernel for AMX state (arch_prctl
// ARCH_REQ_XCOMP_PERM) before the first task; lib/Runtime does.
//
//===----------------------------------------------------------------------===//

#include "CpuKernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

static constexpr int64_t kTileRows = 16;  // rows of every tile
static constexpr int64_t kTileDepth = 32; // bf16 of a row of an operand tile

namespace {

class AmxProduct : public TileProduct {
public:
  explicit AmxProduct(const CpuKernel &kernel)
      : kernel(kernel), depthTiles(ceil(kernel.form.headDim, kTileDepth)),
        valueTiles(ceil(kernel.form.valueDim, kTileRows)),
        rowStep(kernel.registerRows / kTileRows) {}

  void allocate(Emitter &e, Value heads) override;
  void deallocate(Emitter &e) override;
  Value keyBlocks() const override { return blocks; }
  void beginThread(Emitter &e) override;
  void endThread(Emitter &e) override;
  void pack(Emitter &e, IRMapping &scalars, Value head, Value block) override;
  void loadQuery(Task &task) override;
  LogicalResult scores(Task &task, const KeyBlock &block) override;
  Value storeProbabilities(Task &task, Value row, Value column,
                           Value piece) override;
  void output(Task &task, const KeyBlock &block) override;

private:
  static int64_t ceil(int64_t x, int64_t y) { return (x + y - 1) / y; }

  /// Address of an element of a memref, and the bytes of its row stride.
  Value address(Emitter &e, Value memref, ValueRange indices);
  void tileLoad(Emitter &e, int64_t tile, Value memref, ValueRange indices,
                int64_t strideBytes);
  void tileStore(Emitter &e, int64_t tile, Value memref, ValueRange indices,
                 int64_t strideBytes);
  void tileZero(Emitter &e, int64_t tile);
  void multiplyAdd(Emitter &e, int64_t sum, int64_t a, int64_t b);
  Value registerNumber(Emitter &e, int64_t tile);

  void packKeys(Emitter &e, Value view, Value position, Value firstKey);
  void packValues(Emitter &e, Value view, Value position, Value firstKey);
  void multiplyScores(Task &task, Value position, Value row, Value keyPair);
  LogicalResult finishRows(Task &task, const KeyBlock &block, Value row);
  void rescale(Task &task);
  void copySeenValues(Task &task, Value position);
  void multiplyRows(Task &task, const KeyBlock &block, Value values,
                    Value position);
  void multiplyOutput(Task &task, const KeyBlock &block, Value values,
                      Value position, Value row, Value column, int64_t columns);
  Value position(Task &task, const KeyBlock &block);

  const CpuKernel &kernel;
  int64_t depthTiles, valueTiles, rowStep;
  Value packedKeys, packedValues, blocks;
  Value isSpecial; // [head x block], i8: some value is infinite or NaN
  Value query, probabilities, seenValues; // scratch of the thread
};

} // namespace

std::unique_ptr<TileProduct> cpu::createAmxProduct(const CpuKernel &kernel) {
  return std::make_unique<AmxProduct>(kernel);
}

//===----------------------------------------------------------------------===//
// Tile registers
//===----------------------------------------------------------------------===//

Value AmxProduct::registerNumber(Emitter &e, int64_t tile) {
  return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI8Type(),
                                  e.b.getI8IntegerAttr(tile));
}

static void callTile(Emitter &e, StringRef intrinsic, ValueRange arguments) {
  LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(intrinsic),
                                arguments);
}

Value AmxProduct::address(Emitter &e, Value memref, ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t bytes = type.getElementTypeBitWidth() / 8;
  Value offset = e.index(0);
  int64_t stride = bytes;
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    offset = e.add(offset, e.mul(indices[d], stride));
    stride *= type.isDynamicDim(d) ? 1 : type.getDimSize(d);
  }
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(e.b, e.loc, memref);
  Value integer = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(),
                                             e.add(base, offset));
  return LLVM::IntToPtrOp::create(
      e.b, e.loc, LLVM::LLVMPointerType::get(e.b.getContext()), integer);
}

static Value strideValue(Emitter &e, int64_t bytes) {
  return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI64Type(),
                                  e.b.getI64IntegerAttr(bytes));
}

void AmxProduct::tileLoad(Emitter &e, int64_t tile, Value memref,
                          ValueRange indices, int64_t strideBytes) {
  callTile(e, "llvm.x86.tileloadd64",
           {registerNumber(e, tile), address(e, memref, indices),
            strideValue(e, strideBytes)});
}

void AmxProduct::tileStore(Emitter &e, int64_t tile, Value memref,
                           ValueRange indices, int64_t strideBytes) {
  callTile(e, "llvm.x86.tilestored64",
           {registerNumber(e, tile), address(e, memref, indices),
            strideValue(e, strideBytes)});
}

void AmxProduct::tileZero(Emitter &e, int64_t tile) {
  callTile(e, "llvm.x86.tilezero", {registerNumber(e, tile)});
}

void AmxProduct::multiplyAdd(Emitter &e, int64_t sum, int64_t a, int64_t b) {
  callTile(
      e, "llvm.x86.tdpbf16ps",
      {registerNumber(e, sum), registerNumber(e, a), registerNumber(e, b)});
}

/// Scratch, and the tile configuration: palette 1, then for each of the eight
/// tiles 64 bytes a row (16-bit fields from byte 16) and 16 rows (from 48).
void AmxProduct::beginThread(Emitter &e) {
  auto scratch = [&](ArrayRef<int64_t> shape, Type type) -> Value {
    return memref::AllocaOp::create(e.b, e.loc, MemRefType::get(shape, type),
                                    e.b.getI64IntegerAttr(64));
  };
  Type bf16 = e.b.getBF16Type();
  query = scratch({kernel.rows / kTileRows, std::max<int64_t>(depthTiles, 1),
                   kTileRows, kTileDepth},
                  bf16);
  probabilities = scratch({kernel.rows, kernel.keys}, bf16);
  if (isSpecial)
    seenValues = scratch(
        {1, kernel.keys / kTileDepth, valueTiles, kTileRows, kTileDepth}, bf16);

  SmallVector<int8_t> bytes(64, 0);
  bytes[0] = 1;
  for (int64_t tile = 0; tile < 8; ++tile) {
    bytes[16 + 2 * tile] = 64;
    bytes[48 + tile] = kTileRows;
  }
  Value config = scratch({64}, e.b.getI8Type());
  auto vectorType = VectorType::get({64}, e.b.getI8Type());
  Value content = arith::ConstantOp::create(
      e.b, e.loc, DenseElementsAttr::get(vectorType, ArrayRef<int8_t>(bytes)));
  e.store(content, config, {e.index(0)});
  callTile(e, "llvm.x86.ldtilecfg", {address(e, config, {e.index(0)})});
}

void AmxProduct::endThread(Emitter &e) {
  callTile(e, "llvm.x86.tilerelease", {});
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void AmxProduct::allocate(Emitter &e, Value heads) {
  TiledForm &form = kernel.form;
  vector::TransferReadOp operand = form.key ? form.key : form.value;
  if (!operand)
    return;
  blocks = e.ceilDiv(sequenceLength(e, operand), form.blockKey);
  Value positions = e.mul(heads, blocks);
  auto allocate = [&](int64_t groups, int64_t tiles) -> Value {
    auto type = MemRefType::get(
        {ShapedType::kDynamic, groups, tiles, kTileRows, kTileDepth},
        e.b.getBF16Type());
    return memref::AllocOp::create(e.b, e.loc, type, positions,
                                   e.b.getI64IntegerAttr(64));
  };
  if (form.key)
    packedKeys = allocate(kernel.keys / kTileRows, depthTiles);
  if (form.value)
    packedValues = allocate(kernel.keys / kTileDepth, valueTiles);
  if (form.value && form.seenKeys)
    isSpecial = memref::AllocOp::create(
        e.b, e.loc, MemRefType::get({ShapedType::kDynamic}, e.b.getI8Type()),
        positions);
}

void AmxProduct::deallocate(Emitter &e) {
  for (Value workspace : {packedKeys, packedValues, isSpecial})
    if (workspace)
      memref::DeallocOp::create(e.b, e.loc, workspace);
}

void AmxProduct::pack(Emitter &e, IRMapping &scalars, Value head, Value block) {
  TiledForm &form = kernel.form;
  Value position = e.add(e.mul(head, blocks), block);
  Value firstKey = e.mul(block, form.blockKey);
  if (form.key)
    packKeys(e, scalars.lookup(Value(form.key.getBase())), position, firstKey);
  if (form.value)
    packValues(e, scalars.lookup(Value(form.value.getBase())), position,
               firstKey);
}

void AmxProduct::packKeys(Emitter &e, Value view, Value position,
                          Value firstKey) {
  Value zero = e.index(0);
  e.loop(zero, e.index(kernel.keys / kTileRows), 1, [&](Value group) {
    packKeyPairs(e, view, e.add(firstKey, e.mul(group, kTileRows)), kTileRows,
                 kernel.form.headDim, [&](Value word, Value pairs) {
                   Value depth = e.div(word, kTileRows);
                   Value row = e.sub(word, e.mul(depth, kTileRows));
                   e.store(pairs, packedKeys,
                           {position, group, depth, row, zero});
                 });
  });
}

/// Two rows of values, interleaved by column.
void AmxProduct::packValues(Emitter &e, Value view, Value position,
                            Value firstKey) {
  auto half = VectorType::get(kTileRows, e.b.getBF16Type());
  auto bits = VectorType::get(kTileDepth, e.b.getI16Type());
  auto splat = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        e.b, e.loc, DenseElementsAttr::get(bits, e.b.getI16IntegerAttr(value)));
  };
  Value exponent = splat(0x7f80);
  // The largest exponent field of the block: all ones is infinite or NaN.
  SmallVector<Value> largest = e.loop(
      e.index(0), e.index(kernel.keys / 2), 1, splat(0),
      [&](Value pair, ValueRange carried) -> SmallVector<Value> {
        Value key = e.add(firstKey, e.mul(pair, 2));
        Value group = e.div(pair, kTileRows);
        Value row = e.sub(pair, e.mul(group, kTileRows));
        Value most = carried[0];
        for (int64_t c = 0; c < valueTiles; ++c) {
          Value pairs =
              loadValuePairs(e, half, view, key, e.index(c * kTileRows),
                             kernel.form.valueDim - c * kTileRows);
          e.store(pairs, packedValues,
                  {position, group, e.index(c), row, e.index(0)});
          if (!isSpecial)
            continue;
          Value field = arith::AndIOp::create(
              e.b, e.loc, vector::BitCastOp::create(e.b, e.loc, bits, pairs),
              exponent);
          most = arith::MaxUIOp::create(e.b, e.loc, most, field);
        }
        return {most};
      });
  if (!isSpecial)
    return;
  Value most = vector::ReductionOp::create(
      e.b, e.loc, vector::CombiningKind::MAXUI, largest[0]);
  Value special = arith::CmpIOp::create(
      e.b, e.loc, arith::CmpIPredicate::eq, most,
      arith::ConstantOp::create(e.b, e.loc, e.b.getI16IntegerAttr(0x7f80)));
  memref::StoreOp::create(
      e.b, e.loc, arith::ExtUIOp::create(e.b, e.loc, e.b.getI8Type(), special),
      isSpecial, position);
}

void AmxProduct::loadQuery(Task &task) {
  vector::TransferReadOp read = kernel.form.query;
  if (!read)
    return;
  Emitter &e = task.e;
  auto type = VectorType::get(kTileDepth, e.b.getBF16Type());
  Value view = task.slicer.scalar(read.getBase());
  Value firstRow = task.slicer.scalar(read.getIndices()[0]);
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    Value tile = e.div(row, kTileRows);
    Value inner = e.sub(row, e.mul(tile, kTileRows));
    forEachPiece(
        e, kernel.form.headDim, kTileDepth, [&](Value d, int64_t count) {
          e.store(loadRowPiece(e, type, view, e.add(firstRow, row), d, count),
                  query, {tile, e.div(d, kTileDepth), inner, e.index(0)});
        });
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Value AmxProduct::position(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  return e.add(e.mul(block.head, blocks),
               e.div(block.start, kernel.form.blockKey));
}

/// Scores of up to 32 rows and 32 keys: sums in tmm(2 r + k).
void AmxProduct::multiplyScores(Task &task, Value position, Value row,
                                Value keyPair) {
  Emitter &e = task.e;
  Value rowTile = e.div(row, kTileRows);
  Value keyTile = e.mul(keyPair, 2);
  for (int64_t r = 0; r < rowStep; ++r)
    for (int64_t k = 0; k < 2; ++k)
      tileZero(e, 2 * r + k);
  Value zero = e.index(0);
  if (kernel.form.scores)
    e.loop(zero, e.index(depthTiles), 1, [&](Value d) {
      for (int64_t r = 0; r < rowStep; ++r)
        tileLoad(e, 4 + r, query, {e.add(rowTile, r), d, zero, zero}, 64);
      for (int64_t k = 0; k < 2; ++k)
        tileLoad(e, 6 + k, packedKeys,
                 {position, e.add(keyTile, k), d, zero, zero}, 64);
      for (int64_t r = 0; r < rowStep; ++r)
        for (int64_t k = 0; k < 2; ++k)
          multiplyAdd(e, 2 * r + k, 4 + r, 6 + k);
    });
  Value column = e.mul(keyPair, 2 * kTileRows);
  for (int64_t r = 0; r < rowStep; ++r)
    for (int64_t k = 0; k < 2; ++k)
      tileStore(e, 2 * r + k, task.scratch.scores,
                {e.add(row, r * kTileRows), e.add(column, k * kTileRows)},
                kernel.keys * 4);
}

/// Score region, masks and lane maxima of one row, from and to scratch.
LogicalResult AmxProduct::finishRows(Task &task, const KeyBlock &block,
                                     Value row) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  Value limit = block.probabilityLimit(e, kernel, row);
  Value end = e.add(row, kernel.registerRows);
  return branchOnEdge(task, [&](bool testElements) -> LogicalResult {
    bool valid = true;
    e.loop(row, end, 1, [&](Value r) {
      Value none = e.load(kernel.vector, s.laneMax, {r, e.index(0)});
      SmallVector<Value> largest =
          e.loop(e.index(0), limit, kernel.width, none,
                 [&](Value column, ValueRange carried) -> SmallVector<Value> {
                   Value raw = e.load(kernel.vector, s.scores, {r, column});
                   FailureOr<Value> score =
                       finishScore(task, r, column, raw, testElements);
                   valid &= succeeded(score);
                   if (failed(score))
                     return {carried[0]};
                   if (*score != raw)
                     e.store(*score, s.scores, {r, column});
                   return {e.maxLanes(carried[0], *score)};
                 });
      e.store(largest[0], s.laneMax, {r, e.index(0)});
    });
    return success(valid);
  });
}

LogicalResult AmxProduct::scores(Task &task, const KeyBlock &block) {
  Emitter &e = task.e;
  bool valid = true;
  Value packed = position(task, block);
  e.loop(e.index(0), e.index(kernel.rows), kernel.registerRows, [&](Value row) {
    Value pairs = e.ceilDiv(block.limit(row), 2 * kTileRows);
    e.loop(e.index(0), pairs, 1,
           [&](Value pair) { multiplyScores(task, packed, row, pair); });
    valid &= succeeded(finishRows(task, block, row));
  });
  return success(valid);
}

Value AmxProduct::storeProbabilities(Task &task, Value row, Value column,
                                     Value piece) {
  Emitter &e = task.e;
  auto type = VectorType::get(kernel.width, e.b.getBF16Type());
  Value rounded = arith::TruncFOp::create(e.b, e.loc, type, piece);
  e.store(rounded, probabilities, {row, column});
  return arith::ExtFOp::create(e.b, e.loc, kernel.vector, rounded);
}

/// acc alpha, for the rows whose maximum moved.
void AmxProduct::rescale(Task &task) {
  Emitter &e = task.e;
  const Scratch &s = task.scratch;
  e.loop(e.index(0), e.index(kernel.rows), 1, [&](Value row) {
    Value alpha = memref::LoadOp::create(e.b, e.loc, s.correction, row);
    Value moved = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::UNE,
                                        alpha, e.constant(kernel.type, 1.0));
    scf::IfOp::create(e.b, e.loc, moved, [&](OpBuilder &, Location) {
      Value factor = e.splat(kernel.vector, alpha);
      for (int64_t c = 0; c < kernel.valueColumns; c += kernel.width) {
        Value old = e.load(kernel.vector, s.output, {row, e.index(c)});
        e.store(arith::MulFOp::create(e.b, e.loc, old, factor), s.output,
                {row, e.index(c)});
      }
      scf::YieldOp::create(e.b, e.loc);
    });
  });
}

/// The value block with zeros for the keys that no row sees.
void AmxProduct::copySeenValues(Task &task, Value position) {
  Emitter &e = task.e;
  auto row = VectorType::get(kTileDepth, e.b.getBF16Type());
  Value zero = e.index(0);
  e.loop(zero, e.index(kernel.keys / 2), 1, [&](Value pair) {
    Value group = e.div(pair, kTileRows);
    Value inner = e.sub(pair, e.mul(group, kTileRows));
    for (int64_t c = 0; c < valueTiles; ++c) {
      Value pairs =
          e.load(row, packedValues, {position, group, e.index(c), inner, zero});
      e.store(hideUnseenPairs(e, pairs, task.scratch.seen, e.mul(pair, 2)),
              seenValues, {zero, group, e.index(c), inner, zero});
    }
  });
}

/// Output of up to 32 rows and `columns` (1 or 2) value tiles.
void AmxProduct::multiplyOutput(Task &task, const KeyBlock &block, Value values,
                                Value position, Value row, Value column,
                                int64_t columns) {
  Emitter &e = task.e;
  Value zero = e.index(0);
  auto forEachSum = [&](auto visit) {
    for (int64_t r = 0; r < rowStep; ++r)
      for (int64_t c = 0; c < columns; ++c)
        visit(2 * r + c, ValueRange{e.add(row, r * kTileRows),
                                    e.mul(e.add(column, c), kTileRows)});
  };
  int64_t stride = kernel.valueColumns * 4;
  forEachSum([&](int64_t sum, ValueRange at) {
    tileLoad(e, sum, task.scratch.output, at, stride);
  });
  Value steps = e.ceilDiv(block.limit(row), kTileDepth);
  e.loop(zero, steps, 1, [&](Value step) {
    for (int64_t r = 0; r < rowStep; ++r)
      tileLoad(e, 4 + r, probabilities,
               {e.add(row, r * kTileRows), e.mul(step, kTileDepth)},
               kernel.keys * 2);
    for (int64_t c = 0; c < columns; ++c)
      tileLoad(e, 6 + c, values, {position, step, e.add(column, c), zero, zero},
               64);
    for (int64_t r = 0; r < rowStep; ++r)
      for (int64_t c = 0; c < columns; ++c)
        multiplyAdd(e, 2 * r + c, 4 + r, 6 + c);
  });
  forEachSum([&](int64_t sum, ValueRange at) {
    tileStore(e, sum, task.scratch.output, at, stride);
  });
}

void AmxProduct::multiplyRows(Task &task, const KeyBlock &block, Value values,
                              Value position) {
  Emitter &e = task.e;
  e.loop(e.index(0), e.index(kernel.rows), kernel.registerRows, [&](Value row) {
    int64_t paired = valueTiles / 2 * 2;
    e.loop(e.index(0), e.index(paired), 2, [&](Value column) {
      multiplyOutput(task, block, values, position, row, column, 2);
    });
    if (paired != valueTiles)
      multiplyOutput(task, block, values, position, row, e.index(paired), 1);
  });
}

void AmxProduct::output(Task &task, const KeyBlock &block) {
  if (!kernel.form.value)
    return;
  Emitter &e = task.e;
  rescale(task);
  Value packed = position(task, block);
  if (!isSpecial)
    return multiplyRows(task, block, packedValues, packed);
  Value flag = memref::LoadOp::create(e.b, e.loc, isSpecial, packed);
  Value special = arith::CmpIOp::create(
      e.b, e.loc, arith::CmpIPredicate::ne, flag,
      arith::ConstantOp::create(e.b, e.loc, e.b.getI8IntegerAttr(0)));
  scf::IfOp::create(
      e.b, e.loc, special,
      [&](OpBuilder &, Location) {
        copySeenValues(task, packed);
        multiplyRows(task, block, seenValues, e.index(0));
        scf::YieldOp::create(e.b, e.loc);
      },
      [&](OpBuilder &, Location) {
        multiplyRows(task, block, packedValues, packed);
        scf::YieldOp::create(e.b, e.loc);
      });
}
