//===- CheckedCase.cpp - A problem and what to expect of it ---------------===//

#include "CheckedCase.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
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
void CheckedCase::poison(std::mt19937_64 &random, bool poisonsVisible) {
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
  bool poisonsSeenKeys = chance(0.15) && poisonsVisible,
       poisonsQueries = chance(0.1) && poisonsVisible;
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
    std::fill_n(whole.data.begin() + place * width, width,
                isLse ? -kInfinity : 0.0);
  }
  return whole;
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

llvm::Expected<CheckedCase> CheckedCase::create(AttentionCase problem,
                                                MLIRContext &context,
                                                std::mt19937_64 &random,
                                                int64_t mostWork,
                                                bool poisonsVisible) {
  CheckedCase checked;
  checked.problem = std::move(problem);
  AttentionCase &c = checked.problem;
  if (llvm::Error error = checked.findVisible(context, mostWork))
    return std::move(error);
  checked.poison(random, poisonsVisible);
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
  checked.rows = effectiveRows(exact->output, c.shape.valueDim);
  checked.usual = relativeError(straight->output, exact->output);
  exact->lse = checked.comparedRows(std::move(exact->lse), /*isLse=*/true);
  Array usualLse =
      checked.comparedRows(std::move(straight->lse), /*isLse=*/true);
  checked.usualLse = lseError(usualLse, exact->lse);
  checked.lseRows = llvm::count(checked.isCompared, true);
  checked.bound = errorBound(op, straight->output, exact->output);
  checked.lseBound = attn::lseBound(op, usualLse, exact->lse);
  checked.expected = std::move(*exact);
  return checked;
}

/// A line for ATTN_TEST_FIGURES.
static void writeFigures(StringRef path, const std::string &line) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error, llvm::sys::fs::OF_Append);
  file << line;
}

std::string CheckedCase::compare(const Array &output, const Array &lse,
                                 double slack) const {
  double error =
      relativeError(comparedRows(output, /*isLse=*/false), expected.output);
  double errorOfLse =
      problem.wantsLse
          ? lseError(comparedRows(lse, /*isLse=*/true), expected.lse)
          : 0;
  if (const char *path = std::getenv("ATTN_TEST_FIGURES"))
    writeFigures(path,
                 llvm::formatv("{0} {1} {2} {3:e3} {4:e3} {5} {6:e3} {7:e3}\n",
                               problem.element, problem.outputElement, rows,
                               usual, error, problem.wantsLse ? lseRows : 0,
                               usualLse, errorOfLse));
  auto compareTo = [](StringRef name, double error, double bound) {
    // Written so that a NaN is beyond.
    return error <= bound ? std::string()
                          : llvm::formatv("{0} error {1:e3}, bound {2:e3}",
                                          name, error, bound)
                                .str();
  };
  std::string wrong = compareTo("output", error, slack * bound);
  if (!wrong.empty())
    return wrong;
  if (!rowsWithoutKeysAreZero(problem, visible, output))
    return "a row without keys is not 0";
  if (!problem.wantsLse)
    return "";
  return compareTo("lse", errorOfLse, slack * lseBound);
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
