//===- LaneDerivative.h - Partial derivatives of a lane op -----*- C++ -*-===//
//
// What the oracle differentiates a score region with. Nothing is shared with
// the compiler's own derivatives: two tables that agree were written twice.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_REFERENCE_LANEDERIVATIVE_H
#define ATTN_LIB_REFERENCE_LANEDERIVATIVE_H

#include "Scalar.h"
#include "llvm/ADT/StringRef.h"

namespace attn::reference {

/// From the operands x and the result y to d y / d x, one number an operand.
/// Operands that are no floats keep the 0 that they come with.
using LaneDerivative = void (*)(const Scalar *x, double y, double *partials);

/// Null for an op that has none.
LaneDerivative lookUpLaneDerivative(llvm::StringRef op);

} // namespace attn::reference

#endif // ATTN_LIB_REFERENCE_LANEDERIVATIVE_H
