//===- CpuKernel.cpp - One attention kernel while it is emitted -----------===//

#include "CpuKernel.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <numeric>

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

Value Emitter::constant(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attribute = b.getFloatAttr(element, value);
  if (auto vectorType = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vectorType, Attribute(attribute));
  return arith::ConstantOp::create(b, loc, attribute);
}

Value Emitter::maxLanes(Value low, Value x) {
  Value larger =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x, low);
  return arith::SelectOp::create(b, loc, larger, x, low);
}

void Emitter::loop(Value lower, Value upper, int64_t step,
                   llvm::function_ref<void(Value)> body) {
  scf::ForOp::create(b, loc, lower, upper, index(step), ValueRange(),
                     [&](OpBuilder &, Location, Value iv, ValueRange) {
                       body(iv);
                       scf::YieldOp::create(b, loc);
                     });
}

SmallVector<Value>
Emitter::loop(Value lower, Value upper, int64_t step, ValueRange inits,
              llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(
      b, loc, lower, upper, index(step), inits,
      [&](OpBuilder &, Location, Value iv, ValueRange carried) {
        scf::YieldOp::create(b, loc, body(iv, carried));
      });
  return SmallVector<Value>(loop.getResults());
}

static int64_t roundUp(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

int64_t cpu::divisorAtMost(int64_t value, int64_t limit) {
  for (int64_t d = std::min(value, std::max<int64_t>(limit, 1)); d > 1; --d)
    if (value % d == 0)
      return d;
  return 1;
}

CpuKernel::CpuKernel(TiledForm &form) : form(form) {
  type = form.accumulatorType;
  width = std::max<int64_t>(form.target.simdBits / type.getWidth(), 1);
  vector = VectorType::get(width, type);
  const Tiling &tiling = form.tiling;
  if (tiling.product == "amx") {
    // Two tiles of 16 rows by two tiles of 16 keys; one of rows when that is
    // all there is.
    registerRows = form.blockQuery <= 16 ? 16 : 32;
    registerColumns = 32;
  } else {
    registerRows = std::clamp<int64_t>(tiling.registerRows, 1,
                                       std::max<int64_t>(form.blockQuery, 1));
    // Columns in whole vectors; fewer when the key block is short.
    int64_t columns = std::max<int64_t>(tiling.registerColumns, 1);
    registerColumns =
        std::min(roundUp(columns, width), roundUp(form.blockKey, width));
  }
  rows = roundUp(form.blockQuery, registerRows);
  keys = roundUp(form.blockKey, registerColumns);
  valueColumns = roundUp(form.valueDim, width);
  rowGroup = registerRows;
  if (tiling.product == "amx")
    return;
  for (int64_t vectors = 1; vectors <= registerColumns / width; ++vectors)
    rowGroup = std::lcm(rowGroup, outputRows(vectors));
}

/// Three quarters of the registers hold the accumulator; the rest are operands.
int64_t CpuKernel::outputRows(int64_t vectors) const {
  int64_t registers = std::max<int64_t>(form.target.simdRegisters, 16);
  return registerRows *
         divisorAtMost(rows / registerRows,
                       registers * 3 / 4 / (vectors * registerRows));
}

/// Two thirds of L1 hold the values; probabilities and accumulator pass through
/// the rest. Measured with an L1 of 48 KiB, f32, one thread: 32 KiB are best at
/// D 64 and at D 128 (128 and 64 keys), twice as much costs 4 and 7 %.
int64_t CpuKernel::valueChunk() const {
  int64_t l1Bytes = std::max<int64_t>(form.target.scratchBytes, 16 << 10);
  Type factor = roundsProbabilities() ? form.elementType : type;
  int64_t rowBytes =
      std::max<int64_t>(valueColumns, 1) * factor.getIntOrFloatBitWidth() / 8;
  // Whole turns of a register tile, pairs or not.
  int64_t step = 2 * std::max<int64_t>(width, 16);
  return std::max<int64_t>(l1Bytes * 2 / 3 / rowBytes / step * step, step);
}

Scratch Scratch::allocate(Emitter &e, const CpuKernel &kernel) {
  auto tile = [&](ArrayRef<int64_t> shape) -> Value {
    return memref::AllocaOp::create(e.b, e.loc,
                                    MemRefType::get(shape, kernel.type),
                                    e.b.getI64IntegerAttr(64));
  };
  // Row vectors are read by whole registers.
  int64_t paddedRows = roundUp(kernel.rows, kernel.width);
  Scratch scratch;
  scratch.output =
      tile({kernel.rows, std::max<int64_t>(kernel.valueColumns, 1)});
  scratch.laneMax = tile({kernel.rows, kernel.width});
  scratch.laneSum = tile({kernel.rows, kernel.width});
  scratch.rowMax = tile({paddedRows});
  scratch.nextMax = tile({paddedRows});
  scratch.correction = tile({paddedRows});
  scratch.rowSum = tile({paddedRows});
  if (kernel.form.isStale())
    scratch.blockSum = tile({kernel.rows, kernel.width});
  if (kernel.needsExactSum()) {
    scratch.exactSum = tile({kernel.rows, kernel.width});
    scratch.rowExactSum = tile({paddedRows});
  }
  if (kernel.form.seenKeys || kernel.form.seen)
    scratch.seen = memref::AllocaOp::create(
        e.b, e.loc,
        MemRefType::get({roundUp(kernel.keys, kernel.width)}, e.b.getI8Type()),
        e.b.getI64IntegerAttr(64));
  return scratch;
}

void cpu::forEachPiece(Emitter &e, int64_t size, int64_t width,
                       llvm::function_ref<void(Value, int64_t)> body) {
  int64_t whole = size / width * width;
  if (whole == width)
    body(e.index(0), width);
  else if (whole > 0)
    e.loop(e.index(0), e.index(whole), width,
           [&](Value column) { body(column, width); });
  if (whole < size)
    body(e.index(whole), size - whole);
}

void cpu::forEachColumnGroup(Emitter &e, int64_t vectors, int64_t width,
                             int64_t most,
                             llvm::function_ref<void(Value, int64_t)> body) {
  int64_t groups = (vectors + most - 1) / most;
  int64_t narrow = vectors / groups, wideGroups = vectors % groups;
  int64_t wideEnd = wideGroups * (narrow + 1) * width;
  auto visit = [&](int64_t begin, int64_t end, int64_t count) {
    if (begin != end)
      e.loop(e.index(begin), e.index(end), count * width,
             [&](Value column) { body(column, count); });
  };
  visit(0, wideEnd, narrow + 1);
  visit(wideEnd, vectors * width, narrow);
}

bool cpu::roundsBf16(const TargetDescription &target) {
  return target.has("avx512bf16") || target.has("bf16");
}

LogicalResult cpu::roundBf16InSoftware(Operation *root) {
  RewritePatternSet patterns(root->getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  return applyPatternsGreedily(root, std::move(patterns));
}

Value cpu::firstLanes(Emitter &e, int64_t width, int64_t count) {
  if (count >= width)
    return {};
  auto type = VectorType::get(width, e.b.getI1Type());
  return vector::ConstantMaskOp::create(e.b, e.loc, type, count);
}

Value cpu::loadRowPiece(Emitter &e, VectorType type, Value view, Value row,
                        Value column, int64_t count) {
  Value length = memref::DimOp::create(e.b, e.loc, view, int64_t(0));
  Value inside =
      arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, row, length);
  // A row past the end is read from the last one and dropped.
  Value safeRow = e.max(e.min(row, e.add(length, -1)), e.index(0));
  Value zero = e.constant(type, 0.0);
  Value loaded;
  if (Value mask = firstLanes(e, type.getDimSize(0), count))
    loaded = vector::MaskedLoadOp::create(
        e.b, e.loc, type, view, ValueRange{safeRow, column}, mask, zero);
  else
    loaded = e.load(type, view, {safeRow, column});
  return arith::SelectOp::create(e.b, e.loc, inside, loaded, zero);
}

void cpu::storeRowPiece(Emitter &e, Value piece, Value view, Value row,
                        Value column, int64_t count) {
  int64_t width = cast<VectorType>(piece.getType()).getDimSize(0);
  if (Value mask = firstLanes(e, width, count))
    vector::MaskedStoreOp::create(e.b, e.loc, view, ValueRange{row, column},
                                  mask, piece);
  else
    e.store(piece, view, {row, column});
}

std::unique_ptr<TileProduct> cpu::createProduct(const CpuKernel &kernel) {
  StringRef name = kernel.form.tiling.product;
  return name == "amx"   ? createAmxProduct(kernel)
         : name == "dot" ? createDotProduct(kernel)
                         : createFmaProduct(kernel);
}

Value cpu::sequenceLength(Emitter &e, vector::TransferReadOp read) {
  auto view = read.getBase().getDefiningOp<memref::SubViewOp>();
  llvm::SmallBitVector dropped = view.getDroppedDims();
  int64_t sequence = 0;
  while (dropped.test(sequence))
    ++sequence;
  return memref::DimOp::create(e.b, e.loc, view.getSource(), sequence);
}
