//===- TransposedLayout.h - Score tiles with keys as rows -------*- C++ -*-===//
//
// S^T = K Q^T leaves a thread the elements of AccumulatorLayout.h with keys as
// rows and queries as columns. The tiled form has it the other way round, so
// its arithmetic is cut to single elements: row and column of a piece change
// places.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_TRANSPOSEDLAYOUT_H
#define ATTN_LIB_CONVERSION_COMMON_TRANSPOSEDLAYOUT_H

#include "AccumulatorLayout.h"

namespace attn {

class TransposedLayout {
public:
  /// `key` and `query` are those of the thread's first element within the
  /// block (i32).
  TransposedLayout(GpuEmitter &e, TileSlicer &slicer, mlir::Value key,
                   mlir::Value query)
      : e(e), slicer(slicer), key(key), query(query) {}

  /// From here on `value` of the tiled form is what this thread holds of it.
  void bind(mlir::Value value, Fragment fragment);
  /// A number for each query of the thread, in their order.
  void bindPerQuery(mlir::Value value, llvm::SmallVector<mlir::Value> numbers);
  void unbind(mlir::Value value) { slicer.unbind(value); }

  /// This thread's part of a tile of `queries` queries. Its positions are made
  /// there: kept from block to block they would take registers of the tiles.
  mlir::FailureOr<Fragment> tile(mlir::Value value, int64_t queries);

private:
  GpuEmitter &e;
  TileSlicer &slicer;
  mlir::Value key, query;
  /// The element being made.
  int64_t group = 0, half = 0, element = 0;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_TRANSPOSEDLAYOUT_H
