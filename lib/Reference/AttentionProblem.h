//===- AttentionProblem.h - An op and its arrays, checked ------*- C++ -*-===//

#ifndef ATTN_LIB_REFERENCE_ATTENTIONPROBLEM_H
#define ATTN_LIB_REFERENCE_ATTENTIONPROBLEM_H

#include "attn/IR/Attn.h"
#include "attn/Reference/Array.h"
#include "llvm/Support/Error.h"

namespace attn::reference {

/// Rows [b, h, s] of a rank-4 operand in either layout.
struct HeadRows {
  const double *data = nullptr;
  int64_t batchStride = 0, headStride = 0, rowStride = 0;

  const double *row(int64_t b, int64_t h, int64_t s) const {
    return data + b * batchStride + h * headStride + s * rowStride;
  }
};

/// An operand that broadcasts to [B, Hq, Sq, Skv]; null when absent.
struct BroadcastOperand {
  const double *data = nullptr;
  int64_t strides[4] = {0, 0, 0, 0};

  explicit operator bool() const { return data; }
  int64_t place(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
  }
  double at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return data[place(b, h, i, j)];
  }
};

/// The op with its sizes known and its operands found. Points into the arrays.
struct AttentionProblem {
  AttentionOpInterface op;
  AttentionShape shape;
  double scale = 1;
  HeadRows query, key, value;
  BroadcastOperand bias, mask;
  /// Null when absent.
  const Array *kvLengths = nullptr, *querySegments = nullptr,
              *kvSegments = nullptr, *sinks = nullptr, *queryOffset = nullptr;
  llvm::ArrayRef<Array> captures;
  llvm::SmallVector<int64_t> outputShape, lseShape;

  /// Rule C6, C8 and C9, and the mask operand; not the mask region.
  bool isVisible(int64_t b, int64_t h, int64_t i, int64_t j) const;
  /// The key/value head of a query head: rule C2.
  int64_t kvHead(int64_t h) const {
    return h / (shape.queryHeads / shape.kvHeads);
  }
  /// Position in the output of [b, h, i, 0].
  int64_t outputRow(int64_t b, int64_t h, int64_t i) const;

  /// Checks that the arrays fit the op's types and each other.
  static llvm::Expected<AttentionProblem> build(AttentionOpInterface op,
                                                llvm::ArrayRef<Array> operands);
};

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_ATTENTIONPROBLEM_H
