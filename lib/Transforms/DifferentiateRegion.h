//===- DifferentiateRegion.h - The derivative of score_mod ------*- C++ -*-===//
//
// Reverse mode over a score region. The derivative is a region as well, of the
// same scalar ops, so whatever runs a score region on a tile runs its
// derivative: nothing else has to know about derivatives.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TRANSFORMS_DIFFERENTIATEREGION_H
#define ATTN_LIB_TRANSFORMS_DIFFERENTIATEREGION_H

#include "attn/IR/Attn.h"

namespace attn {

struct ScoreDerivative {
  /// Takes the gradient of the result in front of the arguments of score_mod.
  /// Yields the gradient of the score; then for each of `reads` the gradient
  /// of the element that is read, and its indices.
  std::unique_ptr<mlir::Region> region;

  struct Read {
    int64_t capture;
    unsigned numIndices;
  };
  llvm::SmallVector<Read> reads;
};

/// The derivative of the op's score_mod by the score and by the captures of
/// these numbers. Emits an error at an op of the region that has none.
mlir::FailureOr<ScoreDerivative>
differentiateScoreMod(AttentionOpInterface op,
                      llvm::ArrayRef<int64_t> captures);

} // namespace attn

#endif // ATTN_LIB_TRANSFORMS_DIFFERENTIATEREGION_H
