//===- Oracle.cpp - What attn.attention computes --------------------------===//
//
// One row at a time, in the order of the op's formula: scores, softcap, region,
// bias, softmax over the visible keys, weighted sum of their values. The same
// loops in `double` are the oracle and in `float` the straightforward
// implementation.
//
// Keys are transposed once per head so that the products of a row with all its
// keys run along contiguous memory. That changes no sum: each score still adds
// its products in the order of the head dimension. A product with a hidden key
// is computed with the others and never looked at.
//
//===----------------------------------------------------------------------===//

#include "attn/Reference/Oracle.h"
#include "AttentionProblem.h"
#include "RegionProgram.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

namespace {
template <typename T> class RowEvaluator {
public:
  RowEvaluator(const AttentionProblem &problem, RegionProgram *scoreMod,
               RegionProgram *maskMod, Type probabilityType)
      : problem(problem), scoreMod(scoreMod), maskMod(maskMod),
        probabilityType(probabilityType) {}
  llvm::Expected<OracleResult> run(RowFilter wanted);

private:
  void transposeKeys(int64_t b, int64_t kvHead);
  void multiplyKeys(const double *query);
  llvm::Error findVisibleKeys(int64_t b, int64_t h, int64_t i);
  llvm::Error modifyScores(int64_t b, int64_t h, int64_t i);
  T softmax(int64_t h);
  void sumValues(int64_t b, int64_t kvHead, double *output);

  const AttentionProblem &problem;
  RegionProgram *scoreMod, *maskMod;
  /// What probabilities are rounded to; null for nothing.
  Type probabilityType;
  /// [D, Skv] of one head, and the rest of one row.
  std::vector<T> keys;
  std::vector<T> scores;
  std::vector<int64_t> visible;
  /// Of the visible keys, in their order: the score, then the probability.
  std::vector<T> weights;
  std::vector<T> sums;
};
} // namespace

template <typename T>
void RowEvaluator<T>::transposeKeys(int64_t b, int64_t kvHead) {
  int64_t length = problem.shape.kvLength, depth = problem.shape.headDim;
  keys.resize(length * depth);
  for (int64_t j = 0; j < length; ++j) {
    const double *row = problem.key.row(b, kvHead, j);
    for (int64_t d = 0; d < depth; ++d)
      keys[d * length + j] = static_cast<T>(row[d]);
  }
}

template <typename T> void RowEvaluator<T>::multiplyKeys(const double *query) {
  int64_t length = problem.shape.kvLength;
  scores.assign(length, T(0));
  for (int64_t d = 0; d < problem.shape.headDim; ++d) {
    T q = static_cast<T>(query[d]);
    const T *key = keys.data() + d * length;
    for (int64_t j = 0; j < length; ++j)
      scores[j] += q * key[j];
  }
}

template <typename T>
llvm::Error RowEvaluator<T>::findVisibleKeys(int64_t b, int64_t h, int64_t i) {
  visible.clear();
  for (int64_t j = 0; j < problem.shape.kvLength; ++j) {
    if (!problem.isVisible(b, h, i, j))
      continue;
    if (maskMod) {
      llvm::Expected<Scalar> sees =
          maskMod->run({scalarOf(b), scalarOf(h), scalarOf(i), scalarOf(j)});
      if (!sees)
        return sees.takeError();
      if (!(sees->i & 1))
        continue;
    }
    visible.push_back(j);
  }
  return llvm::Error::success();
}

/// Rule 3: scale, softcap, score region, bias, in this order.
template <typename T>
llvm::Error RowEvaluator<T>::modifyScores(int64_t b, int64_t h, int64_t i) {
  AttentionOpInterface op = problem.op;
  T scale = static_cast<T>(problem.scale);
  T cap = op.getSoftcap() ? static_cast<T>(op.getSoftcap()->convertToDouble())
                          : T(0);
  weights.clear();
  for (int64_t j : visible) {
    T score = scores[j] * scale;
    if (cap != T(0))
      score = cap * std::tanh(score / cap);
    if (scoreMod) {
      llvm::Expected<Scalar> modified =
          scoreMod->run({scalarOf(static_cast<double>(score)), scalarOf(b),
                         scalarOf(h), scalarOf(i), scalarOf(j)});
      if (!modified)
        return modified.takeError();
      score = static_cast<T>(modified->f);
    }
    if (problem.bias)
      score += static_cast<T>(problem.bias.at(b, h, i, j));
    weights.push_back(score);
  }
  return llvm::Error::success();
}

/// Turns the scores into probabilities and returns the lse. A row whose scores
/// are all -inf (no visible key, or a bias of -inf) has probabilities 0.
template <typename T> T RowEvaluator<T>::softmax(int64_t h) {
  const T none = -std::numeric_limits<T>::infinity();
  T sink = problem.sinks ? static_cast<T>(problem.sinks->data[h]) : none;
  T largest = sink;
  for (T score : weights)
    largest = std::max(largest, score);
  T reference = largest == none ? T(0) : largest;
  T ofKeys = 0;
  for (T &weight : weights) {
    weight = std::exp(weight - reference);
    ofKeys += weight;
  }
  T sum = ofKeys + (sink == none ? T(0) : std::exp(sink - reference));
  if (probabilityType && ofKeys != T(0))
    for (T &weight : weights)
      weight = ofKeys *
               static_cast<T>(roundToType(static_cast<double>(weight / ofKeys),
                                          probabilityType));
  if (sum != T(0))
    for (T &weight : weights)
      weight /= sum;
  return reference + std::log(sum);
}

template <typename T>
void RowEvaluator<T>::sumValues(int64_t b, int64_t kvHead, double *output) {
  int64_t width = problem.shape.valueDim;
  sums.assign(width, T(0));
  for (auto [weight, j] : llvm::zip_equal(weights, visible)) {
    const double *value = problem.value.row(b, kvHead, j);
    for (int64_t d = 0; d < width; ++d)
      sums[d] += weight * static_cast<T>(value[d]);
  }
  for (int64_t d = 0; d < width; ++d)
    output[d] = static_cast<double>(sums[d]);
}

template <typename T>
llvm::Expected<OracleResult> RowEvaluator<T>::run(RowFilter wanted) {
  const AttentionShape &shape = problem.shape;
  OracleResult result{
      Array(problem.outputShape),
      Array({shape.batch, shape.queryHeads, shape.queryLength})};
  int64_t ratio = shape.kvHeads ? shape.queryHeads / shape.kvHeads : 1;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.queryHeads; ++h) {
      int64_t kvHead = h / ratio;
      if (h % ratio == 0)
        transposeKeys(b, kvHead);
      for (int64_t i = 0; i < shape.queryLength; ++i) {
        if (wanted && !wanted(b, h, i))
          continue;
        multiplyKeys(problem.query.row(b, h, i));
        if (llvm::Error error = findVisibleKeys(b, h, i))
          return std::move(error);
        if (llvm::Error error = modifyScores(b, h, i))
          return std::move(error);
        result.lse.data[(b * shape.queryHeads + h) * shape.queryLength + i] =
            static_cast<double>(softmax(h));
        sumValues(b, kvHead,
                  result.output.data.data() + problem.outputRow(b, h, i));
      }
    }
  }
  return result;
}

template <typename T>
static llvm::Expected<OracleResult>
evaluate(AttentionOp op, ArrayRef<Array> operands, Rounding rounding,
         RowFilter wanted, Type probabilityType = {}) {
  llvm::Expected<AttentionProblem> problem =
      AttentionProblem::build(op, operands);
  if (!problem)
    return problem.takeError();
  std::optional<RegionProgram> scoreMod, maskMod;
  auto build = [&](Region &region, StringRef name,
                   std::optional<RegionProgram> &program) -> llvm::Error {
    if (region.empty())
      return llvm::Error::success();
    llvm::Expected<RegionProgram> built =
        RegionProgram::build(region, name, problem->captures, rounding);
    if (!built)
      return built.takeError();
    program = std::move(*built);
    return llvm::Error::success();
  };
  if (llvm::Error error = build(op.getScoreMod(), "score_mod", scoreMod))
    return std::move(error);
  if (llvm::Error error = build(op.getMaskMod(), "mask_mod", maskMod))
    return std::move(error);
  return RowEvaluator<T>(*problem, scoreMod ? &*scoreMod : nullptr,
                         maskMod ? &*maskMod : nullptr, probabilityType)
      .run(wanted);
}

llvm::Expected<OracleResult> attn::evaluateAttention(AttentionOp op,
                                                     ArrayRef<Array> operands,
                                                     RowFilter wanted) {
  if (op.getElementType().isF64())
    return evaluate<long double>(op, operands, Rounding::exact, wanted);
  return evaluate<double>(op, operands, Rounding::exact, wanted);
}

llvm::Expected<OracleResult>
attn::evaluateStraightforward(AttentionOp op, ArrayRef<Array> operands,
                              RowFilter wanted) {
  SmallVector<Array> rounded(operands);
  for (auto [array, operand] : llvm::zip_first(rounded, op->getOperands()))
    roundToType(array, cast<ShapedType>(operand.getType()).getElementType());
  bool isDouble = op.getElementType().isF64();
  FloatType element = op.getElementType();
  bool isWidened =
      op.getOutputType().getElementTypeBitWidth() > element.getWidth();
  llvm::Expected<OracleResult> result =
      isDouble
          ? evaluate<double>(op, rounded, Rounding::typed, wanted)
          : evaluate<float>(op, rounded, Rounding::typed, wanted,
                            isWidened && element.getWidth() < 32 ? Type(element)
                                                                 : Type());
  if (!result)
    return result.takeError();
  roundToType(result->output, op.getOutputType().getElementType());
  roundToType(result->lse, op.getAccumulatorType());
  return result;
}

/// Half the distance from 1 to the next number of the type.
static double unitRoundoff(FloatType type) {
  return std::ldexp(1.0, -static_cast<int>(type.getFPMantissaWidth()));
}

/// Of a mean over rows, the share of the single row.
static double luckOf(int64_t rows) {
  return 1 / std::sqrt(std::max<double>(rows, 1));
}

/// The bound of an error, given the straightforward implementation's and over
/// how many rows the result and that error are spread.
static double boundOf(AttentionOpInterface op, double straightforwardError,
                      int64_t rows, int64_t erringRows) {
  // Without scores every row is the same row.
  if (op.getShape().headDim == 0 || op.getScaleValue() == 0.0)
    rows = 1;
  double element = unitRoundoff(op.getElementType()),
         accumulator = unitRoundoff(op.getAccumulatorType());
  // Measured on 3,000 problems: without the luck, one in 200 exceeds this, by
  // up to 0.6 (16 bits) and 9.4 (32 bits) of the units that it allows. Large
  // scores err by many units in both, each a sample of its own: their luck goes
  // with the error (14 draws of one f32 problem of 63 rows at scale 8: 0.48 to
  // 1.84 times the straightforward error, in the geometric mean 1.10).
  return 1.5 * (1 + luckOf(std::min(rows, erringRows))) * straightforwardError +
         accumulator + luckOf(rows) * (2 * element + 14 * accumulator);
}

double attn::errorBound(AttentionOpInterface op, const Array &straightforward,
                        const Array &expected) {
  int64_t width = expected.rank() == 0 ? 1 : expected.shape.back();
  return boundOf(op, relativeError(straightforward, expected),
                 effectiveRows(expected, width),
                 effectiveRows(difference(straightforward, expected), width));
}

double attn::gradientBound(AttentionOpInterface op,
                           const Array &straightforward,
                           const GradientResult &expected) {
  // A bias, a sink and a capture have no rows.
  int64_t width = expected.value.rank() == 4 ? expected.value.shape[3] : 1;
  return boundOf(
      op, gradientError(straightforward, expected),
      effectiveRows(expected.magnitude, width),
      effectiveRows(difference(straightforward, expected.value), width));
}

double attn::lseError(const Array &got, const Array &expected) {
  return relativeError(got, expected, /*least=*/1);
}

double attn::lseBound(AttentionOpInterface op, const Array &straightforward,
                      const Array &expected) {
  Array sizes(expected.shape);
  for (auto [size, lse] : llvm::zip_equal(sizes.data, expected.data))
    size = std::isfinite(lse) ? std::max(std::fabs(lse), 1.0) : 0;
  double luck = luckOf(effectiveRows(sizes, /*width=*/1));
  return 1.5 * lseError(straightforward, expected) +
         (2 + 8 * luck) * unitRoundoff(op.getAccumulatorType());
}
