//===- Oracle.h - What attn.attention computes -----------------*- C++ -*-===//
//
// A naive evaluation of `attn.attention`: pair by pair, row by row, with no
// tile, no running maximum and nothing shared with any lowering. Every kernel
// is compared with it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_REFERENCE_ORACLE_H
#define ATTN_REFERENCE_ORACLE_H

#include "attn/IR/Attn.h"
#include "attn/Reference/Array.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace attn {

struct OracleResult {
  /// In the op's output layout.
  Array output;
  /// [B, Hq, Sq], natural logarithm; computed whether or not the op asks.
  Array lse;
};

/// Says whether row [b, h, i] of the output is asked for. Without one, all are.
using RowFilter = llvm::function_ref<bool(int64_t b, int64_t h, int64_t i)>;

/// Evaluates the op in f64 (long double inside for f64 queries, so that there
/// is something to compare an f64 kernel with) on the elements as given.
///
/// `operands` are in the op's operand order; the destinations in `outs(...)`
/// may be left out, and only their shapes are read. Sizes that the types leave
/// open are taken from the arrays. An invisible key or value is never touched:
/// a NaN in it cannot be seen in the result. A region is run for visible pairs
/// only. Rows that `wanted` leaves out stay 0: a long sequence takes too long
/// whole.
llvm::Expected<OracleResult> evaluateAttention(AttentionOp op,
                                               llvm::ArrayRef<Array> operands,
                                               RowFilter wanted = nullptr);

/// The straightforward implementation at the op's own precision, which sets the
/// error that a kernel may have: operands rounded to their element types,
/// products, softmax and sums in f32 (f64 for f64) in the order of the naive
/// loops, results rounded to their types. Where a 16-bit op has a wider output,
/// probabilities, as they are without a sink, are rounded to the element type
/// before they meet the values: a matrix unit takes factors of one type, so no
/// kernel on one can do better, and there is no rounding of the output to hide
/// it.
llvm::Expected<OracleResult>
evaluateStraightforward(AttentionOp op, llvm::ArrayRef<Array> operands,
                        RowFilter wanted = nullptr);

/// The gradient of one operand.
struct GradientResult {
  Array value;
  /// The sum of the absolute values of the terms that `value` is the sum of:
  /// what rounding errors are relative to where terms cancel.
  Array magnitude;
};

/// The gradients that the backward op returns, in the order of its results,
/// in closed form and f64 (long double for f64 queries), pair by pair.
/// `operands` are in the op's operand order, without destinations. Output and
/// lse are taken as they are given, not computed again. No pair is touched
/// that is not visible.
llvm::Expected<llvm::SmallVector<GradientResult>>
evaluateBackward(AttentionBackwardOp op, llvm::ArrayRef<Array> operands);

/// The straightforward implementation at the op's own precision, as
/// `evaluateStraightforward` is of the forward. Probabilities and gradients, of
/// scores and of the output, are factors of products, and of the element type
/// there.
llvm::Expected<llvm::SmallVector<GradientResult>>
evaluateStraightforwardBackward(AttentionBackwardOp op,
                                llvm::ArrayRef<Array> operands);

/// ||got - expected|| / ||magnitude||, with what is not finite as in
/// `relativeError`. Where all terms cancel the gradient is 0 and its error the
/// roundings of the terms, so the norm of the gradient measures nothing.
double gradientError(const Array &got, const GradientResult &expected);

/// The largest `relativeError` that a kernel's output may have: 1.5 times the
/// straightforward implementation's, and what the roundings of few numbers
/// leave to luck. The straightforward result may be exact (a single key) where
/// a correct kernel is one rounding off. In one row the roundings of a
/// probability and of the output may both be the worst, 2 unit roundoffs of the
/// element type, and that of an exponent up to 32 is an error of 16 of the
/// accumulator's, in every element of the row: over the `effectiveRows` of the
/// output, these fall with the square root of their number. So does what two
/// samples of one error differ by, the straightforward one and the kernel's,
/// over the rows that the error is made of: few where scores are large and some
/// rows have two greatest that are nearly equal.
double errorBound(AttentionOpInterface op, const Array &straightforward,
                  const Array &expected);

/// The same for `gradientError`.
double gradientBound(AttentionOpInterface op, const Array &straightforward,
                     const GradientResult &expected);

/// The error of an lse. It is that of the sum of exponentials, relative, so
/// what is less than 1 counts as 1.
double lseError(const Array &got, const Array &expected);

/// The largest `lseError` that a kernel may have: 1.5 times the straightforward
/// implementation's, two more roundings, from powers of two to powers of e, and
/// up to 8 unit roundoffs in a row where the greatest score and the logarithm
/// of the sum are of opposite signs, over the `effectiveRows`.
double lseBound(AttentionOpInterface op, const Array &straightforward,
                const Array &expected);

/// A function's one attention op, and where its operands come from.
struct AttentionInFunction {
  struct Operand {
    /// The function argument that the operand is, or...
    std::optional<unsigned> argument;
    /// ... its constant value. A destination made in the function has neither.
    std::optional<Array> constant;
  };
  AttentionOp op;
  llvm::SmallVector<Operand> operands;
  /// For each function result: 0 is the output, 1 the lse. Empty in the memref
  /// form, whose destinations are arguments.
  llvm::SmallVector<unsigned> results;

  /// The op's operands, given the function's arguments. Left out are the
  /// destinations, so it suits `evaluateAttention`.
  llvm::Expected<llvm::SmallVector<Array>>
  bind(llvm::ArrayRef<Array> arguments) const;
};

/// Finds the one attention op of a function whose operands are arguments or
/// constants and whose results are the attention's. The error is one line.
llvm::Expected<AttentionInFunction> findAttention(mlir::func::FuncOp function);

} // namespace attn

#endif // ATTN_REFERENCE_ORACLE_H
