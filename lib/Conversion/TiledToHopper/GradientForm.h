//===- GradientForm.h - The task loops of the gradients ---------*- C++ -*-===//
//
// The form of TileBackward.cpp by its roles: three task loops, of which each
// becomes a kernel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H

#include "../Common/TiledForm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace attn::hopper {

/// delta, reference and zeros for each query block.
struct RowTasks {
  mlir::scf::ForallOp tasks;
  mlir::vector::TransferReadOp outputGradient, output;
  mlir::vector::TransferWriteOp delta, reference, querySum;
  /// The row sums of output gradient times output.
  mlir::vector::MultiDimReductionOp sum;
};

/// A block of rows and keys.
struct GradientBlock {
  mlir::vector::TransferReadOp key, value, query, outputGradient, reference,
      delta;
  mlir::vector::ContractionOp scores, probabilityGradient;
  /// As in the forward; null where no block is on an edge.
  mlir::scf::IfOp masked;
  /// P, and what meets queries and keys: in f32.
  mlir::Value probabilities, ofProducts;
};

/// dK and dV for each key block, and where it is accumulated its parts of dQ.
struct KeyTasks : GradientBlock {
  mlir::scf::ForallOp tasks;
  mlir::scf::ForOp group, sweep;
  mlir::vector::ContractionOp valueGradient, keyGradient, queryGradient;
  mlir::vector::TransferWriteOp querySum, keyOutput, valueOutput;
};

/// dQ for each query block, from its sum or by a sweep over key blocks.
struct QueryTasks : GradientBlock {
  mlir::scf::ForallOp tasks;
  mlir::vector::TransferReadOp querySum;
  mlir::scf::ForOp sweep;
  mlir::vector::ContractionOp queryGradient;
  mlir::vector::TransferWriteOp output;
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
  RowTasks rows;
  KeyTasks keys;
  QueryTasks queries;
  SinkTasks sinks;
  int64_t blockQuery = 0, blockKey = 0, headDim = 0, valueDim = 0;
  mlir::FloatType elementType;

  bool isAccumulated() const { return tiling.queryGradient == "accumulated"; }
  /// The two warpgroups of the key kernel share 64 keys: one has S and dV, the
  /// other dP and dK.
  bool splitsRoles() const { return blockKey == 64; }
};

/// Reads the task loops of `function`. An error when one is missing, or when
/// the form is none that the kernels take.
mlir::FailureOr<GradientForm> readGradientForm(mlir::func::FuncOp function);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
