//===- GradientForm.h - What of the gradients has kernels here --*- C++ -*-===//

#ifndef ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
#define ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H

#include "../Common/GradientForm.h"

namespace attn::hopper {

struct WarpgroupForm : attn::GradientForm {
  /// The two warpgroups of the key kernel share 64 keys: one has S and dV, the
  /// other dP and dK.
  bool splitsRoles() const { return blockKey == 64; }
};

/// Reads the task loops of `function`. An error when one is missing, or when
/// the form is none that the kernels take.
mlir::FailureOr<WarpgroupForm> readGradientForm(mlir::func::FuncOp function);

} // namespace attn::hopper

#endif // ATTN_LIB_CONVERSION_TILEDTOHOPPER_GRADIENTFORM_H
