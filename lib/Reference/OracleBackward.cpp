//===- OracleBackward.cpp - What attn.attention_backward computes ---------===//
//
// The formulas of the op, pair by pair: the score of a visible pair and its
// derivative, the probability from the lse that is given, and what the pair
// adds to each gradient. The same loops in `double` are the oracle and in
// `float` the straightforward implementation. Finite differences of the
// forward oracle check this one (OracleBackwardTest).
//
//===----------------------------------------------------------------------===//

#include "AttentionProblem.h"
#include "ErrorText.h"
#include "RegionProgram.h"
#include "attn/Reference/Oracle.h"

using namespace mlir;
using namespace attn;
using namespace attn::reference;

namespace {

/// A gradient while terms are added to it.
template <typename T> struct Sum {
  SmallVector<int64_t> shape;
  std::vector<T> value, magnitude;

  explicit Sum(const Array &operand)
      : shape(operand.shape), value(operand.size(), T(0)),
        magnitude(operand.size(), T(0)) {}
  /// `size` is what the roundings of `term` are relative to.
  void add(int64_t element, T term, T size) {
    value[element] += term;
    magnitude[element] += std::abs(size);
  }
  GradientResult result() const {
    GradientResult result{Array(shape), Array(shape)};
    llvm::copy(value, result.value.data.begin());
    llvm::copy(magnitude, result.magnitude.data.begin());
    return result;
  }
};

template <typename T> class BackwardEvaluator {
public:
  BackwardEvaluator(AttentionBackwardOp op, const AttentionProblem &problem,
                    ArrayRef<Array> operands, Rounding rounding)
      : op(op), problem(problem), operands(operands), rounding(rounding) {}

  llvm::Error prepare();
  llvm::Expected<SmallVector<GradientResult>> run();

private:
  /// Of one visible pair.
  struct Score {
    T value;
    /// tanh of the capped score; 0 without a cap.
    T tanh;
  };

  llvm::Error buildRegions();
  llvm::Error addRow(int64_t b, int64_t h, int64_t i);
  llvm::Expected<bool> isVisible(int64_t b, int64_t h, int64_t i, int64_t j);
  llvm::Expected<Score> scoreOf(int64_t b, int64_t h, int64_t i, int64_t j);
  /// A number that is the difference of larger ones.
  struct Difference {
    T value, size;
  };
  /// From the gradient of the final score to that of scale * q * k; adds to
  /// the gradients of captures.
  Difference throughScore(const Score &score, Difference gradient);
  Difference deltaOf(int64_t b, int64_t h, int64_t i);
  /// As a product takes it.
  T asFactor(T number) {
    if (rounding == Rounding::exact)
      return number;
    return static_cast<T>(
        roundToType(static_cast<double>(number), op.getElementType()));
  }

  const Array *arrayOf(unsigned group) {
    auto [first, length] = op.getODSOperandIndexAndLength(group);
    return length ? &operands[first] : nullptr;
  }
  /// Of row [b, h, s] in an array whose rows `rows` finds.
  static int64_t place(const HeadRows &rows, int64_t b, int64_t h, int64_t s) {
    return rows.row(b, h, s) - rows.data;
  }

  AttentionBackwardOp op;
  const AttentionProblem &problem;
  ArrayRef<Array> operands;
  Rounding rounding;
  std::optional<RegionProgram> scoreMod, maskMod;
  const Array *output = nullptr, *lse = nullptr, *outputGradient = nullptr,
              *lseGradient = nullptr;
  std::vector<Sum<T>> sums;
  /// Of those on request; null for what nobody asked for.
  Sum<T> *bias = nullptr, *sinks = nullptr;
  llvm::DenseMap<int64_t, Sum<T> *> captures;
};
} // namespace

template <typename T> llvm::Error BackwardEvaluator<T>::buildRegions() {
  auto build = [&](Region &region, StringRef name,
                   std::optional<RegionProgram> &program) -> llvm::Error {
    if (region.empty())
      return llvm::Error::success();
    llvm::Expected<RegionProgram> built =
        RegionProgram::build(region, name, problem.captures, rounding);
    if (!built)
      return built.takeError();
    program = std::move(*built);
    return llvm::Error::success();
  };
  if (llvm::Error error = build(op.getScoreMod(), "score_mod", scoreMod))
    return error;
  if (llvm::Error error = build(op.getMaskMod(), "mask_mod", maskMod))
    return error;
  if (scoreMod)
    return scoreMod->prepareDerivatives(op.getCaptureGradients());
  return llvm::Error::success();
}

template <typename T> llvm::Error BackwardEvaluator<T>::prepare() {
  // The groups behind the captures.
  enum : unsigned { Output = 11, Lse, OutputGradient, LseGradient };
  output = arrayOf(Output);
  lse = arrayOf(Lse);
  outputGradient = arrayOf(OutputGradient);
  lseGradient = arrayOf(LseGradient);
  struct Check {
    StringRef name;
    const Array *array;
    ArrayRef<int64_t> expected;
  };
  for (const Check &check :
       {Check{"output", output, problem.outputShape},
        Check{"lse", lse, problem.lseShape},
        Check{"output gradient", outputGradient, problem.outputShape},
        Check{"lse gradient", lseGradient, problem.lseShape}})
    if (check.array && ArrayRef(check.array->shape) != check.expected)
      return errorText("attn.attention_backward expects an " + check.name +
                       " of " + shapeText(check.expected) + ", got " +
                       shapeText(check.array->shape));

  // By group, as one value may be two operands.
  enum : unsigned { Query, Key, Value, Bias, Sinks = 8 };
  SmallVector<const Array *> differentiated = {arrayOf(Query), arrayOf(Key),
                                               arrayOf(Value)};
  if (op.getBiasGradient())
    differentiated.push_back(arrayOf(Bias));
  if (op.getSinksGradient())
    differentiated.push_back(arrayOf(Sinks));
  for (int64_t number : op.getCaptureGradients())
    differentiated.push_back(&problem.captures[number]);
  for (const Array *operand : differentiated)
    sums.emplace_back(*operand);
  unsigned next = 3;
  if (op.getBiasGradient())
    bias = &sums[next++];
  if (op.getSinksGradient())
    sinks = &sums[next++];
  for (int64_t number : op.getCaptureGradients())
    captures[number] = &sums[next++];
  return buildRegions();
}

template <typename T>
llvm::Expected<bool> BackwardEvaluator<T>::isVisible(int64_t b, int64_t h,
                                                     int64_t i, int64_t j) {
  if (!problem.isVisible(b, h, i, j))
    return false;
  if (!maskMod)
    return true;
  llvm::Expected<Scalar> sees =
      maskMod->run({scalarOf(b), scalarOf(h), scalarOf(i), scalarOf(j)});
  if (!sees)
    return sees.takeError();
  return (sees->i & 1) != 0;
}

template <typename T>
llvm::Expected<typename BackwardEvaluator<T>::Score>
BackwardEvaluator<T>::scoreOf(int64_t b, int64_t h, int64_t i, int64_t j) {
  const double *query = problem.query.row(b, h, i);
  const double *key = problem.key.row(b, problem.kvHead(h), j);
  Score score{T(0), T(0)};
  for (int64_t d = 0; d < problem.shape.headDim; ++d)
    score.value += static_cast<T>(query[d]) * static_cast<T>(key[d]);
  score.value *= static_cast<T>(problem.scale);
  if (std::optional<APFloat> given = op.getSoftcap()) {
    T cap = static_cast<T>(given->convertToDouble());
    score.tanh = std::tanh(score.value / cap);
    score.value = cap * score.tanh;
  }
  if (scoreMod) {
    llvm::Expected<Scalar> modified =
        scoreMod->run({scalarOf(static_cast<double>(score.value)), scalarOf(b),
                       scalarOf(h), scalarOf(i), scalarOf(j)});
    if (!modified)
      return modified.takeError();
    score.value = static_cast<T>(modified->f);
  }
  if (problem.bias)
    score.value += static_cast<T>(problem.bias.at(b, h, i, j));
  return score;
}

template <typename T>
typename BackwardEvaluator<T>::Difference
BackwardEvaluator<T>::throughScore(const Score &score, Difference gradient) {
  auto differentiate = [&](T given, auto add) {
    if (!scoreMod)
      return given;
    return static_cast<T>(scoreMod->differentiate(
        static_cast<double>(given),
        [&](unsigned capture, int64_t element, double term) {
          add(*captures.lookup(capture), element, static_cast<T>(term));
        }));
  };
  T slope = T(1) - score.tanh * score.tanh;
  T value = differentiate(gradient.value, [](Sum<T> &sum, int64_t at, T term) {
    sum.add(at, term, T(0));
  });
  // Reverse mode is linear, so sizes go the same way; also where values cancel.
  T size = differentiate(gradient.size, [](Sum<T> &sum, int64_t at, T term) {
    sum.add(at, T(0), term);
  });
  return {value * slope, std::abs(size * slope)};
}

template <typename T>
typename BackwardEvaluator<T>::Difference
BackwardEvaluator<T>::deltaOf(int64_t b, int64_t h, int64_t i) {
  int64_t row = problem.outputRow(b, h, i);
  Difference delta{T(0), T(0)};
  for (int64_t d = 0; d < problem.shape.valueDim; ++d) {
    T term = static_cast<T>(outputGradient->data[row + d]) *
             static_cast<T>(output->data[row + d]);
    delta.value += term;
    delta.size += std::abs(term);
  }
  if (lseGradient) {
    T given = static_cast<T>(lseGradient->at({b, h, i}));
    delta.value -= given;
    delta.size += std::abs(given);
  }
  return delta;
}

template <typename T>
llvm::Error BackwardEvaluator<T>::addRow(int64_t b, int64_t h, int64_t i) {
  const AttentionShape &shape = problem.shape;
  const T rowLse = static_cast<T>(lse->at({b, h, i}));
  const T scale = static_cast<T>(problem.scale);
  const Difference delta = deltaOf(b, h, i);
  const int64_t kvHead = problem.kvHead(h);
  const double *given =
      outputGradient->data.data() + problem.outputRow(b, h, i);
  const double *query = problem.query.row(b, h, i);
  const int64_t queryPlace = place(problem.query, b, h, i);
  if (sinks) {
    T sink = static_cast<T>(problem.sinks->data[h]);
    T probability = std::exp(sink - rowLse);
    if (sink != -std::numeric_limits<T>::infinity())
      sinks->add(h, -probability * delta.value, probability * delta.size);
  }
  for (int64_t j = 0; j < shape.kvLength; ++j) {
    llvm::Expected<bool> visible = isVisible(b, h, i, j);
    if (!visible)
      return visible.takeError();
    if (!*visible)
      continue;
    llvm::Expected<Score> score = scoreOf(b, h, i, j);
    if (!score)
      return score.takeError();
    T probability = std::exp(score->value - rowLse);
    // C17, and a row whose scores are all -inf.
    if (probability == 0 || score->value == -std::numeric_limits<T>::infinity())
      continue;
    const double *key = problem.key.row(b, kvHead, j);
    const double *value = problem.value.row(b, kvHead, j);
    const int64_t keyPlace = place(problem.key, b, kvHead, j);
    const int64_t valuePlace = place(problem.value, b, kvHead, j);
    Difference ofProbability{T(0), T(0)};
    for (int64_t d = 0; d < shape.valueDim; ++d) {
      T g = asFactor(static_cast<T>(given[d])),
        term = g * static_cast<T>(value[d]);
      ofProbability.value += term;
      ofProbability.size += std::abs(term);
      T ofValue = asFactor(probability) * g;
      sums[2].add(valuePlace + d, ofValue, ofValue);
    }
    Difference ofScore{probability * (ofProbability.value - delta.value),
                       probability * (ofProbability.size + delta.size)};
    if (bias)
      bias->add(problem.bias.place(b, h, i, j), ofScore.value, ofScore.size);
    Difference ofProduct = throughScore(*score, ofScore);
    ofProduct.value = asFactor(ofProduct.value);
    for (int64_t d = 0; d < shape.headDim; ++d) {
      T k = static_cast<T>(key[d]) * scale,
        q = static_cast<T>(query[d]) * scale;
      sums[0].add(queryPlace + d, ofProduct.value * k, ofProduct.size * k);
      sums[1].add(keyPlace + d, ofProduct.value * q, ofProduct.size * q);
    }
  }
  return llvm::Error::success();
}

template <typename T>
llvm::Expected<SmallVector<GradientResult>> BackwardEvaluator<T>::run() {
  const AttentionShape &shape = problem.shape;
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.queryHeads; ++h)
      for (int64_t i = 0; i < shape.queryLength; ++i)
        if (llvm::Error error = addRow(b, h, i))
          return std::move(error);
  SmallVector<GradientResult> results;
  for (const Sum<T> &sum : sums)
    results.push_back(sum.result());
  return results;
}

template <typename T>
static llvm::Expected<SmallVector<GradientResult>>
evaluate(AttentionBackwardOp op, ArrayRef<Array> operands, Rounding rounding) {
  llvm::Expected<AttentionProblem> problem =
      AttentionProblem::build(op, operands);
  if (!problem)
    return problem.takeError();
  BackwardEvaluator<T> evaluator(op, *problem, operands, rounding);
  if (llvm::Error error = evaluator.prepare())
    return std::move(error);
  return evaluator.run();
}

llvm::Expected<SmallVector<GradientResult>>
attn::evaluateBackward(AttentionBackwardOp op, ArrayRef<Array> operands) {
  if (op.getElementType().isF64())
    return evaluate<long double>(op, operands, Rounding::exact);
  return evaluate<double>(op, operands, Rounding::exact);
}

llvm::Expected<SmallVector<GradientResult>>
attn::evaluateStraightforwardBackward(AttentionBackwardOp op,
                                      ArrayRef<Array> operands) {
  SmallVector<Array> rounded(operands);
  for (auto [array, operand] : llvm::zip_first(rounded, op->getOperands()))
    roundToType(array, cast<ShapedType>(operand.getType()).getElementType());
  llvm::Expected<SmallVector<GradientResult>> results =
      op.getElementType().isF64()
          ? evaluate<double>(op, rounded, Rounding::typed)
          : evaluate<float>(op, rounded, Rounding::typed);
  if (!results)
    return results.takeError();
  TypeRange types = op->getResultTypes();
  if (op.isMemRefForm())
    types = op.getOuts().getTypes();
  for (auto [result, type] : llvm::zip_equal(*results, types))
    roundToType(result.value, cast<ShapedType>(type).getElementType());
  return results;
}

double attn::gradientError(const Array &got, const GradientResult &expected) {
  double difference = 0, size = 0;
  for (auto [x, y, magnitude] : llvm::zip_equal(got.data, expected.value.data,
                                                expected.magnitude.data)) {
    if (!std::isfinite(y)) {
      if (x != y && !(std::isnan(x) && std::isnan(y)))
        return std::numeric_limits<double>::infinity();
      continue;
    }
    difference += (x - y) * (x - y);
    if (std::isfinite(magnitude))
      size += magnitude * magnitude;
  }
  if (!std::isfinite(difference))
    return std::numeric_limits<double>::infinity();
  if (difference == 0)
    return 0;
  return size == 0 ? std::numeric_limits<double>::infinity()
                   : std::sqrt(difference / size);
}
