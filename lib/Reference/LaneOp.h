//===- LaneOp.h - Elementwise arith and math on one lane -------*- C++ -*-===//
//
// The arith and math ops that work lane by lane are all of one kind: a function
// from the lanes of the operands to a lane of the result. The score and mask
// regions of the oracle and the vectors of the tiled-form interpreter share
// this table.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_REFERENCE_LANEOP_H
#define ATTN_LIB_REFERENCE_LANEOP_H

#include "Scalar.h"
#include "mlir/IR/Operation.h"

namespace attn::reference {

/// Whether a result is rounded to its type, as a machine does, or kept as a
/// double, as the oracle wants. A truncf asks for rounding and always gets it.
enum class Rounding { exact, typed };

/// One elementwise op, resolved: what to compute and what to make of the
/// result.
struct LaneOp {
  /// `undefined` is set when the op has no result, as in a division by zero.
  using Function = Scalar (*)(const LaneOp &op, const Scalar *operands,
                              bool &undefined);

  Function function = nullptr;
  unsigned numOperands = 0;
  bool isFloatResult = false;
  Precision precision = Precision::f64;
  Precision operandPrecision = Precision::f64;
  bool isFloatOperand = false;
  unsigned width = 64;
  unsigned operandWidth = 64;
  /// Of arith.cmpi and arith.cmpf.
  int64_t predicate = 0;

  Scalar apply(const Scalar *operands, bool &undefined) const {
    Scalar result = function(*this, operands, undefined);
    if (isFloatResult)
      result.f = roundTo(result.f, precision);
    else
      result.i = wrap(result.i, width);
    return result;
  }
};

/// The entry for `op`; its `function` is null for an op that is not in the
/// table, which is every op but the elementwise ones of arith and math.
LaneOp lookUpLaneOp(mlir::Operation *op, Rounding rounding);
/// The entry of this name for scalars or vectors of these types; the type is
/// that of the first operand.
LaneOp lookUpLaneOp(llvm::StringRef name, mlir::Type operand, mlir::Type result,
                    Rounding rounding);

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_LANEOP_H
