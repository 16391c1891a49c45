//===- Check.cpp - A kernel's results against the oracle ------------------===//

#include "Check.h"
#include "attn/Reference/Oracle.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <random>

using namespace attn;
using namespace mlir;

/// Multiply-adds that the oracle does in about half a second.
static constexpr int64_t kWork = 250'000'000;
static constexpr int64_t kFewestRows = 32;

namespace {
/// The rows [b, h, i] that are compared, by their number in this order.
struct RowSample {
  int64_t heads = 0, length = 0, total = 0;
  std::vector<char> isWanted;
  int64_t wanted = 0;

  bool operator()(int64_t b, int64_t h, int64_t i) const {
    return isWanted[(b * heads + h) * length + i];
  }
};

/// An output of the kernel and what it should be.
struct Comparison {
  std::string name;
  const HostTensor *got = nullptr;
  bool isLse = false;
};
} // namespace

static Array toArray(const HostTensor &tensor) {
  Array array;
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  array.data = tensor.toDoubles();
  return array;
}

static RowSample sampleRows(AttentionOp op, ArrayRef<Array> operands,
                            uint64_t seed) {
  const Array &query = operands[0], &key = operands[1], &value = operands[2];
  RowSample sample;
  sample.heads = query.shape[headDimension(op.getQueryLayout())];
  sample.length = query.shape[sequenceDimension(op.getQueryLayout())];
  sample.total = query.shape[0] * sample.heads * sample.length;
  int64_t keys = key.shape[sequenceDimension(op.getKeyLayout())];
  int64_t work = std::max<int64_t>(keys * (query.shape[3] + value.shape[3]), 1);
  int64_t rows = std::max(kWork / work, kFewestRows);
  sample.isWanted.assign(sample.total, rows >= sample.total);
  sample.wanted = std::min(rows, sample.total);
  if (rows >= sample.total)
    return sample;
  std::mt19937_64 random(seed);
  for (int64_t part = 0; part < rows; ++part) {
    int64_t first = part * sample.total / rows;
    int64_t end = (part + 1) * sample.total / rows;
    sample.isWanted[first + random() % (end - first)] = true;
  }
  return sample;
}

/// The sampled rows of an output (in its layout) or lse, one after the other.
static Array rowsOf(const Array &whole, AttentionOp op, bool isLse,
                    const RowSample &sample) {
  int64_t width = isLse ? 1 : whole.shape[3];
  bool isBshd = !isLse && op.getOutputLayout() == Layout::bshd;
  Array rows;
  rows.shape = {sample.wanted, width};
  for (int64_t row = 0; row < sample.total; ++row) {
    if (!sample.isWanted[row])
      continue;
    int64_t i = row % sample.length, bh = row / sample.length;
    int64_t b = bh / sample.heads, h = bh % sample.heads;
    int64_t place = isBshd ? (b * sample.length + i) * sample.heads + h : row;
    auto begin = whole.data.begin() + place * width;
    rows.data.insert(rows.data.end(), begin, begin + width);
  }
  return rows;
}

/// Which outputs of the launch are results of the attention.
static std::vector<Comparison> findOutputs(const AttentionInFunction &attention,
                                           func::FuncOp entry,
                                           const LaunchDescription &launch,
                                           ArrayRef<HostTensor> arguments) {
  std::vector<Comparison> outputs;
  auto add = [&](size_t argument, bool isLse) {
    outputs.push_back(
        {launch.arguments[argument].name, &arguments[argument], isLse});
  };
  AttentionOp op = attention.op;
  if (op.isMemRefForm()) {
    size_t first = attention.operands.size() - op.getOuts().size();
    for (size_t i = first; i < attention.operands.size(); ++i)
      add(*attention.operands[i].argument, i > first);
    return outputs;
  }
  for (auto [index, result] : llvm::enumerate(attention.results))
    add(entry.getNumArguments() + index, result == 1);
  return outputs;
}

llvm::Expected<std::string> attn::checkResults(func::FuncOp entry,
                                               const LaunchDescription &launch,
                                               ArrayRef<HostTensor> arguments,
                                               uint64_t seed) {
  llvm::Expected<AttentionInFunction> attention = findAttention(entry);
  if (!attention)
    return llvm::createStringError(
        "cannot check: " + toString(attention.takeError()) +
        "; run with --no-check");
  SmallVector<Array> inputs;
  for (size_t i = 0; i < entry.getNumArguments(); ++i)
    inputs.push_back(toArray(arguments[i]));
  auto operands = attention->bind(inputs);
  if (!operands)
    return operands.takeError();
  AttentionOp op = attention->op;
  RowSample sample = sampleRows(op, *operands, seed);
  auto exact = evaluateAttention(op, *operands, sample);
  if (!exact)
    return exact.takeError();
  auto straightforward = evaluateStraightforward(op, *operands, sample);
  if (!straightforward)
    return straightforward.takeError();

  std::string report;
  for (const Comparison &output :
       findOutputs(*attention, entry, launch, arguments)) {
    if (int64_t unwritten = output.got->countPoisoned())
      return llvm::createStringError(
          "%s: %lld of %lld elements were never written", output.name.c_str(),
          (long long)unwritten, (long long)output.got->size());
    auto rows = [&](const Array &whole) {
      return rowsOf(whole, op, output.isLse, sample);
    };
    Array expected = rows(output.isLse ? exact->lse : exact->output);
    auto errorOf = [&](const Array &got) {
      return output.isLse ? lseError(got, expected)
                          : relativeError(got, expected);
    };
    Array usualRows =
        rows(output.isLse ? straightforward->lse : straightforward->output);
    double usual = errorOf(usualRows);
    double error = errorOf(rows(toArray(*output.got)));
    double bound = output.isLse ? lseBound(op, usualRows, expected)
                                : errorBound(op, usualRows, expected);
    std::string line = llvm::formatv(
        "{0}: error {1:e2}, bound {2:e2} (straightforward {3:e2})", output.name,
        error, bound, usual);
    // Written so that a NaN fails.
    if (!(error <= bound))
      return llvm::createStringError(Twine(line) +
                                     "; the kernel's result is wrong");
    report += line + "\n";
  }
  report += sample.wanted == sample.total
                ? llvm::formatv("all {0} rows checked\n", sample.total).str()
                : llvm::formatv("{0} of {1} rows checked, drawn at random\n",
                                sample.wanted, sample.total)
                      .str();
  return report;
}
