//===- GradientForm.h - The task loops of the gradients ---------*- C++ -*-===//
//
// The form of TileBackward.cpp by its roles. Each task loop becomes a kernel of
// a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_GRADIENTFORM_H
#define ATTN_LIB_CONVERSION_COMMON_GRADIENTFORM_H

#include "TiledForm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn {

/// delta, reference and zeros for each query block.
struct RowTasks {
  mlir::scf::ForallOp tasks;
  mlir::vector::TransferReadOp outputGradient, output;
  mlir::vector::TransferWriteOp delta, reference, querySum;
  /// The row sums of output gradient times output; null without columns.
  mlir::vector::MultiDimReductionOp sum;
};

/// A block of rows and keys.
struct GradientBlock {
  mlir::vector::TransferReadOp key, value, query, outputGradient, reference,
      delta;
  mlir::vector::ContractionOp scores, probabilityGradient;
  mlir::scf::ForOp sweep;
  /// As in the forward: around a block that may be hidden whole; null where no
  /// block is on an edge; which keys some row sees.
  mlir::scf::IfOp reach, masked;
  mlir::vector::MultiDimReductionOp seen;
  /// P, and what meets queries and keys: in the accumulators' type.
  mlir::Value probabilities, ofProducts;
};

/// dK and dV for each key block, and where it is accumulated its parts of dQ.
struct KeyTasks : GradientBlock {
  mlir::scf::ForallOp tasks;
  mlir::scf::ForOp group;
  mlir::vector::ContractionOp valueGradient, keyGradient, queryGradient;
  mlir::vector::TransferWriteOp querySum, keyOutput, valueOutput;
};

/// What a block adds to the gradient of a bias or of a capture: element by
/// element of `terms`, which varies as its indices do, or the number itself.
struct PairGradient {
  /// The tile that `terms` sums up along the sides that no index varies along.
  mlir::Value tile, terms, destination;
  /// Index values, or vectors of them, for each dimension of the destination.
  /// Of a bias (`isPlace`) only the start: rows and keys of the block follow.
  llvm::SmallVector<mlir::Value> indices;
  bool isPlace = false;
};

/// dQ for each query block, from its sum or by a sweep over key blocks.
struct QueryTasks : GradientBlock {
  mlir::scf::ForallOp tasks;
  /// Loops over tasks that must not run in parallel, the outermost first.
  llvm::SmallVector<mlir::scf::ForOp> inOrder;
  mlir::vector::TransferReadOp querySum;
  mlir::vector::ContractionOp queryGradient;
  mlir::vector::TransferWriteOp output;
  /// The keys that meet dX, vector<Bc x i1>; null where all do.
  mlir::Value seenKeys;
  llvm::SmallVector<PairGradient> pairs;
};

/// The gradients of the sinks, for each query head, if they are asked for: the
/// sum over the rows of all batches.
struct SinkTasks {
  mlir::scf::ForallOp tasks;
  mlir::scf::ForOp batches, rows;
  mlir::vector::TransferReadOp delta;
  mlir::memref::StoreOp store;
};

struct GradientForm {
  mlir::func::FuncOp function;
  Tiling tiling;
  TargetDescription target;
  /// Loops that fill memory with zeros, before anything else is done to it.
  llvm::SmallVector<mlir::scf::ForallOp> fills;
  RowTasks rows;
  KeyTasks keys;
  QueryTasks queries;
  SinkTasks sinks;
  int64_t blockQuery = 0, blockKey = 0, headDim = 0, valueDim = 0;
  mlir::FloatType elementType, accumulatorType;

  /// Key tasks add to the query gradient, in any order or in one.
  bool isAccumulated() const {
    return tiling.queryGradient == "accumulated" || isOrdered();
  }
  bool isOrdered() const { return tiling.queryGradient == "ordered"; }
};

/// Reads the task loops of `function`. An error when one is malformed, or,
/// where `isWhole` asks for all of them, missing; head dimensions of 0 and
/// sequences without keys leave parts out.
mlir::FailureOr<GradientForm> readGradientForm(mlir::func::FuncOp function,
                                               bool isWhole);

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_GRADIENTFORM_H
