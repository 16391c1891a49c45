//===- SeenKeys.h - Which keys of a block some row sees ---------*- C++ -*-===//
//
// A thread knows which of its keys its own rows see. The others' are told by
// memory of the workgroup: a line of words for each row of threads, so that
// nobody writes what another does, and a word for votes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOSPIRV_SEENKEYS_H
#define ATTN_LIB_CONVERSION_TILEDTOSPIRV_SEENKEYS_H

#include "LaneThread.h"

namespace attn::spv {

class SeenKeys {
public:
  struct Form {
    /// Of the tiled form: the reduction over the rows, the branch that tests
    /// masks, and the flags that reads are masked by; null where absent.
    mlir::vector::MultiDimReductionOp seen;
    mlir::scf::IfOp masked;
    mlir::Value flags;
    int64_t blockKey, rowThreads;
    /// A thread's last key may lie behind the block.
    bool hasPaddedKeys = false;
  };
  /// `row`: of the thread, among `rowThreads`. `isWriter`: null where no two
  /// threads hold the same elements.
  SeenKeys(LaneThread &thread, LaneLayout &layout, mlir::IRMapping &scalars,
           const SharedTile &words, Form form, mlir::Value row,
           mlir::Value isWriter = {})
      : thread(thread), e(thread.e), layout(layout), scalars(scalars),
        words(words), form(form), row(row), isWriter(isWriter) {}

  /// Words of memory.
  static int64_t size(int64_t rowThreads, int64_t blockKey) {
    return rowThreads * blockKey + 1;
  }

  /// Whether some row sees some key of the block.
  mlir::FailureOr<mlir::Value> voteAny();
  /// The same for anything that one thread may know.
  mlir::Value voteAny(mlir::Value any) {
    return thread.voteAny(any, words,
                          e.index(size(form.rowThreads, form.blockKey) - 1));
  }
  /// Writes what the thread's rows see; where masks are tested.
  mlir::LogicalResult note();
  /// Whether some row sees a key; a barrier behind `note`.
  mlir::FailureOr<mlir::Value> isSeen(mlir::Value key);

private:
  LaneThread &thread;
  GpuEmitter &e;
  LaneLayout &layout;
  mlir::IRMapping &scalars;
  const SharedTile &words;
  Form form;
  mlir::Value row, isWriter;
};

} // namespace attn::spv

#endif // ATTN_LIB_CONVERSION_TILEDTOSPIRV_SEENKEYS_H
