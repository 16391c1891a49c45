//===- MathExpansion.cpp - Functions as arithmetic ------------------------===//

#include "MathExpansion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace {
/// Questions about a float as comparisons, |x| of an integer as a maximum.
struct LowerToComparisons : public RewritePattern {
  explicit LowerToComparisons(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<math::AbsIOp, math::IsFiniteOp, math::IsInfOp, math::IsNaNOp>(op))
      return failure();
    Location loc = op->getLoc();
    Value x = op->getOperand(0);
    if (isa<math::AbsIOp>(op)) {
      Value zero = arith::ConstantOp::create(rewriter, loc,
                                             rewriter.getZeroAttr(x.getType()));
      Value negated = arith::SubIOp::create(rewriter, loc, zero, x);
      rewriter.replaceOpWithNewOp<arith::MaxSIOp>(op, x, negated);
      return success();
    }
    if (isa<math::IsNaNOp>(op)) {
      rewriter.replaceOpWithNewOp<arith::CmpFOp>(op, arith::CmpFPredicate::UNO,
                                                 x, x);
      return success();
    }
    auto type = cast<FloatType>(getElementTypeOrSelf(x.getType()));
    TypedAttr infinity =
        rewriter.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics()));
    if (auto vectorType = dyn_cast<VectorType>(x.getType()))
      infinity = DenseElementsAttr::get(vectorType, Attribute(infinity));
    auto predicate = isa<math::IsInfOp>(op) ? arith::CmpFPredicate::OEQ
                                            : arith::CmpFPredicate::OLT;
    rewriter.replaceOpWithNewOp<arith::CmpFOp>(
        op, predicate, math::AbsFOp::create(rewriter, loc, x),
        arith::ConstantOp::create(rewriter, loc, infinity));
    return success();
  }
};

} // namespace

/// Functions that a GPU has no unit for, as upstream's expansions and
/// polynomials; questions about a float as comparisons.
static void populateMathExpansion(RewritePatternSet &patterns) {
  patterns.add<LowerToComparisons>(patterns.getContext());
  math::populateExpansionPatterns(patterns, {"acosh", "asinh", "atanh",
                                             "clampf", "cosh", "ctlz", "fpowi",
                                             "powf", "sincos", "sinh", "tan"});
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
    return llvm::is_contained(
        {"math.acos", "math.asin", "math.atan", "math.atan2", "math.cbrt",
         "math.cos", "math.erf", "math.erfc", "math.expm1", "math.log",
         "math.log1p", "math.log2", "math.sin"},
        name);
  });
}

LogicalResult attn::expandMath(Operation *root, RewritePatternSet known,
                               function_ref<bool(Operation *)> isFunction,
                               StringRef language) {
  populateMathExpansion(known);
  SmallVector<Operation *> functions;
  root->walk([&](Operation *op) {
    if (isFunction(op))
      functions.push_back(op);
  });
  // Other ops are as the passes before want them: none is folded.
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
  (void)applyOpPatternsGreedily(functions, std::move(known), config);
  bool isExpanded = true;
  root->walk([&](Operation *op) {
    if (!isFunction(op))
      return;
    op->emitOpError("has no form in ")
        << language << " on " << op->getOperand(0).getType()
        << "; f16, bf16 and f32 have all functions, f64 has "
           "exp2, exp, log2, log, tanh and rsqrt";
    isExpanded = false;
  });
  return success(isExpanded);
}
