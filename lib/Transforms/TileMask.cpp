//===- TileMask.cpp - Which keys a task visits and sees -------------------===//

#include "TileMask.h"
#include "VectorizeRegion.h"
#include "attn/IR/TiledForm.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace attn;

/// A bound beyond every sequence: sums with sizes stay within 64 bits.
static std::optional<int64_t> capped(std::optional<int64_t> bound) {
  if (bound)
    bound = std::min(*bound, int64_t(1) << 60);
  return bound;
}

/// True when the index is known to be 0 or more.
static bool isNonNegative(Index index) {
  std::optional<int64_t> known = getConstantIntValue(index);
  return known && *known >= 0;
}

//===----------------------------------------------------------------------===//
// Range
//===----------------------------------------------------------------------===//

static Index loadIndex(TileBuilder &b, Value operand, Index position) {
  Value element = loadElement(b, operand, position);
  return arith::IndexCastOp::create(b, b.getIndexType(), element).getResult();
}

static Index diagonalOf(TileBuilder &b, AttentionOpInterface op,
                        const AttentionSizes &sizes, Value batch) {
  if (Value offsets = op.getQueryOffset()) {
    // One offset for all batches, or one each.
    bool isShared = cast<MemRefType>(offsets.getType()).getDimSize(0) == 1;
    return loadIndex(b, offsets,
                     isShared ? Index(b.getIndexAttr(0)) : Index(batch));
  }
  if (op.getAlignment() == Alignment::bottom_right)
    return b.subtract(sizes.kvLength, sizes.queryLength);
  return b.getIndexAttr(0);
}

KeyRange attn::computeKeyRange(TileBuilder &b, AttentionOpInterface op,
                               const AttentionSizes &sizes, Value batch) {
  Index zero = b.getIndexAttr(0);
  std::optional<int64_t> left = capped(op.getBandLeft()),
                         right = capped(op.getBandRight());
  KeyRange range;
  range.diagonal = zero;
  if (left || right)
    range.diagonal = diagonalOf(b, op, sizes, batch);

  Index length = sizes.kvLength;
  if (Value lengths = op.getKvLengths()) {
    Index given = loadIndex(b, lengths, batch);
    length = b.minimum(b.maximum(given, zero), length);
  }

  range.first = zero;
  if (left) {
    // Row 0 sees the farthest to the left.
    Index reached = b.subtract(range.diagonal, b.getIndexAttr(*left));
    std::optional<int64_t> known = getConstantIntValue(reached);
    if (!known || *known > 0)
      range.first = b.minimum(b.maximum(reached, zero), length);
  }
  Index end = length;
  // The last row sees the farthest to the right; on a bottom-right diagonal
  // that is the last key.
  if (right && op.getAlignment() != Alignment::bottom_right) {
    Index reached =
        b.add(b.add(range.diagonal, sizes.queryLength), b.getIndexAttr(*right));
    end = b.minimum(reached, length);
    if (!isNonNegative(range.diagonal) || !isConstantIntValue(range.first, 0))
      end = b.maximum(end, range.first);
  }
  range.count = b.subtract(end, range.first);

  std::optional<int64_t> kvLength = getConstantIntValue(length);
  std::optional<int64_t> count = getConstantIntValue(range.count);
  range.isAligned = kvLength && *kvLength % b.columns == 0 &&
                    isConstantIntValue(range.first, 0);
  range.isWhole = count && *count % b.columns == 0;
  return range;
}

KeyRange attn::computeKeysFromStart(TileBuilder &b, AttentionOpInterface op,
                                    const AttentionSizes &sizes, Value batch) {
  KeyRange range = computeKeyRange(b, op, sizes, batch);
  range.hasHiddenStart = !isConstantIntValue(range.first, 0);
  range.count = b.add(range.first, range.count);
  range.first = b.getIndexAttr(0);
  // Blocks cover the whole sequence here, also where the range has ended.
  std::optional<int64_t> kvLength = getConstantIntValue(sizes.kvLength);
  bool fits = kvLength && *kvLength % b.columns == 0;
  range.isAligned = fits && !op.getKvLengths();
  range.isWhole = fits && getConstantIntValue(range.count) == kvLength;
  return range;
}

QueryRange attn::computeQueryRange(TileBuilder &b, AttentionOpInterface op,
                                   const AttentionSizes &sizes,
                                   const KeyRange &keys, Value firstKey) {
  Index zero = b.getIndexAttr(0);
  QueryRange range = {zero, sizes.queryLength};
  std::optional<int64_t> left = capped(op.getBandLeft()),
                         right = capped(op.getBandRight());
  if (right) {
    // The first row that sees the first key.
    Index shift = b.add(keys.diagonal, b.getIndexAttr(*right));
    Index reached = b.maximum(b.subtract(firstKey, shift), zero);
    range.begin = b.roundDown(reached, b.rows);
  }
  Index keyEnd =
      b.minimum(b.add(firstKey, b.getIndexAttr(b.columns)), keys.count);
  if (left) {
    // One past the last row that sees the last key.
    Index shift = b.subtract(keys.diagonal, b.getIndexAttr(*left));
    range.end = b.minimum(range.end, b.subtract(keyEnd, shift));
  }
  // A block behind the last key that lengths and band leave.
  if (!keys.isWhole) {
    Value isEmpty = arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                          firstKey, b.value(keys.count));
    range.end =
        arith::SelectOp::create(b, isEmpty, b.value(zero), b.value(range.end))
            .getResult();
  }
  return range;
}

//===----------------------------------------------------------------------===//
// Block
//===----------------------------------------------------------------------===//

TileMask::TileMask(TileBuilder &b, const Task &task)
    : b(b), task(task), op(task.op), left(capped(op.getBandLeft())),
      right(capped(op.getBandRight())), begin(b.getIndexAttr(0)),
      end(task.keys.count) {
  const KeyRange &keys = task.keys;
  Index zero = b.getIndexAttr(0);
  if (!keys.isAligned)
    interiorEnd = keys.count;
  // Keys are counted from the start of the range: so is the diagonal.
  Index diagonal = b.subtract(keys.diagonal, keys.first);
  if (left) {
    // Row i starts at key i + shift: the first row's start bounds the sweep,
    // the last row's start the edge.
    Index shift = b.subtract(diagonal, b.getIndexAttr(*left));
    Index firstStart = b.add(task.firstRow, shift);
    begin = b.roundDown(b.maximum(firstStart, zero), b.columns);
    interiorBegin = b.add(task.rowEnd, b.subtract(shift, b.getIndexAttr(1)));
  }
  if (right) {
    // Row i ends in front of key i + shift + 1.
    Index shift = b.add(diagonal, b.getIndexAttr(*right));
    end = b.minimum(b.add(task.rowEnd, shift), keys.count);
    if (!isNonNegative(diagonal))
      end = b.maximum(end, zero);
    Index firstEnd = b.add(task.firstRow, b.add(shift, b.getIndexAttr(1)));
    interiorEnd = interiorEnd ? b.minimum(firstEnd, *interiorEnd) : firstEnd;
  }
  if (op.getMask())
    maskOperand.emplace(b, task, op.getMask());
  if (op.getQuerySegments())
    enterSegments();
}

/// Reads the segment ids of the rows. Padded rows repeat the last row's id:
/// they neither widen the range of ids nor see a key that no row sees.
void TileMask::enterSegments() {
  Index one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  Value queries = op.getQuerySegments(), keys = op.getKvSegments();
  Value view = subview(b, queries, {task.batch, zero},
                       {one, task.sizes.queryLength}, {false, true});
  Type id = cast<MemRefType>(queries.getType()).getElementType();
  Index lastRow = b.subtract(task.rowEnd, b.getIndexAttr(1));
  queryIds =
      read(b, cast<VectorType>(b.typeOf(Extent::PerRow, id)), view,
           task.firstRow, loadElement(b, view, lastRow), task.rowsAligned);
  keyIdView = subview(b, keys, {task.batch, task.keys.first},
                      {one, task.keys.count}, {false, true});
  Type keyId = cast<MemRefType>(keys.getType()).getElementType();
  if (id.isInteger(32) && keyId.isInteger(64))
    queryIds =
        arith::ExtSIOp::create(b, b.typeOf(Extent::PerRow, keyId), queryIds);
  queryIdMin = segmentRange(queryIds, /*isMax=*/false);
  queryIdMax = segmentRange(queryIds, /*isMax=*/true);
}

/// The least or greatest of a vector of ids.
Value TileMask::segmentRange(Value ids, bool isMax) {
  Value first = vector::ExtractOp::create(b, ids, ArrayRef<int64_t>{0});
  auto kind =
      isMax ? vector::CombiningKind::MAXSI : vector::CombiningKind::MINSI;
  return vector::MultiDimReductionOp::create(b, ids, first,
                                             ArrayRef<bool>{true}, kind);
}

void TileMask::enterBlock(Value key) {
  firstKey = key;
  visible = {};
  seen = {};
  if (keyIdView) {
    Type id = cast<MemRefType>(keyIdView.getType()).getElementType();
    keyIds =
        read(b, cast<VectorType>(b.typeOf(Extent::PerColumn, id)), keyIdView,
             key, loadElement(b, keyIdView, key), task.keys.isWhole);
    Type common = getElementTypeOrSelf(queryIds.getType());
    if (id != common)
      keyIds = arith::ExtSIOp::create(b, b.typeOf(Extent::PerColumn, common),
                                      keyIds);
    keyIdMin = segmentRange(keyIds, /*isMax=*/false);
    keyIdMax = segmentRange(keyIds, /*isMax=*/true);
  }
  if (testsEveryBlock()) {
    visible = visibility();
    seen = seenBy(visible);
  }
}

Value TileMask::reach() {
  if (seen) {
    Value none = b.constantInt(b.getI1Type(), 0);
    return vector::MultiDimReductionOp::create(
        b, seen, none, ArrayRef<bool>{true}, vector::CombiningKind::OR);
  }
  if (!keyIds)
    return {};
  // Two ranges of ids meet when each starts before the other ends.
  Value low =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, queryIdMin, keyIdMax);
  Value high =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, keyIdMin, queryIdMax);
  return arith::AndIOp::create(b, low, high);
}

//===----------------------------------------------------------------------===//
// Element
//===----------------------------------------------------------------------===//

/// True when the block straddles an edge; null when no block does.
Value TileMask::edge() {
  Value result;
  auto orElse = [&](Value condition) {
    result = result ? arith::OrIOp::create(b, result, condition) : condition;
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  };
  if (interiorBegin)
    orElse(
        compare(arith::CmpIPredicate::slt, firstKey, b.value(*interiorBegin)));
  if (interiorEnd)
    orElse(compare(arith::CmpIPredicate::sgt,
                   b.value(b.add(firstKey, b.getIndexAttr(b.columns))),
                   b.value(*interiorEnd)));
  if (keyIds) {
    // A reached block of one id on either side has the same id on both.
    orElse(compare(arith::CmpIPredicate::ne, queryIdMin, queryIdMax));
    orElse(compare(arith::CmpIPredicate::ne, keyIdMin, keyIdMax));
  }
  return result;
}

/// An index as i32, after it was limited to [low, high]: comparisons with
/// positions in a block do not need more, and i32 lanes are half as wide.
static TileValue limited(TileBuilder &b, Index index, int64_t low,
                         int64_t high) {
  Index within =
      b.minimum(b.maximum(index, b.getIndexAttr(low)), b.getIndexAttr(high));
  return {arith::IndexCastOp::create(b, b.getI32Type(), b.value(within)),
          Extent::Uniform};
}

/// Length and band, on positions within the block: column jj is key
/// firstKey + jj of the range, row ii is query firstRow + ii.
TileValue TileMask::bandVisibility() {
  TileValue result;
  if (task.keys.isAligned && !left && !right)
    return result;
  TileValue column = b.step(Extent::PerColumn, b.getI32Type());
  if (!task.keys.isAligned) {
    TileValue rest =
        limited(b, b.subtract(task.keys.count, firstKey), 0, b.columns);
    result = b.combine<arith::CmpIOp>(column, rest, arith::CmpIPredicate::slt);
  }
  if (!left && !right)
    return result;
  TileValue row = b.step(Extent::PerRow, b.getI32Type());
  // Where row 0 meets the diagonal, counted from the first column.
  Index diagonal = b.subtract(
      b.add(task.firstRow, b.subtract(task.keys.diagonal, task.keys.first)),
      firstKey);
  if (left) {
    TileValue shift = limited(b, b.subtract(diagonal, b.getIndexAttr(*left)),
                              -b.rows, b.columns);
    result = b.conjunction(
        result,
        b.combine<arith::CmpIOp>(column, b.combine<arith::AddIOp>(row, shift),
                                 arith::CmpIPredicate::sge));
  }
  if (right) {
    TileValue shift =
        limited(b, b.add(diagonal, b.getIndexAttr(*right)), -b.rows, b.columns);
    setRole(shift.value.getDefiningOp(), role::kRightBound);
    result = b.conjunction(
        result,
        b.combine<arith::CmpIOp>(column, b.combine<arith::AddIOp>(row, shift),
                                 arith::CmpIPredicate::sle));
  }
  return result;
}

TileValue TileMask::maskModVisibility() {
  TileValue arguments[] = {
      {task.batch, Extent::Uniform},
      {task.head, Extent::Uniform},
      queryPositions(b, task),
      keyPositions(b, task, firstKey,
                   readsByPosition(op.getMaskMod(), op.getCaptures()))};
  return vectorizeRegion(b, op.getMaskMod(), arguments, task.counts(),
                         op.getCaptures())
      .front();
}

/// The conjunction of every mask of the op; null when there is none.
TileValue TileMask::visibility() {
  TileValue result = bandVisibility();
  if (keyIds)
    result = b.conjunction(result,
                           b.combine<arith::CmpIOp>({queryIds, Extent::PerRow},
                                                    {keyIds, Extent::PerColumn},
                                                    arith::CmpIPredicate::eq));
  if (maskOperand)
    result = b.conjunction(result, maskOperand->read(b, task, firstKey));
  if (op.hasMaskMod())
    result = b.conjunction(result, maskModVisibility());
  return result;
}

Value TileMask::seenBy(TileValue visible) {
  if (!varies(visible.extent, Extent::PerRow))
    return b.broadcast(visible, Extent::PerColumn);
  Value none = b.constantInt(b.typeOf(Extent::PerColumn, b.getI1Type()), 0);
  auto any = vector::MultiDimReductionOp::create(b, b.toTile(visible), none,
                                                 ArrayRef<bool>{true, false},
                                                 vector::CombiningKind::OR);
  setRole(any, role::kSeen);
  return any;
}

Value TileMask::select(TileValue visible, Value scores) {
  Value hidden = b.negativeInfinity(scores.getType());
  return arith::SelectOp::create(b, b.toTile(visible), scores, hidden);
}

Value TileMask::apply(Value scores) {
  if (testsEveryBlock()) {
    Value masked = select(visible, scores);
    setRole(masked.getDefiningOp(), role::kMasked);
    return masked;
  }
  Value isEdge = edge();
  if (!isEdge)
    return scores;
  // Segments also hide whole keys from a task, within a block it reaches.
  SmallVector<Type> types = {scores.getType()};
  Type seenType = b.typeOf(Extent::PerColumn, b.getI1Type());
  if (keyIds)
    types.push_back(seenType);
  auto branch = scf::IfOp::create(b, types, isEdge, /*withElseRegion=*/true);
  setRole(branch, role::kMasked);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  TileValue visible = visibility();
  SmallVector<Value> tested = {select(visible, scores)};
  if (keyIds)
    tested.push_back(seenBy(visible));
  scf::YieldOp::create(b, tested);
  b.setInsertionPointToStart(branch.elseBlock());
  SmallVector<Value> untested = {scores};
  if (keyIds) {
    untested.push_back(b.constantInt(seenType, 1));
    seen = branch.getResult(1);
  }
  scf::YieldOp::create(b, untested);
  return branch.getResult(0);
}
