//===- Canonicalization.cpp - The attention ops in their shortest form ----===//
//
// Each pattern removes something that does not change the meaning: a region
// that is the identity, a bound of the band that hides nothing, a transpose
// that only changes the layout.
//
//===----------------------------------------------------------------------===//

#include "attn/IR/Attn.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace attn;

namespace {

/// score_mod that yields its score, mask_mod that yields true.
struct DropIdentityRegion : OpInterfaceRewritePattern<AttentionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    auto drop = [&](Region &region) {
      rewriter.modifyOpInPlace(op,
                               [&] { rewriter.eraseBlock(&region.front()); });
      return success();
    };
    if (op.hasScoreMod()) {
      Block &body = op.getScoreMod().front();
      if (body.getTerminator()->getOperand(0) == body.getArgument(Score))
        return drop(op.getScoreMod());
    }
    if (op.hasMaskMod())
      if (matchPattern(op.getMaskMod().front().getTerminator()->getOperand(0),
                       m_One()))
        return drop(op.getMaskMod());
    return rewriter.notifyMatchFailure(op, "no region is the identity");
  }
};

/// Captures that no region reads and whose gradient nobody asks for.
struct DropUnusedCaptures : OpInterfaceRewritePattern<AttentionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    auto backward = dyn_cast<AttentionBackwardOp>(*op);
    for (unsigned c = 0, e = op.getCaptures().size(); c < e; ++c) {
      if (backward && llvm::is_contained(backward.getCaptureGradients(), c))
        continue;
      auto isUnused = [&](Region &region, unsigned first) {
        return region.empty() || region.getArgument(first + c).use_empty();
      };
      if (!isUnused(op.getScoreMod(), kScoreModArguments) ||
          !isUnused(op.getMaskMod(), kMaskModArguments))
        continue;
      rewriter.modifyOpInPlace(op, [&] {
        if (op.hasScoreMod())
          op.getScoreMod().eraseArgument(kScoreModArguments + c);
        if (op.hasMaskMod())
          op.getMaskMod().eraseArgument(kMaskModArguments + c);
        op.getCapturesMutable().erase(c);
        if (!backward)
          return;
        SmallVector<int64_t> numbers(backward.getCaptureGradients());
        for (int64_t &number : numbers)
          number -= number > c;
        backward.setCaptureGradients(numbers);
      });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "every capture is read");
  }
};

/// A bound of the band that reaches past every key from every query hides
/// nothing: a wide window, the causal diagonal of a single last query. On the
/// right of a causal diagonal a window repeats it. Without bounds there is no
/// diagonal to align.
struct DropUnboundBand : OpInterfaceRewritePattern<AttentionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    int64_t left = op.getWindowLeft(), right = op.getWindowRight();
    bool causal = op.getCausal();
    if (causal)
      right = -1;
    AttentionShape shape = op.getShape();
    bool known = !ShapedType::isDynamic(shape.queryLength) &&
                 !ShapedType::isDynamic(shape.kvLength) && !op.getQueryOffset();
    if (known) {
      int64_t offset = op.getAlignment() == Alignment::bottom_right
                           ? shape.kvLength - shape.queryLength
                           : 0;
      // The farthest key on the left of the last query is 0, on the right of
      // the first query Skv - 1.
      if (left >= shape.queryLength - 1 + offset)
        left = -1;
      if (right >= shape.kvLength - 1 - offset)
        right = -1;
      if (0 >= shape.kvLength - 1 - offset)
        causal = false;
    }
    Alignment alignment = op.getAlignment();
    bool hasOffset = bool(op.getQueryOffset());
    if (left == -1 && right == -1 && !causal) {
      alignment = Alignment::top_left;
      hasOffset = false;
    }
    if (left == op.getWindowLeft() && right == op.getWindowRight() &&
        causal == op.getCausal() && alignment == op.getAlignment() &&
        hasOffset == bool(op.getQueryOffset()))
      return rewriter.notifyMatchFailure(op, "each bound hides a key");
    rewriter.modifyOpInPlace(op, [&] {
      op.setWindowLeft(left);
      op.setWindowRight(right);
      op.setCausal(causal);
      op.setAlignment(alignment);
      if (!hasOffset)
        op.getQueryOffsetMutable().clear();
    });
    return success();
  }
};

/// The operand of a linalg.transpose that swaps heads and sequence.
Value swappedSource(Value value) {
  auto transpose = value.getDefiningOp<linalg::TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1, 3})
    return {};
  return transpose.getInput();
}

Layout swapped(Layout layout) {
  return layout == Layout::bhsd ? Layout::bshd : Layout::bhsd;
}

/// Reads query, key or value from in front of a transpose of heads and
/// sequence: any strides are read without a copy.
struct FoldOperandTranspose : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value query = swappedSource(op.getQuery());
    Value key = swappedSource(op.getKey());
    Value value = swappedSource(op.getValue());
    if (op.isMemRefForm() || (!query && !key && !value))
      return rewriter.notifyMatchFailure(
          op, "no operand is a transpose of heads and sequence");
    rewriter.modifyOpInPlace(op, [&] {
      if (query) {
        op.getQueryMutable().assign(query);
        op.setQueryLayout(swapped(op.getQueryLayout()));
      }
      if (key) {
        op.getKeyMutable().assign(key);
        op.setKeyLayout(swapped(op.getKeyLayout()));
      }
      if (value) {
        op.getValueMutable().assign(value);
        op.setValueLayout(swapped(op.getValueLayout()));
      }
    });
    return success();
  }
};

/// Writes the output in the order that a transpose would bring it to.
struct FoldOutputTranspose : OpRewritePattern<linalg::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(linalg::TransposeOp transpose,
                                PatternRewriter &rewriter) const override {
    auto op = transpose.getInput().getDefiningOp<AttentionOp>();
    if (!op || transpose.getInput() != op.getResult(0) ||
        !op.getResult(0).hasOneUse() || !op.getOuts().empty() ||
        transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1, 3})
      return rewriter.notifyMatchFailure(
          transpose, "does not swap heads and sequence of an attention output");
    // Where the op stands, not the transpose: the lse may be read in between.
    rewriter.setInsertionPoint(op);
    auto clone = cast<AttentionOp>(rewriter.clone(*op));
    clone.getResult(0).setType(
        cast<RankedTensorType>(transpose->getResult(0).getType()));
    clone.setOutputLayout(swapped(op.getOutputLayout()));
    if (op.returnsLse())
      rewriter.replaceAllUsesWith(op.getResult(1), clone.getResult(1));
    rewriter.replaceOp(transpose, clone.getResult(0));
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void AttnDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  patterns.add<DropIdentityRegion, DropUnusedCaptures, DropUnboundBand>(
      getContext());
}

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<FoldOperandTranspose, FoldOutputTranspose>(context);
}
