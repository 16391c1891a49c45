//===- GradientForm.h - The task loops of the gradients ---------*- C++ -*-===//
//
// The accumulated form of TileBackward.cpp by its roles: three task loops, of
// which each becomes a kernel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H

#include "../Common/TiledForm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace attn::hopper {

/// delta, reference and zeros for each query block.
struct RowTasks {
  mlir::scf::ForallOp tasks;
  mlir::vector::TransferReadOp outputGradient, output;
  mlir::vector::TransferWriteOp delta, reference, querySum;
  /// The row sums of output gradient times output.
  mlir::vector::MultiDimReductionOp sum;
};

/// dK, dV and the parts of dQ, for each key block.
struct KeyTasks {
  mlir::scf::ForallOp tasks;
  mlir::scf::ForOp group, sweep;
  mlir::vector::TransferReadOp key, value, query, outputGradient, reference,
      delta;
  mlir::vector::ContractionOp scores, probabilityGradient, valueGradient,
      keyGradient, queryGradient;
  /// As in the forward; null where no block is on an edge.
  mlir::scf::IfOp masked;
  /// What meets output gradients, queries and keys, in f32.
  mlir::Value probabilities, ofProducts;
  mlir::vector::TransferWriteOp querySum, keyOutput, valueOutput;
};

/// The query gradient from its sum, for each query block.
struct QueryTasks {
  mlir::scf::ForallOp tasks;
  mlir::vector::TransferReadOp querySum;
  mlir::vector::TransferWriteOp output;
};

struct GradientForm {
  mlir::func::FuncOp function;
  Tiling tiling;
  TargetDescription target;
  RowTasks rows;
  KeyTasks keys;
  QueryTasks queries;
  int64_t blockQuery = 0, blockKey = 0, headDim = 0, valueDim = 0;
  mlir::FloatType elementType;
};

/// Reads the task loops of `function`. An error when one is missing, or when
/// the form is none that the kernels take.
mlir::FailureOr<GradientForm> readGradientForm(mlir::func::FuncOp function);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
