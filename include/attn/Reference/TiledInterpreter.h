//===- TiledInterpreter.h - Execute the tiled form -------------*- C++ -*-===//
//
// Runs a function of scf, vector, arith, math and memref ops on host buffers,
// so that the online-softmax algorithm is tested for every target's tile sizes
// and apart from any back end. Each operation rounds to the type it states.
// It is strict where hardware is silent: an access out of bounds is an error
// that says where, fresh memory is full of NaN, and an op that it does not know
// is named.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_REFERENCE_TILEDINTERPRETER_H
#define ATTN_REFERENCE_TILEDINTERPRETER_H

#include "attn/Reference/Array.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace attn {

/// A function argument: a strided view of an allocation, or, with no sizes and
/// one element, a scalar.
struct HostMemRef {
  std::vector<double> elements;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes, strides;

  /// Row-major and without gaps.
  static HostMemRef contiguous(const Array &array);
  /// With these strides; the gaps between the elements are NaN.
  static HostMemRef strided(const Array &array, llvm::ArrayRef<int64_t> strides,
                            int64_t offset = 0);
  /// The elements that the view shows.
  Array toArray() const;
};

struct TiledRunOptions {
  /// Runs the iterations of parallel loops last to first: a kernel whose result
  /// depends on it is wrong.
  bool reverseParallel = false;
};

/// Runs the function on its arguments, which it changes in place. The function
/// has no results. Functions that it calls are found in its module. The error
/// is one line.
llvm::Error runTiled(mlir::func::FuncOp function,
                     llvm::MutableArrayRef<HostMemRef> arguments,
                     const TiledRunOptions &options = {});

} // namespace attn

#endif // ATTN_REFERENCE_TILEDINTERPRETER_H
