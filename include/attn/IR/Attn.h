//===- Attn.h - The attn dialect --------------------------------*- C++ -*-===//

#ifndef ATTN_IR_ATTN_H
#define ATTN_IR_ATTN_H

#include "attn/IR/TargetDescription.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <optional>

namespace attn {

/// The sizes of an attention problem; `mlir::ShapedType::kDynamic` where a
/// size is not known at compile time.
struct AttentionShape {
  int64_t batch, queryHeads, kvHeads, queryLength, kvLength, headDim, valueDim;
};

llvm::hash_code hash_value(const TargetDescription &target);
llvm::hash_code hash_value(const Tiling &tiling);

class AttentionOpInterface;

/// Bodies of AttentionOpInterface.
namespace detail {
AttentionShape getShape(AttentionOpInterface op);
mlir::FloatType getAccumulatorType(AttentionOpInterface op);
std::optional<int64_t> getBandLeft(AttentionOpInterface op);
std::optional<int64_t> getBandRight(AttentionOpInterface op);
std::optional<double> getScaleValue(AttentionOpInterface op);
} // namespace detail

} // namespace attn

#include "attn/IR/AttnEnums.h.inc"

#include "attn/IR/AttnDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "attn/IR/AttnAttributes.h.inc"

#include "attn/IR/AttnInterfaces.h.inc"

#define GET_OP_CLASSES
#include "attn/IR/AttnOps.h.inc"

namespace attn {

/// Positions of the named dimensions in an operand of this layout.
inline unsigned headDimension(Layout layout) {
  return layout == Layout::bhsd ? 1 : 2;
}
inline unsigned sequenceDimension(Layout layout) {
  return layout == Layout::bhsd ? 2 : 1;
}

/// The elements of `score_mod` and `mask_mod` blocks before the captures.
enum ScoreModArgument : unsigned { Score, Batch, Head, QueryIndex, KeyIndex };
constexpr unsigned kScoreModArguments = 5;
constexpr unsigned kMaskModArguments = 4;

} // namespace attn

#endif // ATTN_IR_ATTN_H
