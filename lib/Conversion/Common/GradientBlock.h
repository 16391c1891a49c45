//===- GradientBlock.h - P and dX of a block in registers -------*- C++ -*-===//
//
// The arithmetic between the products, cloned from the tiled form for what a
// thread holds of a block: with rows as rows (AccumulatorLayout), or with keys
// as rows (TransposedLayout).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_GRADIENTBLOCK_H
#define ATTN_LIB_CONVERSION_COMMON_GRADIENTBLOCK_H

#include "FragmentSoftmax.h"
#include "GradientForm.h"
#include "TransposedLayout.h"

namespace attn {

/// A tile whose positions are made there, see the layouts.
inline mlir::FailureOr<Fragment> makeTile(TransposedLayout &layout,
                                          mlir::Value tile, int64_t columns) {
  return layout.tile(tile, columns);
}
inline mlir::FailureOr<Fragment> makeTile(AccumulatorLayout &layout,
                                          mlir::Value tile, int64_t columns) {
  mlir::FailureOr<Fragment> result = mlir::failure();
  layout.withOwnPositions([&]() { result = layout.tile(tile, columns); });
  return result;
}

/// `columns` are those of the fragments, `scalars` those of the block.
template <typename Layout> class BlockArithmetic {
public:
  BlockArithmetic(GpuEmitter &e, GradientBlock &block, Layout &layout,
                  mlir::IRMapping &scalars, int64_t columns)
      : e(e), block(block), layout(layout), scalars(scalars), columns(columns) {
  }

  /// P of the raw scores; references have been bound. They stay bound.
  /// `whenTested` is called where the masks are tested.
  mlir::FailureOr<Fragment>
  probabilities(Fragment scores,
                llvm::function_ref<mlir::LogicalResult()> whenTested = {}) {
    if (block.scores)
      layout.bind(block.scores->getResult(0), scores);
    if (block.masked) {
      mlir::FailureOr<Fragment> masked = maskedScores(scores, whenTested);
      if (mlir::failed(masked))
        return mlir::failure();
      layout.bind(block.masked->getResult(0), *masked);
    } else if (whenTested && mlir::failed(whenTested())) {
      return mlir::failure();
    }
    return makeTile(layout, block.probabilities, columns);
  }

  /// dX; deltas have been bound. P and dP stay bound. Empty where nothing
  /// meets dX.
  mlir::FailureOr<Fragment> ofProducts(Fragment probabilities,
                                       Fragment ofProbabilities) {
    layout.bind(block.probabilities, probabilities);
    if (block.probabilityGradient)
      layout.bind(block.probabilityGradient->getResult(0), ofProbabilities);
    if (!block.ofProducts)
      return Fragment{};
    return makeTile(layout, block.ofProducts, columns);
  }

private:
  /// Elements are tested in blocks on an edge only.
  mlir::FailureOr<Fragment>
  maskedScores(Fragment scores,
               llvm::function_ref<mlir::LogicalResult()> whenTested) {
    mlir::Value plain = block.masked.elseYield().getOperand(0);
    mlir::FailureOr<Fragment> result = scores;
    bool isRaw = block.scores && plain == block.scores->getResult(0);
    if (!isRaw) {
      result = makeTile(layout, plain, columns);
      if (mlir::failed(result))
        return mlir::failure();
      layout.bind(plain, *result);
    }
    llvm::SmallVector<mlir::Value> unmasked = result->elements;
    bool valid = true;
    llvm::SmallVector<mlir::Value> elements =
        e.branch(scalars.lookup(block.masked.getCondition()), unmasked, [&]() {
          cloneScalars(e, *block.masked.thenBlock(), scalars);
          mlir::FailureOr<Fragment> masked =
              makeTile(layout, block.masked.thenYield().getOperand(0), columns);
          valid = mlir::succeeded(masked) &&
                  (!whenTested || mlir::succeeded(whenTested()));
          return valid ? masked->elements : unmasked;
        });
    if (!isRaw)
      layout.unbind(plain);
    if (!valid)
      return mlir::failure();
    return Fragment{elements};
  }

  GpuEmitter &e;
  GradientBlock &block;
  Layout &layout;
  mlir::IRMapping &scalars;
  int64_t columns;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_GRADIENTBLOCK_H
