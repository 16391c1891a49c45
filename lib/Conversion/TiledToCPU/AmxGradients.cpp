//===- AmxGradients.cpp - Gradients by AMX tile registers -----------------===//

#include "AmxGradients.h"

using namespace mlir;
using namespace attn;
using namespace attn::cpu;

using Piece = TileSlicer::Piece;

std::unique_ptr<GradientTiles>
cpu::createAmxGradients(Emitter &e, scf::ForallOp tasks,
                        const TargetDescription &target, IRMapping &scalars) {
  return std::make_unique<AmxGradients>(e, tasks, target, scalars);
}

/// Where a tile of packed ones begins.
static Value tileAt(Emitter &e, Value packed, Value row, Value column) {
  Value zero = e.index(0);
  return tileAddress(e, packed, {row, column, zero, zero});
}

//===----------------------------------------------------------------------===//
// P and dX
//===----------------------------------------------------------------------===//

SmallVector<AmxGradients::Factor> AmxGradients::findFactors(Block &block) {
  SmallVector<Factor> found;
  for (auto product : block.getOps<vector::ContractionOp>()) {
    if (!accumulates(product))
      continue;
    Value value = unrounded(product.getLhs());
    auto it = llvm::find_if(
        found, [&](const Factor &factor) { return factor.value == value; });
    if (it == found.end())
      it = found.insert(found.end(), Factor{value, {}, {}, {}, {}});
    vector::TransferReadOp other = findRead(unrounded(product.getRhs()));
    ArrayRef<int64_t> shape = cast<VectorType>(value.getType()).getShape();
    if (getRole(product) == role::kQueryGradient) {
      it->plain = allocate(shape[0], shape[1], bf16());
      it->keys = other;
    } else if (!it->pairs) {
      it->pairs = allocatePacked(shape[0] / kPatch, shape[1] / kTileRows,
                                 kTileDepth, bf16());
      it->rows = other;
    }
  }
  return found;
}

void AmxGradients::multiplyPatchOf(vector::ContractionOp product, Value patch,
                                   Value row, Value key) {
  Value left = tiles.lookup(unrounded(product.getLhs()));
  Value right = words.lookup(unrounded(product.getRhs()));
  int64_t depth = cast<MemRefType>(left.getType()).getDimSize(1);
  TilePatch p;
  p.left = [&](int64_t r, Value step) {
    return tileAddress(e, left,
                       {e.add(row, r * kTileRows), e.mul(step, kTileDepth)});
  };
  p.right = [&](int64_t c, Value step) {
    return tileAt(e, right, e.add(e.div(key, kTileRows), c), step);
  };
  p.sums = [&](int64_t r, int64_t c) {
    return tileAddress(e, patch,
                       {e.index(r * kTileRows), e.index(c * kTileRows)});
  };
  p.leftStride = depth * 2;
  p.sumStride = kPatch * 4;
  multiplyPatch(e, p, e.index(depth / kTileDepth));
}

/// Pieces are of 16 keys of row `pair`, then of the row 16 behind it.
void AmxGradients::storePairs(const Factor &factor, Value row, Value key,
                              Value pair, ArrayRef<Value> pieces) {
  auto integers = VectorType::get(kTileRows, e.b.getI32Type());
  auto elements = VectorType::get(kTileDepth, bf16());
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < kTileRows; ++lane)
    llvm::append_values(order, lane, lane + kTileRows);
  Value mask;
  if (vector::TransferReadOp rows = factor.rows; !rows.isDimInBounds(0)) {
    Value inside = rowsInside(rows), bits[2];
    for (int64_t h = 0; h < 2; ++h) {
      Value at = e.add(e.add(row, pair), h * kTileRows);
      Value isInside = arith::CmpIOp::create(
          e.b, e.loc, arith::CmpIPredicate::slt, at, inside);
      auto constant = [&](uint32_t value) -> Value {
        return arith::ConstantOp::create(e.b, e.loc,
                                         e.b.getI32IntegerAttr(value));
      };
      bits[h] = arith::SelectOp::create(
          e.b, e.loc, isInside, constant(0xffffu << (16 * h)), constant(0));
    }
    mask =
        e.splat(integers, arith::OrIOp::create(e.b, e.loc, bits[0], bits[1]));
  }
  for (int64_t c = 0; c < 2; ++c) {
    Value both = roundPair(e, target, pieces[c], pieces[2 + c]);
    Value mixed = vector::ShuffleOp::create(e.b, e.loc, both, both, order);
    if (mask)
      mixed = vector::BitCastOp::create(
          e.b, e.loc, elements,
          arith::AndIOp::create(
              e.b, e.loc,
              vector::BitCastOp::create(e.b, e.loc, integers, mixed), mask));
    e.store(mixed, factor.pairs,
            {e.div(row, kPatch), e.add(e.div(key, kTileRows), c), pair,
             e.index(0)});
  }
}

/// Pieces of 32 keys of a row.
void AmxGradients::storePlain(const Factor &factor, Value row, Value key,
                              ArrayRef<Value> pieces) {
  Value both = roundPair(e, target, pieces[0], pieces[1]);
  if (vector::TransferReadOp keys = factor.keys; !keys.isDimInBounds(0)) {
    auto lanes = VectorType::get(kTileDepth, e.b.getI1Type());
    Value isInside = vector::CreateMaskOp::create(
        e.b, e.loc, lanes,
        ValueRange{e.max(e.sub(rowsInside(keys), key), e.index(0))});
    both = arith::SelectOp::create(
        e.b, e.loc, isInside, both,
        e.constant(cast<VectorType>(both.getType()), 0.0));
  }
  e.store(both, factor.plain, {row, key});
}

LogicalResult AmxGradients::finishRowPair(ArrayRef<Factor> factors,
                                          Operation *probabilities, Value row,
                                          Value key, Value pair) {
  SmallVector<SmallVector<Value>> pieces(factors.size());
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t c = 0; c < 2; ++c) {
      Piece piece{e.add(e.add(row, pair), h * kTileRows),
                  e.add(key, c * kTileRows), width};
      if (probabilities) {
        Value p = probabilities->getResult(0);
        FailureOr<Value> made = slicer.tile(p, piece);
        if (failed(made))
          return failure();
        slicer.bind(p, [value = *made](const Piece &) { return value; });
      }
      bool valid = true;
      for (auto [factor, made] : llvm::zip(factors, pieces)) {
        FailureOr<Value> element = slicer.tile(factor.value, piece);
        valid &= succeeded(element);
        if (valid)
          made.push_back(*element);
      }
      if (probabilities)
        slicer.unbind(probabilities->getResult(0));
      if (!valid)
        return failure();
    }
  for (auto [factor, made] : llvm::zip(factors, pieces)) {
    if (factor.pairs)
      storePairs(factor, row, key, pair, made);
    for (int64_t h = 0; factor.plain && h < 2; ++h)
      storePlain(factor, e.add(e.add(row, pair), h * kTileRows), key,
                 ArrayRef(made).slice(2 * h, 2));
  }
  return success();
}

LogicalResult AmxGradients::finishPatch(ArrayRef<Factor> factors,
                                        Operation *probabilities, Value row,
                                        Value key) {
  bool valid = true;
  e.loop(e.index(0), e.index(kTileRows), 1, [&](Value pair) {
    valid &= succeeded(finishRowPair(factors, probabilities, row, key, pair));
  });
  return success(valid);
}

LogicalResult AmxGradients::makeFactors(Block &block) {
  if (madeFor == &block)
    return success();
  madeFor = &block;
  factors = findFactors(block);
  llvm::SetVector<Operation *> ops;
  for (const Factor &factor : factors)
    collectOps(factor.value, tiles, ops);
  SmallVector<std::pair<vector::ContractionOp, Value>> products;
  scf::IfOp masked;
  Operation *probabilities = nullptr;
  for (Operation *op : ops) {
    if (auto product = dyn_cast<vector::ContractionOp>(op))
      products.push_back({product, allocate(kPatch, kPatch, type)});
    if (auto branch = dyn_cast<scf::IfOp>(op))
      masked = branch;
    if (getRole(op) == role::kProbabilities)
      probabilities = op;
  }
  ArrayRef<int64_t> shape =
      cast<VectorType>(factors.front().value.getType()).getShape();
  bool valid = true;
  auto makePatch = [&](Value row, Value key) {
    for (auto [product, patch] : products) {
      multiplyPatchOf(product, patch, row, key);
      slicer.bind(product.getResult(), [this, patch = patch, row,
                                        key](const Piece &piece) {
        return e.load(vector, patch,
                      {e.sub(piece.row, row), e.sub(piece.column, key)});
      });
    }
    auto finish = [&] { return finishPatch(factors, probabilities, row, key); };
    valid &= succeeded(masked ? branchOnEdge(masked, finish) : finish());
  };
  e.loop(e.index(0), e.index(shape[0]), kPatch, [&](Value row) {
    e.loop(e.index(0), e.index(shape[1]), kPatch,
           [&](Value key) { makePatch(row, key); });
  });
  return success(valid);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Value AmxGradients::allocateSums(VectorType sums) {
  int64_t rows = sums.getDimSize(0), columns = whole(sums.getDimSize(1));
  return turnsSums ? allocatePacked(columns / kTileRows, rows / kTileRows,
                                    kTileRows, type)
                   : allocate(rows, columns, type);
}

/// By squares that are transposed in registers.
Value AmxGradients::finishSums(VectorType sums, Value scratch) {
  if (!turnsSums)
    return scratch;
  int64_t rows = sums.getDimSize(0), columns = sums.getDimSize(1);
  Value plain = allocate(rows, columns, type);
  auto square = VectorType::get({kTileRows, kTileRows}, type);
  int64_t tileColumns = (columns + kTileRows - 1) / kTileRows;
  e.loop(e.index(0), e.index(tileColumns), 1, [&](Value d) {
    e.loop(e.index(0), e.index(rows / kTileRows), 1, [&](Value group) {
      Value tile = e.constant(square, 0.0);
      for (int64_t r = 0; r < kTileRows; ++r)
        tile = vector::InsertOp::create(
            e.b, e.loc,
            e.load(vector, scratch, {d, group, e.index(r), e.index(0)}), tile,
            r);
      tile = vector::TransposeOp::create(e.b, e.loc, tile,
                                         ArrayRef<int64_t>{1, 0});
      for (int64_t r = 0; r < kTileRows; ++r)
        e.store(vector::ExtractOp::create(e.b, e.loc, tile, r), plain,
                {e.add(e.mul(group, kTileRows), r), e.mul(d, kTileRows)});
    });
  });
  return plain;
}

/// sums[d][key] += turned[d][row] * pairs[row][key].
void AmxGradients::sumTurned(vector::ContractionOp product, Value factor,
                             Value sums) {
  auto read = unrounded(product.getRhs()).getDefiningOp();
  Value left = turned.lookup(read->getResult(0));
  ArrayRef<int64_t> shape = cast<MemRefType>(sums.getType()).getShape();
  Value steps =
      e.ceilDiv(rowsInside(cast<vector::TransferReadOp>(read)), kPatch);
  e.loop(e.index(0), e.index(shape[0]), 2, [&](Value d) {
    e.loop(e.index(0), e.index(shape[1]), 2, [&](Value key) {
      TilePatch p;
      p.left = [&](int64_t r, Value step) {
        return tileAt(e, left, e.add(d, r), step);
      };
      p.right = [&](int64_t c, Value step) {
        return tileAt(e, factor, step, e.add(key, c));
      };
      p.sums = [&](int64_t r, int64_t c) {
        return tileAt(e, sums, e.add(d, r), e.add(key, c));
      };
      p.startsAtSums = true;
      multiplyPatch(e, p, steps);
    });
  });
}

/// sums[row][d] (+)= dX[row][key] * pairs[key][d].
void AmxGradients::sumRows(vector::ContractionOp product, Value factor,
                           Value sums, bool startsAtSums) {
  Value operand = unrounded(product.getRhs());
  Value right = pairs.lookup(operand);
  int64_t keys = cast<MemRefType>(factor.getType()).getDimSize(1);
  ArrayRef<int64_t> shape = cast<MemRefType>(sums.getType()).getShape();
  Value steps = e.ceilDiv(rowsInside(findRead(operand)), kPatch);
  e.loop(e.index(0), e.index(shape[0]), kPatch, [&](Value row) {
    e.loop(e.index(0), e.index(shape[1]), kPatch, [&](Value d) {
      TilePatch p;
      p.left = [&](int64_t r, Value step) {
        return tileAddress(
            e, factor, {e.add(row, r * kTileRows), e.mul(step, kTileDepth)});
      };
      p.right = [&](int64_t c, Value step) {
        return tileAt(e, right, step, e.add(e.div(d, kTileRows), c));
      };
      p.sums = [&](int64_t r, int64_t c) {
        return tileAddress(
            e, sums, {e.add(row, r * kTileRows), e.add(d, c * kTileRows)});
      };
      p.leftStride = keys * 2;
      p.sumStride = shape[1] * 4;
      p.startsAtSums = startsAtSums;
      multiplyPatch(e, p, steps);
    });
  });
}

LogicalResult AmxGradients::accumulate(vector::ContractionOp product) {
  if (failed(makeFactors(*product->getBlock())))
    return failure();
  Value left = unrounded(product.getLhs());
  const Factor *factor = llvm::find_if(
      factors, [&](const Factor &made) { return made.value == left; });
  Value right = unrounded(product.getRhs());
  Value sums = tiles.lookup(product.getAcc());
  if (getRole(product) != role::kQueryGradient) {
    sumTurned(product, factor->pairs, sums);
  } else {
    // Keys that no row sees are left out of dQ.
    if (!pairs.contains(right) && failed(packPairs(right)))
      return failure();
    // What a block adds to dQ in memory starts anew.
    bool startsAtSums = bool(sums);
    if (!sums) {
      ArrayRef<int64_t> shape =
          cast<VectorType>(product.getResultType()).getShape();
      sums = allocate(shape[0], whole(shape[1]), type);
    }
    sumRows(product, factor->plain, sums, startsAtSums);
  }
  place(product.getResult(), sums);
  return success();
}
