//===- CheckedCase.cpp - A problem and what to expect of it ---------------===//

#include "CheckedCase.h"
#include "mlir/Parser/Parser.h"
#include <cstdlib>

using namespace attn;
using namespace mlir;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

static AttentionOp parse(const AttentionCase &c, MLIRContext &context,
                         OwningOpRef<ModuleOp> &module) {
  AttentionOp op;
  module = parseSourceString<ModuleOp>(c.text(), &context);
  if (module)
    module->walk([&](AttentionOp found) { op = found; });
  return op;
}

static int64_t pairs(const AttentionShape &s) {
  return s.batch * s.queryHeads * s.queryLength * s.kvLength;
}

llvm::Error CheckedCase::findVisible(MLIRContext &context, int64_t mostWork) {
  const AttentionShape &s = problem.shape;
  int64_t groups =
      std::max<int64_t>(1, mostWork / std::max<int64_t>(1, pairs(s)));
  groupSize = std::max<int64_t>(1, llvm::divideCeil(s.kvLength, groups));
  AttentionCase probe = problem.probe(groupSize);
  OwningOpRef<ModuleOp> probeModule;
  AttentionOp op = parse(probe, context, probeModule);
  if (!op)
    return llvm::createStringError("the probe does not parse");
  llvm::Expected<OracleResult> result = evaluateAttention(op, probe.arrays());
  if (!result)
    return result.takeError();
  visible = std::move(result->output);
  return llvm::Error::success();
}

/// NaN and infinity wherever the op promises not to look, and now and then
/// where it looks.
void CheckedCase::poison(std::mt19937_64 &random) {
  AttentionCase &c = problem;
  const AttentionShape &s = c.shape;
  auto chance = [&](double p) {
    return std::bernoulli_distribution(p)(random);
  };
  auto poisonRow = [&](CaseOperand &operand, Layout layout, int64_t b,
                       int64_t h, int64_t row, double with) {
    for (int64_t d = 0; d < operand.data.shape[3]; ++d)
      (layout == Layout::bhsd ? operand.data.at({b, h, row, d})
                              : operand.data.at({b, row, h, d})) = with;
  };
  int64_t ratio = s.kvHeads ? s.queryHeads / s.kvHeads : 1;
  bool poisonsSeenKeys = chance(0.15), poisonsQueries = chance(0.1);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.kvHeads; ++h)
      for (int64_t j = 0; j < s.kvLength; ++j) {
        bool isSeen = false;
        for (int64_t g = h * ratio; g < (h + 1) * ratio; ++g)
          for (int64_t i = 0; i < s.queryLength; ++i)
            isSeen |= visible.at({b, g, i, j / groupSize}) != 0;
        double with = chance(0.7) ? kNaN : kInfinity;
        if (!isSeen || (poisonsSeenKeys && chance(0.1)))
          poisonRow(*c.find("key"), c.keyLayout, b, h, j, with);
        if (!isSeen)
          poisonRow(*c.find("value"), c.valueLayout, b, h, j, with);
      }
  if (poisonsQueries && s.batch * s.queryHeads * s.queryLength > 0)
    poisonRow(*c.find("query"), c.queryLayout, 0, s.queryHeads - 1,
              s.queryLength / 2, chance(0.5) ? kNaN : kInfinity);
  CaseOperand *bias = c.find("bias");
  if (bias && ArrayRef(bias->data.shape) == ArrayRef(visible.shape) &&
      groupSize == 1 && chance(0.7))
    for (auto [element, seen] : llvm::zip_equal(bias->data.data, visible.data))
      if (seen == 0)
        element = kNaN;
}

void CheckedCase::drawRows(std::mt19937_64 &random, int64_t mostWork) {
  const AttentionShape &s = problem.shape;
  int64_t rows = s.batch * s.queryHeads * s.queryLength;
  int64_t work = std::max<int64_t>(1, s.kvLength * (s.headDim + s.valueDim));
  int64_t wanted = std::max<int64_t>(mostWork / work, 16);
  isCompared.assign(rows, wanted >= rows);
  if (wanted >= rows)
    return;
  for (int64_t part = 0; part < wanted; ++part) {
    int64_t first = part * rows / wanted, end = (part + 1) * rows / wanted;
    isCompared[first + random() % (end - first)] = true;
  }
}

Array CheckedCase::comparedRows(Array whole, bool isLse) const {
  const AttentionShape &s = problem.shape;
  int64_t width = isLse ? 1 : s.valueDim;
  bool isBshd = !isLse && problem.outputLayout == Layout::bshd;
  for (int64_t row = 0, end = isCompared.size(); row < end; ++row) {
    if (isCompared[row])
      continue;
    int64_t i = row % s.queryLength, bh = row / s.queryLength;
    int64_t b = bh / s.queryHeads, h = bh % s.queryHeads;
    int64_t place = isBshd ? (b * s.queryLength + i) * s.queryHeads + h : row;
    std::fill_n(whole.data.begin() + place * width, width, 0.0);
  }
  return whole;
}

/// The largest |got - expected| / (1 + |expected|), infinite where only one of
/// them is finite or they are different infinities.
static double largestDifference(const Array &got, const Array &expected) {
  double largest = 0;
  for (auto [g, e] : llvm::zip_equal(got.data, expected.data)) {
    if (g == e || (std::isnan(g) && std::isnan(e)))
      continue;
    double difference = std::fabs(g - e) / (1 + std::fabs(e));
    largest =
        std::max(largest, std::isfinite(difference) ? difference : kInfinity);
  }
  return largest;
}

static bool rowsWithoutKeysAreZero(const AttentionCase &c, const Array &visible,
                                   const Array &output) {
  const AttentionShape &s = c.shape;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.queryHeads; ++h)
      for (int64_t i = 0; i < s.queryLength; ++i) {
        bool sees = false;
        for (int64_t j = 0; j < visible.shape[3]; ++j)
          sees |= visible.at({b, h, i, j}) != 0;
        for (int64_t d = 0; d < s.valueDim && !sees; ++d)
          if (output.at(c.outputLayout == Layout::bhsd
                            ? std::array{b, h, i, d}
                            : std::array{b, i, h, d}) != 0)
            return false;
      }
  return true;
}

/// Over how many rows the norm of the output is spread: all of them when they
/// are alike, fewer when some have no key or little weight beside a sink.
static int64_t effectiveRows(const AttentionCase &c, const Array &output) {
  // Where all scores are equal every row is the same row.
  if (c.shape.headDim == 0 || StringRef(c.scoring).contains("scale(0.0"))
    return 1;
  double sum = 0, sumOfSquares = 0;
  int64_t width = std::max<int64_t>(1, c.shape.valueDim);
  for (int64_t first = 0; first + width <= output.size(); first += width) {
    double square = 0;
    for (double element : ArrayRef(output.data).slice(first, width))
      square += std::isfinite(element) ? element * element : 0;
    sum += square;
    sumOfSquares += square * square;
  }
  return sumOfSquares == 0 ? 1 : static_cast<int64_t>(sum * sum / sumOfSquares);
}

llvm::Expected<CheckedCase> CheckedCase::create(AttentionCase problem,
                                                MLIRContext &context,
                                                std::mt19937_64 &random,
                                                int64_t mostWork) {
  CheckedCase checked;
  checked.problem = std::move(problem);
  AttentionCase &c = checked.problem;
  if (llvm::Error error = checked.findVisible(context, mostWork))
    return std::move(error);
  checked.poison(random);
  checked.drawRows(random, mostWork);
  AttentionOp op = parse(c, context, checked.module);
  if (!op)
    return llvm::createStringError("does not parse");
  auto isWanted = [&](int64_t b, int64_t h, int64_t i) -> bool {
    return checked
        .isCompared[(b * c.shape.queryHeads + h) * c.shape.queryLength + i];
  };
  llvm::Expected<OracleResult> exact =
      evaluateAttention(op, c.arrays(), isWanted);
  if (!exact)
    return exact.takeError();
  llvm::Expected<OracleResult> straight =
      evaluateStraightforward(op, c.arrays(), isWanted);
  if (!straight)
    return straight.takeError();
  int64_t rows = effectiveRows(c, exact->output);
  checked.bound =
      errorBound(op, relativeError(straight->output, exact->output), rows);
  checked.lseBound = 3 * largestDifference(straight->lse, exact->lse) +
                     (c.element == "f64" ? 1e-14 : 1e-6);
  checked.expected = std::move(*exact);
  return checked;
}

std::string CheckedCase::compare(const Array &output, const Array &lse,
                                 double slack) const {
  double error =
      relativeError(comparedRows(output, /*isLse=*/false), expected.output);
  // Written so that a NaN fails.
  if (!(error <= slack * bound))
    return "output error " + std::to_string(error / bound) +
           " of its bound; error " + std::to_string(error);
  if (!rowsWithoutKeysAreZero(problem, visible, output))
    return "a row without keys is not 0";
  if (!problem.wantsLse)
    return "";
  double difference =
      largestDifference(comparedRows(lse, /*isLse=*/true), expected.lse);
  if (!(difference <= slack * lseBound))
    return "lse difference " + std::to_string(difference / lseBound) +
           " of its bound";
  return "";
}

uint64_t attn::firstSeed() {
  if (const char *given = std::getenv("ATTN_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

int64_t attn::problemCount(int64_t usual) {
  const char *given = std::getenv("ATTN_TEST_COUNT");
  return given ? std::strtoll(given, nullptr, 10) : usual;
}
