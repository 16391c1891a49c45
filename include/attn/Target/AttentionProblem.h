//===- AttentionProblem.h - What the planner is asked -----------*- C++ -*-===//
//
// An attention op reduced to what decides tile sizes: sizes, element type, the
// band of visible keys and which extras it has. No IR is held.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_ATTENTIONPROBLEM_H
#define ATTN_TARGET_ATTENTIONPROBLEM_H

#include <cstdint>
#include <optional>
#include <string>

namespace attn {
class AttentionOpInterface;

struct AttentionProblem {
  /// The size of a dimension that is not known at compile time.
  static constexpr int64_t kDynamic = INT64_MIN;

  int64_t batch = kDynamic, queryHeads = kDynamic, kvHeads = kDynamic;
  int64_t queryLength = kDynamic, kvLength = kDynamic;
  int64_t headDim = kDynamic, valueDim = kDynamic;
  /// "f16", "bf16", "f32" or "f64".
  std::string elementType = "f32";
  /// Key j is visible to query i when i + offset - left <= j <= i + offset +
  /// right; an absent bound is unbounded.
  std::optional<int64_t> bandLeft, bandRight;
  /// offset is Skv - Sq. Assumed of a query_offset as well: a query behind a
  /// cache is the common case and the dear one.
  bool alignsBottomRight = false;

  bool hasScoreMod = false;
  bool hasSoftcap = false;
  bool hasBias = false;
  bool hasMask = false;
  bool hasMaskMod = false;
  bool hasSegments = false;
  bool hasKvLengths = false;
  bool hasSinks = false;
  bool returnsLse = false;
  /// The gradients are asked for, not the output.
  bool isBackward = false;
  /// Of those: equal inputs give equal bits; gradients of a bias or of
  /// captures, to which many pairs add, are asked for.
  bool isDeterministic = false;
  bool sumsPairGradients = false;
  /// Some size stands for all that may come: see withRepresentativeSizes.
  bool isRepresentative = false;
  /// Tensor maps can describe the operands and the gradients, as far as is
  /// known: all strides of whole units of 16 bytes, an output as wide as the
  /// elements.
  bool hasTensorMaps = true;
  /// They can as far as is known, but a launch may bring strides or an offset
  /// that are not.
  bool mapsDependOnLaunch = false;

  static bool isDynamic(int64_t size) { return size == kDynamic; }
  /// Bytes of an element, and of a score or accumulator.
  int64_t elementBytes() const;
  int64_t accumulatorBytes() const { return elementType == "f64" ? 8 : 4; }

  /// The problem with a size in place of every dynamic one: a long sequence,
  /// one batch, sixteen heads. Head dimensions are never guessed.
  AttentionProblem withRepresentativeSizes() const;

  /// Keys [lo, hi) that some query of rows [first, last] can see.
  struct KeyRange {
    int64_t lo = 0, hi = 0;
  };
  KeyRange visibleKeys(int64_t first, int64_t last) const;
  /// Query-key pairs inside the band, of one head. Needs static lengths.
  double visiblePairs() const;
};

AttentionProblem getProblem(AttentionOpInterface op);

} // namespace attn

#endif // ATTN_TARGET_ATTENTIONPROBLEM_H
