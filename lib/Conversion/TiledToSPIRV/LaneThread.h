//===- LaneThread.h - A thread of a workgroup of lanes ----------*- C++ -*-===//
//
// What every kernel of lanes has: threads by number, which meet in memory of
// the workgroup.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANETHREAD_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANETHREAD_H

#include "LaneLayout.h"
#include "attn/Target/LaneTiles.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn::spv {

/// A tile in workgroup memory: a memref of one dimension, whose elements are
/// vectors.
struct SharedTile {
  mlir::Value memory;

  mlir::Value load(GpuEmitter &e, mlir::Value at) const {
    return mlir::memref::LoadOp::create(e.b, e.loc, memory, at);
  }
  void store(GpuEmitter &e, mlir::Value value, mlir::Value at) const {
    mlir::memref::StoreOp::create(e.b, e.loc, value, memory, at);
  }
  mlir::Type type() const {
    return mlir::cast<mlir::MemRefType>(memory.getType()).getElementType();
  }
};

/// Memory of the workgroup, for `count` elements of `type`.
SharedTile allocateShared(GpuEmitter &e, int64_t count, mlir::Type type);

struct LaneThread {
  GpuEmitter e;
  /// Threads of the workgroup, and what they compute in.
  int64_t threads;
  mlir::FloatType type;
  /// Thread of the workgroup (index).
  mlir::Value id;

  LaneThread(GpuEmitter e, int64_t threads, mlir::FloatType type);

  mlir::VectorType quadType() const {
    return mlir::VectorType::get(LaneTiles::kQuad, type);
  }
  void barrier();
  /// Whether `any` (i1) holds in any thread of the workgroup, by the word
  /// number `at` of `words`. All of them ask together.
  mlir::Value voteAny(mlir::Value any, const SharedTile &words, mlir::Value at);

  using Combine = llvm::function_ref<mlir::Value(mlir::Value x, mlir::Value y)>;
  /// A number a row that `columns` threads share, combined over them through
  /// `memory`, which has `height` numbers for each of these threads. Of them
  /// this is number `column`; `rows` says where in a column each number lies.
  /// Between two calls lies a barrier.
  Registers combine(const Registers &numbers, llvm::ArrayRef<mlir::Value> rows,
                    mlir::Value column, int64_t columns, int64_t height,
                    const SharedTile &memory, Combine combine);
};

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_LANETHREAD_H
